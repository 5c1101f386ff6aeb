"""The methods by their names: baselines first, the operator's own last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpa_models import error_mixture
from cronhpa_models.clock_increments import ClockIncrements
from cronhpa_models.decomposed import Decomposed
from cronhpa_models.exponential_smoothing import ExponentialSmoothing
from cronhpa_models.hourly_profile import HourlyProfile
from cronhpa_models.last_value import LastValue
from cronhpa_models.mixture import Mixture
from cronhpa_models.periodic_autoregression import PeriodicAutoregression
from cronhpa_models.seasonal_naive import SeasonalNaive
from cronhpa_models.time_of_week import TimeOfWeek

if TYPE_CHECKING:
    from cronhpa_models.method import Method

CATALOG: dict[str, Method] = {
    "LastValue": LastValue(),
    "SeasonalNaive": SeasonalNaive(),
    "HourlyProfile": HourlyProfile(),
    "TimeOfWeek": TimeOfWeek(corrected=False),
    "TimeOfWeekCorrected": TimeOfWeek(corrected=True),
    "ClockIncrements": ClockIncrements(),
    "PeriodicAutoregression": PeriodicAutoregression(),
    "ExponentialSmoothing": ExponentialSmoothing(),
    "Decomposed": Decomposed(),
    **{name: Mixture(name) for name in error_mixture.METHODS},
}
