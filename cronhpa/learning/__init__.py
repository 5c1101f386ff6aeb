"""Load history and forecasts: the recorder's store, worker processes that fit and forecast, and what came of it."""
