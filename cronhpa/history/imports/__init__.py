"""Where loads are imported from."""
