"""Forecasting methods: pandas in, quantiles out; they know nothing of Kubernetes. One method a file, with its card."""
