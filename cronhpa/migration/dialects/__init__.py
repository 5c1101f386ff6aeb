"""Other autoscalers' objects, a file each."""
