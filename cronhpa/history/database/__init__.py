"""The databases of the store."""
