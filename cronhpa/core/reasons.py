"""
Decisions in words: the only home of the sentences that say why a count is what it is.

Each sentence is made from the values of a decision, and names what really set the number: who asks for how many, what
a stabilization window holds and until when, which policy limits the step. Instants are RFC 3339 in UTC; who knows the
zone of a reader writes them anew. The upstream's own words stand in `upstream_reason`.
"""

from __future__ import annotations

from cronhpa.core.decision import (
    BY_NOBODY,
    BY_SPEC,
    Abstention,
    Ahead,
    Decision,
    DecisionKind,
    ExpectedLoad,
    FloorLimit,
    Held,
    Proposal,
    Rate,
    Role,
    Rule,
    Source,
    SourceRef,
    Step,
    Yielding,
)
from cronhpa.core.instant import SECOND, format_instant

ABOVE_MAXIMUM = "Current number of replicas above Spec.MaxReplicas"
BELOW_MINIMUM = "Current number of replicas below Spec.MinReplicas"
ALL_BELOW = "All metrics below target"
_OURS = {Source.FORECAST, Source.SCHEDULE, Source.OVERRIDE}
_BOUNDS = {Role.TARGET: "", Role.FLOOR: "at least ", Role.CAP: "at most "}
_FLOOR_LIMITS = {
    FloorLimit.COST: "{pods}; more would not be worth their cost",
    FloorLimit.BUDGET: "{pods}; budgetPercent is nearly used, so pods count as dearer",
    FloorLimit.CEILING: "{pods}; no more is believed than 1.1 times the largest load of the last seven days",
    FloorLimit.MAX_FLOOR: "more than {pods}, which is all that maxFloorReplicas allows",
}


def reason(decision: Decision) -> str:
    """Why the count is what it is: who asks for it, then each limit that changed it. Never empty."""
    asked = _asked(decision)
    if not decision.steps:
        return asked
    # `asked` is empty where there is no metric and an unreadable schedule keeps the count.
    return "; ".join(filter(None, (asked, *(step_reason(step, decision) for step in decision.steps))))


def event_reason(decision: Decision, *, is_upstream: bool) -> str:
    """
    Why the count changes, for the event of a change: in the upstream's words where nothing of ours took part.

    is_upstream: whether the spec has metrics alone; then its words are the upstream's, to the letter, even if they are
    none. The upstream says nothing where its stabilization raises.
    """
    theirs = upstream_reason(decision)
    return theirs if is_upstream or (theirs and not _took_part(decision)) else reason(decision)


def upstream_reason(decision: Decision) -> str:
    """The words of the upstream, fixed before its stabilization and rates; "" where it has none."""
    if decision.kind is DecisionKind.ABOVE_MAXIMUM:
        return ABOVE_MAXIMUM
    if decision.kind is DecisionKind.BELOW_MINIMUM:
        return BELOW_MINIMUM
    if decision.merged > decision.current and decision.named:
        return f"{decision.named} above target"
    if decision.merged < decision.current:
        return ALL_BELOW
    return BELOW_MINIMUM if any(step.rule is Rule.FLOOR for step in decision.steps) else ""


def proposal_reason(proposal: Proposal) -> str:
    """What the proposed count follows from; "" where a source just states it."""
    basis = proposal.basis
    if isinstance(basis, Ahead):
        ahead = f"{basis.length // SECOND} s ahead of its start at {format_instant(basis.start)}"
        return ahead if basis.stated is None else f"{ahead}, when {proposal.replicas} of its {basis.stated} are allowed"
    if isinstance(basis, Yielding):
        return f"{basis.stated}, raised for what opens when it closes"
    return "" if basis is None else _expected(basis, proposal.replicas)


def step_reason(step: Step, decision: Decision) -> str:
    """What a limit of this decision did to the count, and why."""
    if isinstance(step.cause, Held):
        return f"{step.after} {_HOLDS[step.rule]} by stabilization: {_held(step.cause)}"
    if isinstance(step.cause, Rate):
        return f"limited to {step.after}: {_rate(step.rule, step.cause)}"
    unreadable = next((_ref(item) for item in decision.abstentions if item.source is Source.SCHEDULE), None)
    if step.rule is Rule.NO_EVIDENCE:
        kept = f"{step.after} stay" if step.after == decision.current else f"{step.after} in place of {step.before}"
        return f"{kept}, as {unreadable} cannot be read and may ask for more"
    if step.rule is Rule.TOO_MANY_REPLICAS and step.cause == unreadable:
        return f"lowered to {step.after}, which are there: {unreadable} cannot be read and may allow more"
    return _bounded(step, decision)


_HOLDS = {Rule.SCALE_UP_STABILIZED: "kept back", Rule.SCALE_DOWN_STABILIZED: "held"}
_BOUNDED = {
    Rule.FLOOR: ("raised", "floor"),
    Rule.CAP: ("lowered", "cap"),
    Rule.TOO_FEW_REPLICAS: ("raised", "minimum"),
    Rule.TOO_MANY_REPLICAS: ("lowered", "maximum"),
}


