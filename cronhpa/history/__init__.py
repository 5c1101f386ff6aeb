"""The operator's store (load history, fits, forecasts, spend), and the sources from which load history is imported."""
