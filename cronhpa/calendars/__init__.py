"""Calendars that people keep: `.ics` files and feeds, and their events around now."""
