"""
What must hold in a simulated hour, judged from what the API server saw and from what was decided.

The names S1 to S11, L1 and L2 are those of docs/engineering/reliability.md. The arithmetic is written anew: a rule of
the operator is not judged by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from model_api import START
from simulated_replica import LEASE, TIMING
from simulated_world import LEASES, Violation, World

from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.kube.lease import LeaseName

# A decision is remembered under its grid instant, at most a tenth of a period and an answer earlier.
# What a pod may use: half of its core.
_POD_MILLI = 500
# The minutes of a window that is open until the end of the hour.
OPEN_END = 60
_SLACK = 5.0
_PERIOD_MAX = 30
_DEFAULT_WINDOW = 300.0
# What a sample covers: of a pod that was not Ready for all of it, it does not count.
_SAMPLED = 30.0
# The most by which the clock of a replica differs.
_DRIFT = 60.0
# Longer than a reconciliation may take, and than a sync period.
_ONE_RECONCILIATION = 75.0
# A decision is in the status after a few requests, of 20 ms each in calm weather.
_WRITTEN = 10.0
# What changes what is decided, and not whether it is written.
_HARMLESS = ("load", "blind", "half blind", "foreign", "silence", "watch", "by hand", "illness")
# What keeps nobody from reconciling each object in each period.
_NEIGHBOURLY = ("load", "by hand", "edit", "illness")
# A list of all objects every five minutes finds what every watch has missed.
_SWEPT = 330.0
# A list of all HorizontalPodAutoscalers, ten minutes and a quarter of jitter after the last one.
_LISTED = 760.0
# Somebody may delete the Lease 20 times, each time before the other replica has seen it.
_DELETED_IN_A_ROW = 160.0
# Leases of other installations are read every five seconds.
_LEASES_SEEN = 6.0
# While all is slow: the answer to a look, and the request that was decided on before it, take up to 3 s each.
_SLOW_ANSWERS = 6.0
# A stop: 15 s for reconciliations, three each for the events and the release; and what was sent before is done then.
_STOPS_SECONDS = 30.0
# The floor of a younger CronHPA on the same target, higher than anything else asks for.
YOUNGER_FLOOR = 30
# No measured lead is longer in these hours: pods start within 20 s, and a status may be forged to say an hour.
_LEAD_MINUTES = 60.0


class Recommended(NamedTuple):
    """What a replica recommended in a period, by a decision that may have stood since another one."""

    second: float
    who: str
    replicas: int
    decided: float
    term: int
    """Of the replica, for the object's namespace."""


