"""Forecasts: floors that are worth their cost, the worker processes that compute them, and the schedule of fits."""
