"""What is known of each object, and who watches it."""
