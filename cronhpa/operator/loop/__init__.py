"""Which object is reconciled, when, and how."""
