"""Objects from files and clusters."""
