"""What is written, and in which order."""
