"""Forecasting methods: arrays in, distributions out, nothing of Kubernetes. Each method has a file with its card."""
