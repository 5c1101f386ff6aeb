"""Load history: what was measured, what was fitted to it, what forecasts cost, and where history comes from."""
