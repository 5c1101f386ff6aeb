"""What forecasts really cost, counted turn by turn, and whether a budget lasts. The store keeps it over a restart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from cronhpa.core.decision import Decision
from cronhpa.core.instant import HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Absent, Observation, Scale
from cronhpa.core.predictive.budget import WEEK_HOURS, Hour, share, spent
from cronhpa.core.shadow import Shadow, follow
from cronhpa.core.spec import Spec
from cronhpa.learning.store import Series, Spend

# A pause longer than this many periods (a restart, a turn that failed) is nobody's pods.
_PERIODS_MAX = 4
# Adding up a week takes as long as a decision: a minute's spend cannot matter much.
_JUDGED_FOR = MINUTE


class _Account(Struct):
    """
    One object.

    at: its last turn. shadow, replicas: what would be there without the forecast. hours: what was counted, by hour.
    verdict, used_permille: what that comes to, as it was at `judged_at`.
    """

    at: Nanoseconds | None = None
    shadow: Shadow | None = None
    replicas: int = 0
    hours: dict[int, Hour] = {}
    judged_at: Nanoseconds | None = None
    verdict: Absent | None = None
    used_permille: int = 0


class Ledger:
    def __init__(self) -> None:
        self._accounts: dict[Series, _Account] = defaultdict(_Account)
        self._unwritten: dict[tuple[Series, int], Hour] = {}

    def load(self, spend: Iterable[Spend]) -> None:
        """Take up what the store kept of an earlier process."""
        for each in spend:
            self._add(each.series, each.hour, Hour(each.extra, each.base))

    def count(
        self, series: Series, spec: Spec, observation: Observation, memory: Memory, decision: Decision, now: Nanoseconds
    ) -> None:
        """
        Count the pods since the last turn, and follow what would be without the forecast.

        memory: as the turn began with it.
        """
        scale = observation.scale
        if isinstance(scale, Absent):
            return
        account = self._accounts[series]
        shadow = account.shadow
        account.replicas = scale.spec_replicas if shadow is None else shadow.replicas
        if account.at is not None and 0 < now - account.at <= _PERIODS_MAX * spec.tuning.sync_period:
            seconds = (now - account.at) / SECOND
            counted = Hour(_extra(scale, shadow) * seconds, account.replicas * seconds)
            self._add(series, now // HOUR, counted)
            key = (series, now // HOUR)
            self._unwritten[key] = self._unwritten.get(key, Hour()) + counted
        account.at = now
        account.shadow = follow(shadow, spec, observation, memory, decision, now)

    def verdict(self, series: Series, spec: Spec, now: Nanoseconds) -> Absent | None:
        """Why the forecast of this object must wait; None while its budget lasts, or where nothing was counted yet."""
        if spec.forecast is None or series not in self._accounts:
            return None
        account = self._accounts[series]
        if account.judged_at is None or abs(now - account.judged_at) >= _JUDGED_FOR:
            account.judged_at = now
            account.verdict = spent(account.hours, now, account.replicas, spec.forecast.budget_percent)
            account.used_permille = round(1000 * share(account.hours, now, WEEK_HOURS, account.replicas))
        return account.verdict

    def used_permille(self, series: Series) -> int | None:
        """What the forecast added to the pod-hours of seven days, when last judged; None while nothing was counted."""
        account = self._accounts.get(series)
        return None if account is None else account.used_permille

    def drain(self) -> list[Spend]:
        """What was counted since the last call, for the store."""
        taken = [Spend(series, hour, item.extra, item.base) for (series, hour), item in self._unwritten.items()]
        self._unwritten.clear()
        return taken

    def restore(self, spend: Iterable[Spend]) -> None:
        """Take back what the store could not write."""
        for each in spend:
            key = (each.series, each.hour)
            self._unwritten[key] = self._unwritten.get(key, Hour()) + Hour(each.extra, each.base)

    def forget(self, series: Series) -> None:
        self._accounts.pop(series, None)

    def _add(self, series: Series, hour: int, counted: Hour) -> None:
        hours = self._accounts[series].hours
        hours[hour] = hours.get(hour, Hour()) + counted
        # Hours come in order: what is too old to count is at the front.
        while next(iter(hours)) <= hour - WEEK_HOURS:
            del hours[next(iter(hours))]


def _extra(scale: Scale, shadow: Shadow | None) -> int:
    return 0 if shadow is None else max(scale.spec_replicas - shadow.replicas, 0)
