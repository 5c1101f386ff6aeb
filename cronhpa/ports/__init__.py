"""What many share: places and turns, connections to our own ports (/metrics, probes, the page), the words of errors."""
