"""
Invariants broken on purpose, and the simulated hour that finds each: `python -m mutants` searches from seed 0 on.

A mutant that no hour finds tells that an assertion of the simulation cannot fail.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pytest
from msgspec.structs import replace
from simulated_life import live_through
from simulated_world import Violation

from cronhpa.core import decide as core_decide
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Recommendation
from cronhpa.core.model.instant import MINUTE
from cronhpa.core.model.memory import Memory
from cronhpa.core.schedules.bounds import resolve
from cronhpa.core.standing import Standing
from cronhpa.core.sync_grid import following
from cronhpa.kube.client import Client
from cronhpa.kube.resource_versions import SeenVersions
from cronhpa.operator.leader.election import Leadership
from cronhpa.operator.loop import control_loop, standing_decisions
from cronhpa.operator.loop.metric_apis import MetricApis
from cronhpa.operator.objects.installations import Installations
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.namespace_watches import NamespaceWatches
from cronhpa.operator.objects.owners import Owners
from cronhpa.operator.writes import writer
from cronhpa.operator.writes.written_status import StatusWrite, WrittenStatus

SEEDS_MAX = 1000


class Mutant(NamedTuple):
    """A broken rule."""

    name: str
    rules: tuple[str, ...]
    """The invariants of docs/engineering/reliability.md that it breaks."""
    seeds: range
    """Where a test searches: the first of them finds it today."""
    patches: tuple[tuple[Any, str, Any], ...] = ()
    """Attributes of the product that are replaced: where, name, by what."""
    deciding: Callable[..., Any] = decide
    """In place of `core.decide`."""


class Finding(NamedTuple):
    seed: int
    rule: str


def too_many(spec: Any, *given: Any) -> Any:
    decision = decide(spec, *given)
    return replace(decision, desired=decision.desired + 8) if decision.rescales else decision


def blindly_down(spec: Any, *given: Any) -> Any:
    decision = decide(spec, *given)
    lower = max(decision.current - 1, spec.min_replicas)
    return replace(decision, desired=lower) if decision.failure and decision.current > lower else decision


def forgetful(self: Any, _current: int, now: int, _assumed_until: int | None = None) -> Any:
    """A restart believes that one replica was enough until now."""
    return replace(self, recommendations=(Recommendation(1, now, 1),), scale_downs=(), intent=None)


def late(spec: Any, now: int, *given: Any) -> Any:
    """Windows open and close two minutes late; an edge in the past would make the object due again and again."""
    return replace(resolve(spec, now - 2 * MINUTE, *given), next_edge=None)


def longer(spec: Any, now: int, *given: Any) -> Any:
    """The floor of a window is one higher than stated."""
    bounds = resolve(spec, now, *given)
    return replace(bounds, minimum=bounds.minimum + 1) if spec.schedules and bounds.minimum < bounds.maximum else bounds


def believes_no_list(self: Any, version: int) -> bool:
    """A list of a restored store is taken for an old one."""
    self.note(version)
    return False


def outdated(_: Any, version: int, known: int) -> bool:
    return version < known


def only_hpas(self: Owners, state: Any, _rivals: Any) -> str | None:
    """An older object on the target holds nobody."""
    return _OWNERS_PROBLEM(self, state, ())


def never_forgotten(*_: Any) -> None:
    """An object that is deleted is decided on and on."""


def intends_nothing(self: Memory, *_: Any) -> Memory:
    """The status before a step does not tell of it."""
    return self


def lingering(spec: Any, now: int, *given: Any) -> Any:
    """An override goes on for two minutes."""
    if spec.override is not None:
        spec = replace(spec, override=replace(spec.override, until=spec.override.until + 2 * MINUTE))
    return resolve(spec, now, *given)


def as_if_readable(*given: Any) -> Any:
    """A schedule that cannot be read asks for nothing."""
    return replace(resolve(*given), unreadable=None)


async def over_anything(self: Client, path: str, body: Any, *given: Any) -> Any:
    """Replicas are set whatever was done since they were read."""
    stated = {key: value for key, value in body.items() if not path.endswith("/scale") or key != "metadata"}
    return await _MERGE_PATCH(self, path, stated, *given)


async def with_finalizer(self: Client, path: str, body: Any, *given: Any) -> Any:
    """A write leaves something behind."""
    meta = {**body.get("metadata", {}), "finalizers": ["a"]}
    return await _MERGE_PATCH(self, path, {**body, "metadata": meta}, *given)


def rarely(name: str, period: int, now: int) -> int:
    """An object is reconciled in each third of its periods."""
    return following(name, 3 * period, now)


@asynccontextmanager
async def one_after_another(self: MetricApis, namespace: str) -> AsyncIterator[None]:
    """A namespace's pod metrics are requested once those of the one before have come."""
    async with _TURNS.setdefault(self, asyncio.Lock()), _USING(self, namespace):
        yield


