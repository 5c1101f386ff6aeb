"""The operator's own ports: how they accept connections, both for /metrics and probes and for the page."""
