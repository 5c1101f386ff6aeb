"""The values that a decision is made of."""
