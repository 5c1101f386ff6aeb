"""`cronhpa report`: what it reads, and how its answer is shown."""
