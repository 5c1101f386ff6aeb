"""Explains in words why an object has its replicas, from its spec and status alone: for commands and the page."""
