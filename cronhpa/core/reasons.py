"""
Decisions in words: the only home of the sentences that explain a count.

Each sentence is made from the values of a decision and names the cause of the number: the source and its count, the
recommendation that a stabilization window holds and until when, the policy that limits the step. Instants are RFC 3339
in UTC; callers that know a reader's zone rewrite them. `upstream_reason` has the upstream's own words.
"""

from __future__ import annotations

from cronhpa.core.model.decision import (
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
    Unmeasured,
    Yielding,
)
from cronhpa.core.model.instant import SECOND, format_instant
from cronhpa.core.model.observation import Crowd

ABOVE_MAXIMUM = "Current number of replicas above Spec.MaxReplicas"
BELOW_MINIMUM = "Current number of replicas below Spec.MinReplicas"
ALL_BELOW = "All metrics below target"
_OURS = {Source.FORECAST, Source.FALLBACK, Source.SCHEDULE, Source.OVERRIDE}
_BOUNDS = {Role.TARGET: "", Role.FLOOR: "at least ", Role.CAP: "at most "}
_FLOOR_LIMITS = {
    FloorLimit.COST: "{pods}; more would not be worth their cost",
    FloorLimit.BUDGET: "{pods}; budgetPercent is nearly used, so pods count as dearer",
    FloorLimit.CEILING: "{pods}; no more is believed than 1.1 times the largest load of the last seven days",
    FloorLimit.MAX_FLOOR: "more than {pods}, which is all that maxFloorReplicas allows",
}


def reason(decision: Decision) -> str:
    """Explains the count: its source, then each limit that changed it. Never empty."""
    source = _asked(decision)
    if not decision.steps:
        return source
    # `source` is empty if there is no metric and an unreadable schedule keeps the count.
    return "; ".join(filter(None, (source, *(step_reason(step, decision) for step in decision.steps))))


def event_reason(decision: Decision, *, is_upstream: bool) -> str:
    """
    Why the count changes, for its event: in the upstream's words if no schedule, override, forecast or
    fallback took part.

    is_upstream: whether the spec has metrics only; then the upstream's words are used to the letter. They are empty if
    the upstream's stabilization raises the count.
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
    """The numbers behind the proposed count; "" if the source just states the count."""
    basis = proposal.basis
    if isinstance(basis, Ahead):
        ahead = f"{basis.length // SECOND} s ahead of its start at {format_instant(basis.start)}"
        if basis.crowd is not None:
            ahead += f" ({crowd_reason(basis.crowd)})"
        return ahead if basis.stated is None else f"{ahead}, when {proposal.replicas} of its {basis.stated} are allowed"
    if isinstance(basis, Yielding):
        return f"{basis.stated}, raised for what opens when it closes"
    if isinstance(basis, Unmeasured):
        waited = f", for {basis.wait // SECOND} s or more" if basis.wait else ""
        return f"not all metrics are known since {format_instant(basis.since)}{waited}"
    return "" if basis is None else _expected(basis, proposal.replicas)


def crowd_reason(crowd: Crowd) -> str:
    """By how much a crowd makes a lead longer, and why."""
    crowd_size = f"{crowd.pods:,} pods of {crowd.objects:,} objects start then"
    return f"+{crowd.delay(crowd.start) // SECOND} s: {crowd_size}, {crowd.pods_per_minute:,} a minute"


def step_reason(step: Step, decision: Decision) -> str:
    """How a limit of this decision changed the count, and why."""
    if isinstance(step.cause, Held):
        text = f"{step.after} {_HOLDS[step.rule]} by stabilization: {_held(step.cause)}"
        # Else a reader waits for a scale-down that cannot come.
        return f"{text}; {step.after} is also the minimum" if step.after == decision.minimum else text
    if isinstance(step.cause, Rate):
        return f"limited to {step.after}: {_rate(step.rule, step.cause)}"
    unreadable = next(
        (_ref(abstention) for abstention in decision.abstentions if abstention.source is Source.SCHEDULE), None
    )
    if step.rule is Rule.NO_EVIDENCE:
        replicas = f"{step.after} stay" if step.after == decision.current else f"{step.after} in place of {step.before}"
        return f"{replicas}, as {unreadable} cannot be read and may ask for more"
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
    """How a bound changed the count; in the proposal's words if the source states another number."""
    changed, noun = _BOUNDED[step.rule]
    if step.rule is Rule.FLOOR and step.cause == BY_SPEC:
        noun = "minimum"
    proposals = (
        proposal for proposal in decision.proposals if (proposal.by, proposal.replicas) == (step.cause, step.after)
    )
    for proposal in proposals:
        if isinstance(proposal.basis, Ahead | Yielding) and proposal.basis.stated is not None:
            return f"{changed} to {step.after}, as {_asks(proposal)}"
    return f"{changed} to {step.after}, the {noun} of {step.cause}"


