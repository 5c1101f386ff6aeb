"""Past decisions."""
