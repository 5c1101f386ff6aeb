"""Forecasts: which floor is worth its cost, the worker processes that compute it, and when each object is refitted."""
