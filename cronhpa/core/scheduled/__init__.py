"""What schedules and overrides ask for: whether a window is open is a function of its text, the time zone data and now."""