@dataclass
class Judge:
    """
    stirs: (second, what) of everything that was done to the system. recommended: in each period, also by decisions that
    stand. written: (second, from, to) of each scale write. lease_of: by which the objects of a namespace are decided.
    since: since when something holds, by its name. gone: the uid of the object that was deleted last. others: by the
    names of another installation's replicas, its Lease.
    """

    world: World
    name: str = "shop"
    namespace: str = "prod"
    lease_of: Callable[[str], LeaseName] = lambda _: LEASE
    stirs: list[tuple[float, str]] = field(default_factory=list)
    recommended: list[Recommended] = field(default_factory=list)
    written: list[tuple[float, int, int]] = field(default_factory=list)
    status_writes: list[float] = field(default_factory=list)
    since: dict[str, float] = field(default_factory=dict)
    spec: dict[str, Any] | None = None
    gone: str = ""
    others: dict[str, LeaseName] = field(default_factory=dict)
    violation: Violation | None = None
    # When the object was reconciled last.
    reconciled: float = 0.0

    @property
    def lease(self) -> LeaseName:
        """By which the object is decided."""
        return self.lease_of(self.namespace)

    def stir(self, what: str) -> None:
        self.stirs.append((self.world.seconds(), what))

    def begin(self, what: str) -> None:
        self.since[what] = self.world.seconds()
        self.stir(what)

    def end(self, what: str) -> None:
        self.since.pop(what, None)
        self.stir(f"{what} ends")

    def note(self, who: str, spec: Any, decision: Any, term: int) -> None:
        if spec.namespace != self.namespace or spec.min_replicas == YOUNGER_FLOOR:
            return
        self._check_bounds(who, spec, decision)
        if decision.recommended is not None:
            now = self.world.seconds()
            self.recommended.append(Recommended(now, who, decision.recommended.highest, now, term))
        self._note_reconciled()

    def note_standing(self, who: str, namespace: str, name: str) -> None:
        """A replica's newest decision stands for one more period."""
        if (namespace, name) != (self.namespace, self.name):
            return
        latest = next((one for one in reversed(self.recommended) if one.who == who), None)
        assert latest is not None, "what stands was decided"
        self.recommended.append(latest._replace(second=self.world.seconds()))
        self._note_reconciled()

    def _note_reconciled(self) -> None:
        self.check_pace()
        self.reconciled = self.world.seconds()

    # At each decision.

    def _check_bounds(self, who: str, spec: Any, decision: Any) -> None:
        """
        S3 and S6: the bounds are those of the windows that are open by the time alone, else those of the spec. S2: a
        schedule that cannot be read, as one of planned events that are not listed, lets a cap alone scale down.

        Each window opens at a minute past 7 and lasts some minutes. Before that its floor may lead, and a cap yield.
        """
        if not decision.maximum:
            return
        minute = (decision.at - START) / MINUTE
        schedules = [schedule for schedule in spec.schedules if schedule.problem is None]
        begins = {schedule.name: int(schedule.window.start.split()[0]) for schedule in schedules}
        is_open = [
            schedule
            for schedule in schedules
            if begins[schedule.name] <= minute < begins[schedule.name] + schedule.window.duration / MINUTE
        ]
        ahead = [
            schedule.floor
            for schedule in schedules
            if schedule.floor is not None and minute < begins[schedule.name] <= minute + _LEAD_MINUTES
        ]
        text = f"{who} decides within {decision.minimum} to {decision.maximum} at minute {minute:.2f}"
        if len(schedules) < len(spec.schedules) and decision.desired < decision.current <= decision.maximum:
            self.fail("S2", f"{text} from {decision.current} to {decision.desired}, with a schedule that is not known")
        override = spec.override
        if override is not None and decision.at < override.until:
            if decision.minimum < (override.floor or 0) or decision.maximum > (override.cap or math.inf):
                self.fail("S3", f"{text}, where an override states {override.floor} to {override.cap}")
            return
        lowest = max((one.floor for one in is_open if one.floor is not None), default=spec.min_replicas)
        highest = min((one.cap for one in is_open if one.cap is not None), default=spec.max_replicas)
        if lowest > highest or len(is_open) > 1:
            return  # ranks decide, which tests of the core hold
        if decision.minimum < lowest or decision.maximum < highest:
            self.fail("S6", f"{text}, where {lowest} to {highest} are stated")
        if decision.minimum > max(lowest, *ahead, 0) or decision.maximum > max(highest, *ahead, 0):
            self.fail("S3", f"{text}, where {lowest} to {highest} are stated")

    # At each write.

    def check(self, client: Any, plural: str, below: str | None, resource: Any, body: Any) -> None:
        if plural == LEASES:
            return
        if self.world.is_late:
            if below == "scale" and "resourceVersion" not in body.get("metadata", {}):
                self.fail("S4", f"a request of {client.who} is done late, over whatever was done since")
            return
        self._check_parts_written(plural, below, body)
        namespace = (resource or body)["metadata"]["namespace"]
        lease = self.others.get(client.who) or self.lease_of(namespace)
        if plural in {"cronhpas", "deployments"}:
            self._check_installation(client.who, lease, plural, resource["metadata"])
        holder = self.world.led_last.get((lease.namespace, lease.name), client.who)
        # A replica that stops waits three seconds for its events, and releases its Lease, answered or not.
        is_last_event = plural == "events" and self.stirred("stop", _STOPS_SECONDS)
        if holder != client.who and not is_last_event and not self._may_be_led_by_two():
            self.fail("S4", f"{client.who} writes {plural}/{below}, and {holder} led last")
        if namespace != self.namespace or (plural == "cronhpas" and resource["metadata"]["name"] != self.name):
            return
        if below == "status":
            self.status_writes.append(self.world.seconds())
        if below == "scale":
            self._check_scale(client.who, resource["spec"]["replicas"], body["spec"]["replicas"])

    def _may_be_led_by_two(self) -> bool:
        """
        Whether somebody deleted the Lease while there was no object: a replica that starts leads at once then, beside
        the former leader until one of the two finds the other's Lease (docs/engineering/reliability.md).
        """
        has_no_object = "deleted" in self.since or self.stirred("deleted", _DELETED_IN_A_ROW)
        return has_no_object and self.stirred("lease deleted", 60.0)

    def _check_installation(self, who: str, own: LeaseName, plural: str, meta: dict[str, Any]) -> None:
        """
        S4: nothing is written to an object, or to its target, that names an installation whose Lease is renewed.

        Where one starts anew when the other one takes its objects over, neither may have seen what the other one wrote.
        """
        found = self.world.objects["cronhpas"].get((meta["namespace"], meta["name"]), {})
        named = found.get("status", {}).get("operator")
        if not self.others or named == str(own) or not named:
            return
        has_begun = self._has_begun(named) or self._has_begun(str(own))
        renewed = self.world.renewed[named]
        if renewed and self.world.seconds() - renewed[0] < TIMING.lease and not has_begun:
            self.fail("S4", f"{who} of {own} writes {plural}, and {named} serves it")

    def _has_begun(self, lease: str) -> bool:
        """Whether a Lease was first renewed, after a pause, since others may have looked at it last."""
        now, renewed = self.world.seconds(), self.world.renewed[lease]
        is_slow = "slowness" in self.since or self.stirred("slowness", _LEASES_SEEN + _SLOW_ANSWERS)
        seen = _LEASES_SEEN + (_SLOW_ANSWERS if is_slow else 0.0)
        if self.stirred("silence of some events", _SWEPT):
            seen += _SWEPT  # the event may be lost that the other one has taken the object over
        unseen = [at for at in renewed if now - at < seen]
        if not unseen or len(unseen) == len(renewed):
            return bool(unseen)
        first = unseen[-1]
        # A Lease that was released is respected for less long than one whose holder is silent.
        respected = TIMING.lease if first == self.world.taken_free.get(lease) else 1.25 * TIMING.lease
        return first - renewed[len(unseen)] > respected

    def _check_parts_written(self, plural: str, below: str | None, body: Any) -> None:
        """S11: nothing but statuses and replicas is written to what is somebody else's."""
        owned = {"cronhpas": "status", "deployments": "scale"}
        is_traceless = body.get("metadata", {}).keys() <= {"resourceVersion"}
        if plural in owned and not (below == owned[plural] and is_traceless):
            self.fail("S11", f"{plural}/{below} is left with {body.get('metadata')}")

    def _check_scale(self, who: str, old: int, new: int) -> None:
        now = self.world.seconds()
        broken = "lists of horizontalpodautoscalers broken"
        is_blind = broken in self.since or self.stirred(broken, 120.0) or who not in self.world.told_of_rivals
        is_blind_step = is_blind and not self._lowers(old, new, who)
        is_told_late = self.stirred("silence of some events", _LISTED)
        if self._lasts("foreign", _LISTED if is_told_late else 120.0) and not is_blind_step:
            self.fail("S10", f"{old} to {new} beside a HorizontalPodAutoscaler")
        # Once the older one is gone the younger one scales, also where a watch has lost that it is gone, too.
        is_oldest = "deleted" in self.since or self.stirred("deleted", _SWEPT)
        if new >= YOUNGER_FLOOR and self.stirred("younger", math.inf) and not is_oldest:
            self.fail("S10", f"{old} to {new} by a younger CronHPA")
        is_told = now - self.world.told_deleted.get((who, self.gone), now) > _ONE_RECONCILIATION
        if "deleted" in self.since and (is_told or now - self.since["deleted"] > _SWEPT):
            self.fail("S11", f"{old} to {new} for an object that is gone")
        if self.spec is not None and not self.stirred("edit", _SWEPT) and not self.stirred("object", _SWEPT):
            lowest, highest = _outermost(self.spec)
            if not (lowest <= new <= highest or old < new < lowest or highest < new < old):
                self.fail("S1", f"{old} to {new}, outside {lowest} to {highest}")
            if self._lowers(old, new, who):
                self._check_down(who, old, new)
        self.written.append((now, old, new))

    def _lowers(self, old: int, new: int, who: str) -> bool:
        """Whether metrics lower the count, for which all other owners must be known; a cap may."""
        return self.spec is not None and new < old <= self._cap(self.spec, who)

    def _check_down(self, who: str, old: int, new: int) -> None:
        assert self.spec is not None
        now, spec = self.world.seconds(), self.spec
        self._check_evidence(old, new)
        if self.stirred("forged", math.inf):
            return  # docs/engineering/security.md: it may make the operator forget a window and a period
        self._check_intent(old, new)
        rules = spec.get("behavior", {}).get("scaleDown", {})
        window = float(rules.get("stabilizationWindowSeconds", _DEFAULT_WINDOW))
        span = max(window, *(float(policy["periodSeconds"]) for policy in rules.get("policies", [])), 0.0) + 60
        # Who begins a term has the instants of a status alone, by a clock that was set since: also the replica that led
        # before.
        recent = [one for one in self.recommended if now - one.second < span]
        deciders, terms = {one.who for one in recent}, {(one.who, one.term) for one in recent}
        if self.stirred("target", span) or (self.stirred("clock", span) and len(terms) > 1):
            return
        # Or by the clock of another replica: of two that drifted long ago one may be ahead by both drifts.
        apart = 2 * _DRIFT if len(deciders) > 1 and self.stirred("clock of", math.inf) else 0.0
        slack = _SLACK + apart
        for at, by, count, decided, _ in self.recommended:
            is_known = (by == who and not self._has_dropped(who, at)) or self._was_kept(decided)
            if now - window + slack < at <= now and new < min(count, old) and is_known:
                self.fail("S5", f"{old} to {new} by {who}, {now - at:.0f} s after {by} recommended {count}")
        for policy in rules.get("policies", []):
            period = float(policy["periodSeconds"])
            gone = sum(
                before - after for at, before, after in self.written if before > after and now - at < period - slack
            )
            came = sum(
                after - before for at, before, after in self.written if after > before and now - at < period + slack
            )
            if old - new > policy["value"] + came - gone:
                self.fail("S5", f"{old} to {new}: {gone} went and {came} came within {period:.0f} s, {policy}")

    def _check_intent(self, old: int, new: int) -> None:
        """S5: a scale-down is in the object's status before it is done."""
        if self.stirred("target restored", _ONE_RECONCILIATION):
            return  # the restore may have undone the status alone
        found = self.world.objects["cronhpas"].get((self.namespace, self.name), {})
        intent = found.get("status", {}).get("memory", {}).get("intent") or {}
        if (intent.get("from"), intent.get("to")) != (old, new):
            self.fail("S5", f"{old} to {new}, and the status intends {intent}")

    def _check_evidence(self, old: int, new: int) -> None:
        """S2: the usage that was answered of late asks for no more pods; one without a sample counts as busy."""
        now = self.world.seconds()
        oldest = (self.spec or {}).get("metricMaxAgeSeconds", math.inf)
        recent = [
            one
            for one in self.world.measured[self.namespace]
            if now - one.second < _ONE_RECONCILIATION and abs(one.age) <= oldest
        ]
        if not recent:
            self.fail("S2", f"{old} to {new} without evidence")
        if self.stirred("silence of some events", _LISTED) and self.stirred("target created", _LISTED):
            return  # a watch may have lost all but one of its pods, and another one that it has more
        if self.world.start_up is None:  # else pods that start do not count
            # The upstream works out a whole percent, of which a pod's target is 50.
            needed = min(math.ceil(one.milli / _POD_MILLI - one.pods / 50) for one in recent)
            if new < needed:
                self.fail("S2", f"{old} to {new}, and what was measured asks for {needed}")

    def _has_dropped(self, who: str, since: float) -> bool:
        """
        Whether a replica may have lost the object's shard since, cut off or as a storm lost the answer to a renewal: it
        drops all of it, and reads the statuses when it takes it again, as another process would. What it decided while
        its writes did not arrive is in none.
        """
        return self.lease != LEASE and any(
            when >= since and what.startswith((f"partition of {who}", "outage", "storm")) for when, what in self.stirs
        )

    def _was_kept(self, at: float) -> bool:
        """Whether what was decided then was certainly written: nothing befell the replicas or the API around it."""
        return not any(
            at - _ONE_RECONCILIATION <= when <= at + _WRITTEN and _befalls(what) for when, what in self.stirs
        ) and not any(since <= at + _WRITTEN and _befalls(what) for what, since in self.since.items())

    # From time to time, and at the end.

    def check_pace(self) -> None:
        """
        S8 and L2: where nothing disturbs it, the object is reconciled in each of its periods, also while another
        object's answers hang or are refused.
        """
        pause = self.world.seconds() - self.reconciled
        if not self.reconciled or self.spec is None or self._is_disturbed():
            return
        # An edit may have shortened a period that had begun.
        period = _PERIOD_MAX if self.stirred("edit", pause + _SLACK) else self.spec["syncPeriodSeconds"]
        if pause > period + _SLACK:
            rule = "S8" if "illness" in self.since or self.stirred("illness", pause + _SLACK) else "L2"
            self.fail(rule, f"it was not reconciled for {pause:.0f} s")

    def check_calm(self, calm_since: float) -> None:
        """L1, S3, S6, S7: twenty minutes after the last stir, the count is right and nothing is written."""
        assert self.spec is not None
        now, spec = self.world.seconds(), self.spec
        window = spec.get("behavior", {}).get("scaleDown", {}).get("stabilizationWindowSeconds", _DEFAULT_WINDOW)
        if self.world.start_up is not None and window < _SAMPLED + spec["syncPeriodSeconds"]:
            # The upstream's arithmetic: a pod that has just become Ready does not count and takes its share of the
            # load, so the others look idle for half a minute. Where no window reaches back to the reconciliation before
            # that, the new pod goes, and is asked for anew.
            return
        replicas = self.world.replicas(self.namespace, self.name)
        load = self.world.load[self.namespace, self.name]
        low, high = self._bounds_in_calm(spec)
        if low > high:
            return  # several windows are open, or one beyond the spec's bounds: tests of the core hold their ranks
        needed = max(low, min(high, math.ceil(load / _POD_MILLI)))
        # Of integers of millicores a pod: the upstream works out a whole percent.
        ratio = (load // replicas) / _POD_MILLI if replicas else math.inf
        if not low <= replicas <= high or (abs(ratio - 1) > 0.12 and replicas != needed):
            self.fail("L1", f"{replicas} replicas {now - calm_since:.0f} s after the last stir, {needed} are needed")
        late = [entry for entry in self.written if entry[0] > now - 300]
        if late:
            self.fail("S7", f"it still scales: {late}")
        statuses = sum(at > now - 300 for at in self.status_writes)
        if statuses > 3:
            self.fail("S7", f"{statuses} status writes in the last 300 s")

    def _bounds_in_calm(self, spec: dict[str, Any]) -> tuple[int, int]:
        """Those of the window that is open at the end of the hour, else those of the spec; (1, 0) for several."""
        is_open = [one for one in spec.get("schedules", []) if one["durationMinutes"] == OPEN_END]
        if len(is_open) > 1:
            return 1, 0
        bounds = {**spec, **(is_open[0] if is_open else {})}
        return bounds["minReplicas"], bounds["maxReplicas"]

    def check_parts(self, replicas: Any) -> None:
        if self.violation is not None:
            raise self.violation
        self.check_pace()
        for replica in replicas:
            for error in replica.failed:
                self.fail("L2", f"{replica.who} lost a part: {error!r}")

    def fail(self, rule: str, text: str) -> None:
        stirs = "; ".join(f"{at:.0f} s {what}" for at, what in self.stirs[-12:])
        writes = ", ".join(f"{at:.0f} s {old}>{new}" for at, old, new in self.written[-8:])
        violation = Violation(
            f"{rule} at {self.world.seconds():.1f} s: {text}\n  scaled: {writes}\n  done: {stirs}\n  spec: {self.spec}"
        )
        # What is raised in a write, the operator catches and logs.
        self.violation = self.violation or violation
        raise violation

    def _lasts(self, what: str, seconds: float) -> bool:
        return what in self.since and self.world.seconds() - self.since[what] > seconds

    def _is_disturbed(self) -> bool:
        """Whether anything of late may delay a reconciliation: a Lease that runs out, an event that no watch told."""
        now = self.world.seconds()
        recent = [what for at, what in self.stirs if now - at < _SWEPT]
        return any(not what.startswith(_NEIGHBOURLY) for what in (*recent, *self.since))

    def stirred(self, what: str, seconds: float) -> bool:
        return any(self.world.seconds() - at < seconds and text.startswith(what) for at, text in self.stirs)

    def _cap(self, spec: dict[str, Any], who: str) -> int:
        """The lowest cap that may be in force, or was until a moment ago."""
        override = spec.get("override", {})
        caps = [spec["maxReplicas"], *(override[bound] for bound in ("replicas", "maxReplicas") if bound in override)]
        at = self.world.seconds() + self.world.operators_offset / SECOND
        # A replica whose clock drifts opens and closes its windows that much earlier or later.
        drift = _DRIFT if self.stirred(f"clock of {who} drifts", math.inf) else 0.0
        for schedule in spec.get("schedules", []):
            begin = 60.0 * int(schedule["start"].split()[0])
            if (
                "maxReplicas" in schedule
                and begin - 1 - drift <= at <= begin + 60.0 * schedule["durationMinutes"] + _ONE_RECONCILIATION + drift
            ):
                caps.append(schedule["maxReplicas"])
        return min(caps)


def _befalls(what: str) -> bool:
    return not what.startswith(_HARMLESS)


def _outermost(spec: dict[str, Any]) -> tuple[int, int]:
    """The lowest and the highest count that the spec or any of its schedules allows at any time."""
    stated = [spec, *spec.get("schedules", []), spec.get("override", {})]
    lows = [bounds[key] for bounds in stated for key in ("minReplicas", "replicas", "maxReplicas") if key in bounds]
    highs = [bounds[key] for bounds in stated for key in ("maxReplicas", "replicas", "minReplicas") if key in bounds]
    return min(lows), max(highs)
