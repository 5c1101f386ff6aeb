"""Schedules: cron, zones, windows, bounds, leads."""
