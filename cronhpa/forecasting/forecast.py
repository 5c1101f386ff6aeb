"""The forecast that a decision reads, from what a policy provisions at one origin."""

from __future__ import annotations

import math

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.forecasting.columns import Counts, Floats
from cronhpa.forecasting.coverage import coverage_percent
from cronhpa.forecasting.policy import FittedPolicy
from cronhpa.forecasting.provisioning import Provisioned
from cronhpa.history.database.series import STEP


def forecast_of(  # noqa: PLR0913 - what is stated, and when from what it was made
    metric: str,
    fitted: FittedPolicy,
    provisioned: Provisioned,
    place: int,
    *,
    issued_at: Nanoseconds,
    trained_until: Nanoseconds,
    by_minute: bool,
    excess: float | None,
    unusable: str = "",
) -> Forecast | None:
    """
    The forecast of the origin at `place`; None without a load there.

    by_minute: whether origins are minutes. If so, the first window ends within the next step; else it is the current
    step. excess: see `excess_coverage`. unusable: see Forecast.
    """
    if math.isnan(provisioned.load[0, place]) or math.isnan(provisioned.load[-1, place]):
        return None
    level = float(provisioned.level[0, place])
    near_steps = 2 if by_minute else 1
    far_steps = 4 - near_steps + fitted.workload.far_steps

    def steps(of_windows: Floats, replicas: Counts | None = None) -> tuple[float, ...]:
        """Values of the first window, then of the last one. With `replicas`: zero where there is no floor."""
        near, far = float(of_windows[0, place]), float(of_windows[-1, place])
        if replicas is not None:
            near = near if replicas[0, place] > 0 else 0.0
            far = far if replicas[-1, place] > 0 else 0.0
        return (near,) * near_steps + (far,) * far_steps

    return Forecast(
        metric=metric,
        issued_at=issued_at,
        start=issued_at - issued_at % STEP,
        step=STEP,
        load=steps(provisioned.load),
        ceiling=float(provisioned.ceiling[place]),
        model=fitted.model_name,
        quantile_percent=round(100 * level),
        trained_until=trained_until,
        coverage_percent=coverage_percent(level, excess),
        track_record=fitted.track_record,
        provisioned_load=steps(provisioned.load, provisioned.replicas),
        loads_by_budget_level=tuple(steps(load, replicas) for replicas, load in provisioned.by_budget_level),
        unusable=unusable,
        quantiles=tuple(round(100 * level) for level in steps(provisioned.level)),
    )
