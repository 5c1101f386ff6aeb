"""What schedules and overrides ask for: a function of their text, the time zone data and now."""
