"""Who may read what."""
