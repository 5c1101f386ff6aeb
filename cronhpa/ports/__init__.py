"""Ports of our own: how connections are accepted, for /metrics and probes as for the page."""
