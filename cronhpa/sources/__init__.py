"""Metrics without an adapter: named sources that the operator asks: a Prometheus, the target's pods, or a URL."""
