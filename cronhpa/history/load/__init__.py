"""Loads, fits and forecasts, as they are stored."""
