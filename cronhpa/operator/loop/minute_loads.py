"""The observed loads on their way to the store: the highest of each minute, of the metric that is an object's load."""

from __future__ import annotations

from collections import deque

from cronhpa.core.forecasts.floor import forecast_source, load_of
from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.observation import Observation
from cronhpa.core.model.spec import Spec
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.operator.objects.object_state import ObjectState

# While the store cannot be written, the oldest are dropped.
_LOADS_KEPT = 200_000


class MinuteLoads:
    def __init__(self) -> None:
        self.unstored: deque[LoadSample] = deque(maxlen=_LOADS_KEPT)
        """The highest load of each minute that is over, not stored yet."""

    def observed(self, state: ObjectState, spec: Spec, observation: Observation, now: Nanoseconds) -> None:
        """Records the observed load of the metric that is the object's load."""
        source, series = forecast_source(spec), state.load_series
        if source is None or series is None:
            return
        for metric, reading in zip(spec.metrics, observation.readings, strict=False):
            if metric is source and (load := load_of(reading)) is not None:
                self.note(state, series, now, load)

    def note(self, state: ObjectState, series: Series, now: Nanoseconds, load: float) -> None:
        """Keeps the highest load of a minute: the store does so, too, and gets one sample a minute."""
        highest = state.local.minute_load
        if highest is not None and (highest.at // MINUTE != now // MINUTE or highest.series != series):
            self.unstored.append(highest)
            highest = None
        if highest is None or load > highest.value:
            state.local.minute_load = LoadSample(series, now, load)

    def flush(self, state: ObjectState) -> None:
        """Queues the load of the minute under way: somebody else may decide on the object from now on."""
        if state.local.minute_load is not None:
            self.unstored.append(state.local.minute_load)
            state.local.minute_load = None
