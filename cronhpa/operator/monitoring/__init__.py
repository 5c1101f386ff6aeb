"""Metrics, probes, logs and traces."""
