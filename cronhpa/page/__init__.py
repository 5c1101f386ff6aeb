"""The page: a fleet, one object, a calendar and what-if in a browser. Read-only; it shows what its caller may get."""
