"""The live shell: watches objects, reconciles each of them when it is due, and writes the changes."""
