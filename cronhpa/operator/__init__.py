"""The live shell: watches objects, takes each one's turn when it is due, writes what changed."""