_OWNERS_PROBLEM = Owners.problem
_MERGE_PATCH = Client.merge_patch
_USING = MetricApis.using_list
_TURNS: WeakKeyDictionary[MetricApis, asyncio.Lock] = WeakKeyDictionary()

MUTANTS = (
    # S10: eight more may be as many as the younger CronHPA alone asks for.
    Mutant("beyond bounds", ("S1", "S10", "L1"), range(20), deciding=too_many),
    Mutant("down without evidence", ("S2", "S5"), range(20), deciding=blindly_down),
    Mutant("a floor that nobody states", ("S3",), range(2, 60), ((core_decide, "resolve", longer),)),
    Mutant("pods that are not seen", ("S2",), range(2, 100), ((NamespaceWatches, "is_counted", lambda *_: False),)),
    Mutant("a scale-down that no status intends", ("S5",), range(20), ((Memory, "intending", intends_nothing),)),
    Mutant("a finalizer", ("S11",), range(2), ((Client, "merge_patch", with_finalizer),)),
    Mutant("rare reconciliations", ("L2", "S8"), range(20), ((control_loop, "following", rarely),)),
    Mutant(
        "periods without a decision",
        ("S5",),
        range(14, 100),
        ((Standing, "newest_memory", property(lambda self: self.memory)),),
    ),
    Mutant("a schedule that is not known", ("S2",), range(24, 120), ((core_decide, "resolve", as_if_readable),)),
    Mutant("an override that goes on", ("S3", "S6"), range(14, 60), ((core_decide, "resolve", lingering),)),
    Mutant("replicas over anything", ("S4",), range(4, 400, 11), ((Client, "merge_patch", over_anything),)),
    Mutant("no fence", ("S4",), range(10), ((Leadership, "write_seconds", lambda _: 60.0),)),
    Mutant("no fence of a shard", ("S4",), range(11, 200, 4), ((Leadership, "write_seconds", lambda _: 60.0),)),
    Mutant("memory lost at a restart", ("S5",), range(194, 300), ((Memory, "resumed", forgetful),)),
    Mutant("windows by a late clock", ("S6", "S3"), range(20), ((core_decide, "resolve", late),)),
    Mutant(
        "a status in each period",
        ("S7",),
        range(3),
        # Three rules keep a quiet object's status from being written: each alone would.
        (
            (standing_decisions, "standing_of", lambda *_: None),
            (WrittenStatus, "needed_for", lambda *_: StatusWrite.STATUS),
            (writer, "needed_between", lambda *_: StatusWrite.STATUS),
        ),
    ),
    Mutant(
        "one namespace after another", ("S8",), range(58, 400, 13), ((MetricApis, "using_list", one_after_another),)
    ),
    Mutant("another owner", ("S10",), range(2, 80), ((Owners, "problem", lambda *_: None),)),
    Mutant("another installation", ("S4",), range(25, 400, 19), ((Installations, "problem", lambda *_: None),)),
    Mutant("a younger object", ("S10",), range(7, 400, 19), ((Owners, "problem", only_hpas),)),
    Mutant("a deleted object", ("S11",), range(24, 200), ((Inventory, "drop", never_forgotten),)),
    Mutant(
        "a restored store",
        ("L1", "S1", "S7"),
        range(80, 900, 9),
        ((SeenVersions, "note_list", believes_no_list), (SeenVersions, "is_outdated_in_list", outdated)),
    ),
)


def first_found(mutant: Mutant, patch: pytest.MonkeyPatch, seeds: Iterable[int]) -> Finding | None:
    """The first of the seeds that finds a mutant, and the invariant that it names; None if no one does."""
    for where, name, broken in mutant.patches:
        patch.setattr(where, name, broken)
    for seed in seeds:
        try:
            live_through(seed, mutant.deciding)
        except Violation as violation:
            return Finding(seed, str(violation).partition(" ")[0])
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="how many seeds to search for each mutant")
    count = parser.parse_args().seeds
    logging.disable(logging.CRITICAL)
    missed = 0
    for mutant in MUTANTS:
        with pytest.MonkeyPatch.context() as patch:
            found = first_found(mutant, patch, range(count))
        missed += found is None or found.rule not in mutant.rules
        print(f"{mutant.name}: {'found by none' if found is None else f'seed {found.seed}, {found.rule}'}", flush=True)
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} mutants found within {count} seeds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
