"""What many share: places and turns, and connections to our own ports, for /metrics, probes and the page."""
