"""Two twins compared: under-provisioned seconds, unserved core-seconds, pod-seconds, scale writes. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from testbed.demo.observation import LABELS
from testbed.demo.twins import CRONHPA, TWINS, UPSTREAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from testbed.demo.observation import Moment


@dataclass(frozen=True)
class Score:
    """
    under_provisioned_seconds: in which the load was above what the ready pods carry at all of their request.
    unserved_core_seconds: by how much, summed. pod_seconds: of every pod, from its creation to its end.
    scale_writes: changes of .spec.replicas.
    """

    under_provisioned_seconds: float = 0.0
    unserved_core_seconds: float = 0.0
    pod_seconds: float = 0.0
    scale_writes: int = 0


def score(moments: Sequence[Moment]) -> dict[str, Score]:
    """The score of each twin over a timeline; each moment holds until the next one."""
    scores = dict.fromkeys(TWINS, Score())
    for moment, following in pairwise(moments):
        scores = add(scores, moment, following)
    return scores


def add(scores: Mapping[str, Score], moment: Moment, following: Moment) -> dict[str, Score]:
    """The scores when the next moment has come."""
    seconds = following.second - moment.second
    return {
        name: replace(
            scored,
            under_provisioned_seconds=scored.under_provisioned_seconds + (seconds if moment.is_short(name) else 0.0),
            unserved_core_seconds=scored.unserved_core_seconds
            + max(0.0, moment.load - moment.twins[name].carries) * seconds,
            pod_seconds=scored.pod_seconds + moment.twins[name].pods * seconds,
            scale_writes=scored.scale_writes + following.twins[name].generation - moment.twins[name].generation,
        )
        for name, scored in scores.items()
    }


def verdict(scores: Mapping[str, Score]) -> str:
    """The comparison in a sentence or two."""
    theirs, ours = scores[UPSTREAM], scores[CRONHPA]
    more = 100 * (ours.pod_seconds / theirs.pod_seconds - 1) if theirs.pod_seconds else 0.0
    price = f"{abs(more):.0f} % {'more' if more >= 0 else 'fewer'} pod-seconds"
    head = (
        f"The CronHPA twin was short of pods for {ours.under_provisioned_seconds:.0f} s, "
        f"the upstream twin for {theirs.under_provisioned_seconds:.0f} s"
    )
    if not theirs.under_provisioned_seconds:
        return f"{head}: the rise did not come into this run. It had {price}."
    share = 100 * ours.under_provisioned_seconds / theirs.under_provisioned_seconds
    return (
        f"{head}: {share:.0f} % of it, for {price} and {ours.scale_writes} scale writes against {theirs.scale_writes}."
    )


def table(scores: Mapping[str, Score]) -> list[tuple[str, str, str]]:
    """Rows of the closing table: what, upstream, CronHPA."""

    def row(text: str, form: str, field: str) -> tuple[str, str, str]:
        return (text, *(format(getattr(scores[name], field), form) for name in (UPSTREAM, CRONHPA)))  # type: ignore[return-value]

    return [
        row("under-provisioned seconds", ".0f", "under_provisioned_seconds"),
        row("unserved core-seconds", ".1f", "unserved_core_seconds"),
        row("pod-seconds", ".0f", "pod_seconds"),
        row("scale writes", "d", "scale_writes"),
    ]


def as_json(moments: Sequence[Moment], events: Sequence[tuple[float, str]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The document of build/demo.json."""
    return {
        "summary": {
            **facts,
            "scores": {LABELS[name]: _rounded(asdict(scored)) for name, scored in score(moments).items()},
        },
        "events": [{"second": round(second, 1), "event": text} for second, text in events],
        "timeline": [_entry(moment) for moment in moments],
    }


def _entry(moment: Moment) -> dict[str, Any]:
    return {
        "second": round(moment.second, 1),
        "load": round(moment.load, 4),
        **{
            LABELS[name]: _rounded(asdict(twin)) | {"under_provisioned": moment.is_short(name)}
            for name, twin in moment.twins.items()
        },
        "decidedBy": moment.verdict.decided_by,
        "reason": moment.verdict.reason,
        "proposals": [asdict(proposal) for proposal in moment.verdict.proposals],
        "abstentions": list(moment.verdict.abstentions),
    }


def _rounded(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in fields.items()}