def _asked(decision: Decision) -> str:
    """The source of the merged count, or why there is none."""
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
        return "; ".join(_asks(proposal) for proposal in decision.proposals if proposal.role is Role.TARGET)
    if by.source is Source.METRIC:
        return _asks(Proposal(by.source, by.name, Role.TARGET, decision.merged))
    proposal_in_force = _stated(decision, by)
    other = {Role.FLOOR: Role.CAP, Role.CAP: Role.FLOOR}[proposal_in_force.role]
    if any(
        (proposal.by, proposal.role, proposal.replicas) == (by, other, proposal_in_force.replicas)
        for proposal in decision.proposals
    ):
        return f"{by} asks for exactly {proposal_in_force.replicas}"
    return _asks(proposal_in_force)


def _stated(decision: Decision, by: SourceRef) -> Proposal:
    """The proposal of the source that set the merged count: a cap if the metrics ask for more, else a floor."""
    metrics = None if decision.recommended is None else decision.recommended.metrics
    role = Role.CAP if metrics is not None and decision.merged < metrics else Role.FLOOR
    candidates = [
        proposal for proposal in decision.proposals if proposal.by == by and proposal.replicas == decision.merged
    ]
    candidates.sort(key=lambda proposal: proposal.role is not role)
    return candidates[0] if candidates else Proposal(by.source, by.name, role, decision.merged)


def _asks(proposal: Proposal) -> str:
    why = proposal_reason(proposal)
    # A metric by its own name: what most counts rest on reads as in "Metrics" of explain.
    by = proposal.name if proposal.source is Source.METRIC else proposal.by
    return f"{by} asks for {_BOUNDS[proposal.role]}{proposal.replicas}" + (f" ({why})" if why else "")


def _expected(load: ExpectedLoad, replicas: int) -> str:
    percent = f"{load.percent} %" if load.percent else "less than 1 %"
    likely = "" if load.percent is None else f" is {percent} likely"
    if load.percent and load.limit is FloorLimit.CEILING:
        likely = f" is at least {percent} likely"
    expected = f"a load of {load.load:.4g} or more from {format_instant(load.at)} on{likely}"
    if not replicas:
        return f"no extra pod pays off now: {expected}"
    headroom = f" and {load.headroom_percent} % headroom" if load.headroom_percent else ""
    pods = f"{_pods(replicas)} at {load.carried:.4g} each{headroom}"
    return f"{expected}: {_FLOOR_LIMITS[load.limit].format(pods=pods)}"


def _held(held: Held) -> str:
    if held.by is None:
        text = f"{held.asked} recommended at {format_instant(held.at)}"
    elif held.by == BY_NOBODY:
        text = f"{held.asked} found at {format_instant(held.at)}"
    else:
        text = f"{held.asked} asked for at {format_instant(held.at)} by {held.by}"
    if held.assumed is not None:
        text += f" (assumed until the restart at {format_instant(held.assumed)})"
    return f"{text}, until {format_instant(held.until)}"


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


def _ref(abstention: Abstention) -> SourceRef:
    return SourceRef(abstention.source, abstention.name)


def _took_part(decision: Decision) -> bool:
    """Whether a schedule, an override, a forecast or a fallback had a part in the count."""
    recommenders = () if decision.recommended is None else (decision.recommended.by,)
    causes = (step.cause.by if isinstance(step.cause, Held) else step.cause for step in decision.steps)
    return decision.bounded or any(
        isinstance(by, SourceRef) and by.source in _OURS for by in (decision.decided_by, *recommenders, *causes)
    )
