"""The floor of a forecast, and its budget."""
