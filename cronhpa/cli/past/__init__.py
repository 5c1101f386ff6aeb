"""The past of an object."""
