"""What many share: places and turns, and the connections to the operator's own ports, for /metrics, probes and the page."""
