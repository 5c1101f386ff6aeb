"""Metrics without an adapter: named sources, asked by the operator itself: a Prometheus, or the pods of the target."""
