"""The page: a fleet, one object, a calendar and what-if in a browser. Read-only; callers see what they may get."""
