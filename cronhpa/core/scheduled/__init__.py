"""Schedules and overrides become bounds: a function of their text, the time zone data and now."""