def _bounded(step: Step, decision: Decision) -> str:
    """What a bound did to the count; in the proposal's words where the number is not the one that its source states."""
    changed, noun = _BOUNDED[step.rule]
    if step.rule is Rule.FLOOR and step.cause == BY_SPEC:
        noun = "minimum"
    asked = (item for item in decision.proposals if (item.by, item.replicas) == (step.cause, step.after))
    for item in asked:
        if isinstance(item.basis, Ahead | Yielding) and item.basis.stated is not None:
            return f"{changed} to {step.after}, as {_asks(item)}"
    return f"{changed} to {step.after}, the {noun} of {step.cause}"


def _asked(decision: Decision) -> str:
    """Who asks for the merged count, or why nobody does."""
    failure = "" if decision.failure is None else decision.failure.message
    if decision.kind is DecisionKind.UNREACHABLE:
        return f"the scale cannot be read: {failure}"
    if decision.kind is DecisionKind.SUSPENDED:
        return "0 stay: somebody else scaled the target to zero"
    if decision.kind in {DecisionKind.ABOVE_MAXIMUM, DecisionKind.BELOW_MINIMUM}:
        return f"{upstream_reason(decision)}, which is {decision.desired}"
    by = decision.decided_by if decision.recommended is None else decision.recommended.by
    if by is None or by == BY_NOBODY:
        if failure:
            return f"{decision.current} stay: no metric asks for a count: {failure}"
        return "; ".join(_asks(item) for item in decision.proposals if item.role is Role.TARGET)
    if by.source is Source.METRIC:
        asks = f"{by!s} asks for {decision.merged}"
        return asks if decision.merged == decision.current else f"{asks} ({upstream_reason(decision)})"
    stated = _stated(decision, by)
    other = {Role.FLOOR: Role.CAP, Role.CAP: Role.FLOOR}[stated.role]
    if any((item.by, item.role, item.replicas) == (by, other, stated.replicas) for item in decision.proposals):
        return f"{by} asks for exactly {stated.replicas}"
    return _asks(stated)


def _stated(decision: Decision, by: SourceRef) -> Proposal:
    """What a source states that set the merged count: a cap where the metrics ask for more, else a floor."""
    metrics = None if decision.recommended is None else decision.recommended.metrics
    role = Role.CAP if metrics is not None and decision.merged < metrics else Role.FLOOR
    stated = [item for item in decision.proposals if item.by == by and item.replicas == decision.merged]
    stated.sort(key=lambda item: item.role is not role)
    return stated[0] if stated else Proposal(by.source, by.name, role, decision.merged)


def _asks(proposal: Proposal) -> str:
    why = proposal_reason(proposal)
    return f"{proposal.by} asks for {_BOUNDS[proposal.role]}{proposal.replicas}" + (f" ({why})" if why else "")


def _expected(load: ExpectedLoad, replicas: int) -> str:
    percent = f"{load.percent} %" if load.percent else "less than 1 %"
    likely = "" if load.percent is None else f" is {percent} likely"
    if load.percent and load.limit is FloorLimit.CEILING:
        likely = f" is at least {percent} likely"
    expected = f"a load of {load.load:.4g} or more from {format_instant(load.at)} on{likely}"
    if not replicas:
        return f"{expected}: no pod is worth its cost"
    headroom = f" and {load.headroom_percent} % headroom" if load.headroom_percent else ""
    pods = f"{_pods(replicas)} at {load.carried:.4g} each{headroom}"
    return f"{expected}: {_FLOOR_LIMITS[load.limit].format(pods=pods)}"


def _held(held: Held) -> str:
    if held.by is None:
        asked = f"{held.asked} recommended at {format_instant(held.at)}"
    elif held.by == BY_NOBODY:
        asked = f"{held.asked} found at {format_instant(held.at)}"
    else:
        asked = f"{held.asked} asked for at {format_instant(held.at)} by {held.by}"
    if held.assumed is not None:
        asked += f" (assumed until the restart at {format_instant(held.assumed)})"
    return f"{asked}, until {format_instant(held.until)}"


def _rate(rule: Rule, rate: Rate) -> str:
    name, more = ("scaleUp", "more") if rule is Rule.SCALE_UP_LIMIT else ("scaleDown", "fewer")
    if rate.disabled:
        return f"selectPolicy of {name} is Disabled"
    if rate.policy is None:
        return f"without a behavior at most twice the {rate.start} that are there, or 4"
    value, period = rate.policy.value, rate.policy.period // SECOND
    pods = f"{value} %" if rate.policy.type == "Percent" else _pods(value)
    if rate.start < 0:  # somebody else removed pods that had come within the period
        return f"{name} allows {pods} {more} in {period} s, and more than there are came within them"
    return f"{name} allows {pods} {more} than {rate.start} in {period} s"


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _ref(item: Abstention) -> SourceRef:
    return SourceRef(item.source, item.name)


def _took_part(decision: Decision) -> bool:
    """Whether a schedule, an override or a forecast had a part in the count."""
    asked = () if decision.recommended is None else (decision.recommended.by,)
    causes = (step.cause.by if isinstance(step.cause, Held) else step.cause for step in decision.steps)
    return decision.bounded or any(
        isinstance(by, SourceRef) and by.source in _OURS for by in (decision.decided_by, *asked, *causes)
    )
