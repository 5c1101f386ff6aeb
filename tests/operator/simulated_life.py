"""
An hour of an installation in virtual time, drawn from a seed: two replicas, a load, edits, and what goes wrong.

Three of four hours have a replica that leads; of the fourth, two to four replicas share shards.

For forty minutes something happens again and again; then everything is mended, and the hour ends in calm.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

from copied import copied
from lives import CPU, cronhpa, deployment
from model_api import START
from simulated_invariants import OPEN_END, YOUNGER_FLOOR, Judge
from simulated_replica import LEASE, OTHER_LEASE, TIMING, SimulatedReplica
from simulated_shards import SHARDS, SimulatedShardReplica
from simulated_world import Violation, World
from virtual_time import live

from cronhpa.core.decide import decide
from cronhpa.core.model.instant import SECOND, format_instant
from cronhpa.kube.shard_scope import shard_of
from cronhpa.operator.leader.shard_election import shard_lease

HOUR = 3600.0
_NEIGHBOUR = "ill"
_STIRRED = 2400.0
_LOOK = 15.0
_FAULTS = ("broken", "busy", "refused", "reset", "lost", "slow")
_HPA = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}}


class _Errors(logging.Handler):
    """What the operator logs as an error of its own: nothing that befalls it may."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


class Hour:
    """One seed. deciding: `core.decide`, or what a mutation makes of it."""

    def __init__(self, seed: int, deciding: Any = decide) -> None:
        self.dice = random.Random(seed)
        random.seed(seed)  # the jitter of informers
        # No two of these numbers have a common divisor, so that each two of these traits meet in some hours.
        # Of each fourth hour the replicas share the objects instead of one that leads.
        self._has_shards = seed % 4 == 3
        # Of each fifth somebody who may write statuses forges them.
        self._has_forger = seed % 5 == 1
        # Of each seventh somebody deletes the Lease. Not both: a forged status can hide whose Lease it was.
        self._has_deleter = seed % 7 == 5 and not self._has_forger
        # In two of eleven the API server, its watches, the metrics and the clocks are odder than in the others.
        self._has_odd_api = seed % 11 in {4, 9}
        # In each ninth etcd is restored from a backup.
        self._has_restore = seed % 9 == 8
        # In two of thirteen another namespace has an object, too, and what is asked about that hangs or is refused.
        self._has_neighbour = seed % 13 in {6, 11}
        # In four of seventeen somebody sets overrides.
        self._has_overrides = seed % 17 in {0, 5, 10, 14}
        # In two of nineteen a second installation has the same objects, in two somebody makes a younger object for the
        # target, in three nobody may list a kind, or its lists fail or hang. Forged statuses can hide an installation.
        self._has_other = seed % 19 in {6, 12} and not (
            self._has_shards or self._has_forger or self._has_deleter or self._has_restore
        )
        self._has_younger = seed % 19 in {7, 16} and not self._has_restore
        self._has_broken_lists = seed % 19 in {9, 13, 18}
        self._deciding = deciding
        self._starts = 0

    async def live(self) -> World:
        self.world = world = World(self.dice)
        self.judge = judge = Judge(world)
        world.check = judge.check
        world.keeps_former = self._has_odd_api
        if self._has_shards:
            judge.lease_of = lambda namespace: shard_lease(LEASE, shard_of(namespace, SHARDS), SHARDS)
        dice = self.dice
        world.start_up = dice.choice([None, None, 5.0, 20.0])
        deployment(world, replicas=dice.randint(1, 8))
        world.load["prod", "shop"] = dice.randint(200, 4000)
        judge.spec = self._spec()
        cronhpa(world, **judge.spec)
        if self._has_neighbour:
            deployment(world, namespace=_NEIGHBOUR)
            world.load[_NEIGHBOUR, "shop"] = 1000
            cronhpa(world, namespace=_NEIGHBOUR, metrics=[CPU])
        self.replicas = [self._replica(), self._replica()]
        if self._has_other:
            self.replicas.append(self._other_replica())
        for replica in self.replicas:
            replica.start()
        await self._stir()
        await self._calm()
        judge.check_calm(_STIRRED)
        for replica in self.replicas:
            await replica.stop()
        return world

    def _replica(self) -> SimulatedReplica:
        self._starts += 1
        kind = SimulatedShardReplica if self._has_shards else SimulatedReplica
        replica = kind(self.world, f"replica-{self._starts}", self.judge, self._deciding)
        if self._has_odd_api:
            replica.rate = self.dice.uniform(0.98, 1.02)
        return replica

    def _other_replica(self) -> SimulatedReplica:
        """One of the second installation."""
        self._starts += 1
        who = f"other-{self._starts}"
        self.judge.others[who] = OTHER_LEASE
        return SimulatedReplica(self.world, who, self.judge, self._deciding, OTHER_LEASE)

    def _like(self, replica: SimulatedReplica) -> SimulatedReplica:
        """A new replica of the same installation."""
        return self._other_replica() if replica.lease == OTHER_LEASE else self._replica()

    def _spec(self) -> dict[str, Any]:
        dice = self.dice
        low = dice.randint(1, 3)
        spec: dict[str, Any] = {"minReplicas": low, "maxReplicas": dice.randint(low + 3, 20), "metrics": [CPU]}
        spec["cpuInitializationPeriodSeconds"], spec["initialReadinessDelaySeconds"] = dice.choice([(0, 0), (300, 30)])
        if dice.random() < 0.7:
            spec["behavior"] = {"scaleDown": self._rules(dice.choice([0, 30, 60, 120, 300]))}
            if dice.random() < 0.5:
                spec["behavior"]["scaleUp"] = self._rules(dice.choice([0, 30]))
        if dice.random() < 0.6:
            spec["schedules"] = [self._schedule(number) for number in range(dice.randint(1, 2))]
        spec["syncPeriodSeconds"] = dice.choice([15, 15, 15, 10, 30])
        if dice.random() < 0.2:
            spec["metricMaxAgeSeconds"] = 90
        return spec

    def _rules(self, window: int) -> dict[str, Any]:
        policy = {"type": "Pods", "value": self.dice.randint(2, 4), "periodSeconds": self.dice.choice([15, 30, 60])}
        return {"stabilizationWindowSeconds": window, "policies": [policy], "selectPolicy": "Max"}

    def _schedule(self, number: int) -> dict[str, Any]:
        bound = self.dice.choice(["minReplicas", "maxReplicas"])
        return {
            "name": f"window-{number}",
            "start": f"{self.dice.randint(2, 25)} 7 * * *",
            "durationMinutes": self.dice.choice([OPEN_END, *range(1, 13)]),
            bound: self.dice.randint(2, 12),
        }

    async def _stir(self) -> None:
        world = self.world
        under_way: set[asyncio.Task[None]] = set()
        looked = 0.0
        stirs = [stir for stir, weight in self._stirs().items() for _ in range(weight)]
        pause = self.dice.choice([20.0, 60.0, 180.0])
        while world.seconds() < _STIRRED - 420:
            await asyncio.sleep(self.dice.expovariate(1 / pause))
            if world.seconds() > _STIRRED:  # a pause of half an hour: the calm has begun
                break
            under_way.add(asyncio.create_task(self.dice.choice(stirs)()))
            for task in [task for task in under_way if task.done()]:
                task.result()
                under_way.discard(task)
            if world.seconds() - looked > _LOOK:
                looked = world.seconds()
                self.judge.check_parts(self.replicas)
        for task in under_way:
            await task

    async def _calm(self) -> None:
        """Everything is mended and stays as it is."""
        world = self.world
        world.operators_offset = 0
        for replica in self.replicas:
            replica.drift = 0
        self.judge.stir("clock is right")
        await asyncio.sleep(max(_STIRRED - world.seconds(), 0))
        while world.seconds() < HOUR:
            await asyncio.sleep(_LOOK)
            self.judge.check_parts(self.replicas)

    def _stirs(self) -> dict[Callable[[], Any], int]:
        """What may happen, with how often it does."""
        return {
            self._load: 8, self._storm: 4, self._outage: 2, self._slowness: 1, self._cut_watches: 2, self._silence: 2,
            self._kill: 4, self._stop: 2, self._freeze: 2, self._partition: 2, self._edit: 3, self._recreate: 1,
            self._recreate_target: 1, self._by_hand: 2, self._foreign: 1, self._blindness: 3, self._clock: 1,
            self._join: 4 * self._has_shards, self._forge: 4 * self._has_forger,
            self._delete_lease: 6 * self._has_deleter, self._odd_events: 4 * self._has_odd_api,
            self._stale_reads: 3 * self._has_odd_api, self._drift: 3 * self._has_odd_api,
            self._late_writes: 4 * self._has_odd_api,
            self._odd_metrics: 3 * self._has_odd_api, self._restore: 4 * self._has_restore,
            self._illness: 12 * self._has_neighbour, self._override: 6 * self._has_overrides,
            self._uninstall: 6 * self._has_other, self._younger: 6 * self._has_younger,
            self._broken_lists: 8 * self._has_broken_lists,
        }  # fmt: skip

    async def _lasting(self, what: str, least: float, most: float) -> None:
        self.judge.begin(what)
        await asyncio.sleep(self.dice.uniform(least, most))

    async def _load(self) -> None:
        self.world.load["prod", "shop"] = self.dice.randint(100, 9000)
        self.judge.stir("load")

    async def _storm(self) -> None:
        chance = {
            name: self.dice.choice([0.02, 0.1, 0.4]) for name in self.dice.sample(_FAULTS, self.dice.randint(1, 3))
        }
        self.world.weather.chance = chance
        await self._lasting("storm", 20, 240)
        if self.world.weather.chance is chance:
            self.world.weather.chance = {}
            self.judge.end("storm")

    async def _outage(self) -> None:
        self.world.weather.is_down = True
        for plural in ("cronhpas", "deployments", "pods", "horizontalpodautoscalers"):
            self.world.cut_watches(plural)
        await self._lasting("outage", 3, 120)
        self.world.weather.is_down = False
        self.judge.end("outage")

    async def _slowness(self) -> None:
        self.world.weather.latency = self.dice.uniform(0.5, 3)
        await self._lasting("slowness", 20, 200)
        self.world.weather.latency = 0.02
        self.judge.end("slowness")

    async def _cut_watches(self) -> None:
        plural = self.dice.choice(["cronhpas", "deployments", "pods", "horizontalpodautoscalers"])
        self.world.cut_watches(plural, expired=self.dice.random() < 0.5)
        self.judge.stir(f"watch of {plural} cut")

    async def _silence(self) -> None:
        plural = self.dice.choice(["cronhpas", "pods", "deployments"])
        self.world.weather.silent.add(plural)
        await self._lasting(f"silence of {plural}", 30, 300)
        self.world.weather.silent.discard(plural)
        self.judge.end(f"silence of {plural}")

    def _any_replica(self) -> Iterator[int]:
        whole = [place for place, replica in enumerate(self.replicas) if replica.is_whole]
        return iter(self.dice.sample(whole, min(len(whole), 1)))

    async def _kill(self) -> None:
        for place in self._any_replica():
            replica = self.replicas[place]
            fresh = self._like(replica)
            self.replicas[place] = fresh
            await replica.kill()
            await self._lasting(f"kill of {replica.who}", 0.1, 90)
            self.judge.end(f"kill of {replica.who}")
            self._start(fresh)

    async def _stop(self) -> None:
        for place in self._any_replica():
            self.judge.stir("stop")
            replica = self.replicas[place]
            fresh = self._like(replica)
            self.replicas[place] = fresh
            await replica.stop()
            await asyncio.sleep(self.dice.uniform(0.1, 60))
            self._start(fresh)

    def _start(self, replica: SimulatedReplica) -> None:
        if replica in self.replicas:  # else its installation is away
            replica.start()
            self.judge.stir("start")

    async def _join(self) -> None:
        """One replica more for a while: it gets a share of the shards, and gives it back."""
        if len(self.replicas) == SHARDS:
            return
        replica = self._replica()
        self.replicas.append(replica)
        replica.start()
        self.judge.stir("start")
        await asyncio.sleep(self.dice.uniform(5, 300))
        if replica.is_whole and replica in self.replicas:
            self.judge.stir("stop")
            self.replicas.remove(replica)
            await replica.stop()

    async def _uninstall(self) -> None:
        """All replicas of one of two installations go for a while, killed or stopped."""
        lease, is_killed = self.dice.choice([LEASE, LEASE, OTHER_LEASE]), self.dice.random() < 0.5
        gone = [replica for replica in self.replicas if replica.lease == lease]
        if "uninstalled" in self.judge.since or not all(replica.is_whole for replica in gone):
            return
        self.replicas = [replica for replica in self.replicas if replica.lease != lease]
        self.judge.begin("uninstalled")
        for replica in gone:
            await (replica.kill() if is_killed else replica.stop())
        await asyncio.sleep(self.dice.uniform(10, 300))
        for replica in gone:
            fresh = self._like(replica)
            self.replicas.append(fresh)
            fresh.start()
        self.judge.end("uninstalled")

    async def _freeze(self) -> None:
        for place in self._any_replica():
            replica = self.replicas[place]
            replica.freeze()
            await self._lasting(f"freeze of {replica.who}", 2, 150)
            replica.thaw()
            self.judge.end(f"freeze of {replica.who}")

    async def _partition(self) -> None:
        for place in self._any_replica():
            replica = self.replicas[place]
            replica.cut()
            await self._lasting(f"partition of {replica.who}", 2, 200)
            replica.mend()
            self.judge.end(f"partition of {replica.who}")

    async def _delete_lease(self) -> None:
        """Somebody deletes the Lease by which the object is decided, some of them again and again."""
        lease = self.judge.lease
        for _ in range(self.dice.choice([1, 1, 20])):
            if (lease.namespace, lease.name) in self.world.objects["leases"]:
                self.judge.stir("lease deleted")
                self.world.delete("leases", lease.namespace, lease.name)
            await asyncio.sleep(self.dice.uniform(0.05, 5))

    async def _edit(self) -> None:
        if "deleted" in self.judge.since or self.judge.spec is None:
            return
        spec, fresh = self.judge.spec, self._spec()
        for key in self.dice.sample(sorted(fresh), 2):
            spec[key] = fresh[key]
        spec["maxReplicas"] = max(spec["maxReplicas"], spec["minReplicas"])
        self.judge.stir("edit")
        # A list of the spec is replaced as a whole, and a part that is not edited stays.
        self.world.edit("cronhpas", "prod", "shop", spec=copied(spec))

    async def _recreate(self) -> None:
        if self.judge.since.keys() & {"deleted", "younger"}:
            return
        self.judge.gone = self.world.objects["cronhpas"]["prod", "shop"]["metadata"]["uid"]
        self.world.delete("cronhpas", "prod", "shop")
        self.judge.stir("object deleted")
        await self._lasting("deleted", 0.1, 360)
        cronhpa(self.world, **copied(self.judge.spec or {}))
        self.judge.end("deleted")
        self.judge.stir("object created")

    async def _recreate_target(self) -> None:
        if ("prod", "shop") not in self.world.objects["deployments"]:
            return
        self.judge.stir("target deleted")
        self.world.delete("deployments", "prod", "shop")
        await asyncio.sleep(self.dice.uniform(0.1, 60))
        deployment(self.world, replicas=self.dice.randint(1, 8))
        self.judge.stir("target created")

    async def _forge(self) -> None:
        """What a memory can say at worst; a status that names no operator, or one that is not there."""
        if ("prod", "shop") not in self.world.objects["cronhpas"]:
            return
        self.judge.stir("forged")
        memory = {
            "version": 1,
            "recommendations": self._some(lambda: {"replicas": self._count(), "time": self._moment()}),
            "scaleUpEvents": self._some(lambda: {"change": self._count(), "time": self._moment()}),
            "scaleDownEvents": self._some(lambda: {"change": self._count(), "time": self._moment()}),
            "replicas": self._count(),
            "zero": self.dice.random() < 0.5,
            "startUpSeconds": self.dice.choice([0, 5, 3600, 10**9]),
            "intent": {"from": self._count(), "to": self._count(), "time": self._moment()},
        }
        for key in self.dice.sample(sorted(memory), self.dice.randint(0, 4)):
            memory[key] = self.dice.choice([None, "text", -1, [], {}, 10**30])
        operator = self.dice.choice([None, "elsewhere/nobody", "no-name", "a/b/c"])
        self.world.edit("cronhpas", "prod", "shop", status={"memory": memory, "operator": operator})

    def _some(self, made: Callable[[], Any]) -> list[Any]:
        return [made() for _ in range(self.dice.randint(0, 4))]

    def _count(self) -> int:
        return self.dice.choice([0, 1, self.dice.randint(1, 30), 2**31 - 1])

    def _moment(self) -> str:
        ago = self.dice.choice([0, 10, 200, 3000, -5, -3600, 10**9])
        return format_instant(self.world.operators_now() // SECOND * SECOND - ago * SECOND)

    async def _by_hand(self) -> None:
        if ("prod", "shop") in self.world.objects["deployments"]:
            self.judge.stir("by hand")
            self.world.edit("deployments", "prod", "shop", spec={"replicas": self.dice.randint(1, 12)})

    async def _foreign(self) -> None:
        if "foreign" in self.judge.since:
            return
        self.world.create("horizontalpodautoscalers", "prod", "theirs", spec=_HPA)
        await self._lasting("foreign", 30, 300)
        self.world.delete("horizontalpodautoscalers", "prod", "theirs")
        self.judge.end("foreign")

    async def _younger(self) -> None:
        """Somebody makes a second CronHPA for the target, which asks for more than anybody else."""
        # Where a watch has lost that the older one was made anew, the younger one is the only one.
        if self.judge.since.keys() & {"deleted", "younger"} or self.judge.stirred("object created", 330.0):
            return
        up = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}
        spec = {"scaleTargetRef": _HPA["scaleTargetRef"], "minReplicas": YOUNGER_FLOOR, "maxReplicas": 40}
        self.world.create("cronhpas", "prod", "younger", spec={**spec, "metrics": [CPU], "behavior": {"scaleUp": up}})
        await self._lasting("younger", 30, 400)
        self.world.delete("cronhpas", "prod", "younger")
        self.judge.end("younger")

    async def _broken_lists(self) -> None:
        """A kind can neither be listed nor watched."""
        world = self.world
        plural = self.dice.choice(["cronhpas", "deployments", "pods", "horizontalpodautoscalers"])
        broken = self.dice.choice([world.unlistable, world.failing, world.hanging])
        what = f"lists of {plural} broken"
        if what in self.judge.since:
            return
        broken.add(plural)
        world.cut_watches(plural)
        await self._lasting(what, 20, 400)
        broken.discard(plural)
        self.judge.end(what)

    async def _blindness(self) -> None:
        if self.world.weather.blind:
            return
        how = self.dice.choice(["gone", "empty", "nonsense", "half", "old", "future", "others"])
        what = "half blind" if how in {"half", "old", "future"} else "blind"
        self.world.weather.blind = how
        await self._lasting(what, 20, 400)
        self.world.weather.blind = ""
        self.judge.end(what)

    async def _odd_events(self) -> None:
        """Watches of every kind lose events and repeat old ones, and bookmarks hide it."""
        weather = self.world.weather
        weather.lost_events, weather.doubled_events = self.dice.choice([0.1, 0.5]), self.dice.choice([0.1, 0.5])
        weather.lying_bookmarks = self.dice.random() < 0.5
        await self._lasting("silence of some events", 30, 300)
        weather.lost_events = weather.doubled_events = 0.0
        weather.lying_bookmarks = False
        self.judge.end("silence of some events")

    async def _late_writes(self) -> None:
        """Requests are held back, and done after their caller has given them up."""
        self.world.weather.late_writes = self.dice.choice([0.2, 0.6])
        await self._lasting("late writes", 20, 120)
        self.world.weather.late_writes = 0.0
        self.judge.end("late writes")

    async def _stale_reads(self) -> None:
        """Reads are stale, and answers are lost: what was written is read again."""
        weather, chance = self.world.weather, {"lost": 0.3}
        weather.stale_reads, weather.chance = self.dice.choice([0.1, 0.5, 1.0]), chance
        await self._lasting("stale reads", 20, 200)
        weather.stale_reads = 0.0
        if weather.chance is chance:
            weather.chance = {}
        self.judge.end("stale reads")

    async def _drift(self) -> None:
        for place in self._any_replica():
            self.replicas[place].drift = round(self.dice.uniform(-60, 60) * SECOND)
            self.judge.stir(f"clock of {self.replicas[place].who} drifts")

    async def _odd_metrics(self) -> None:
        """The metrics server hangs, or answers what no pod uses."""
        if self.world.weather.blind:
            return
        how = self.dice.choice(["hanging", "lying"])
        what = "blind" if how == "hanging" else "half blind by lies"
        self.world.weather.blind = how
        await self._lasting(what, 20, 300)
        self.world.weather.blind = ""
        self.judge.end(what)

    async def _illness(self) -> None:
        """Whatever is asked about the neighbour's namespace hangs, or is refused; its load would be scaled for."""
        if self.world.weather.ill:
            return
        self.world.weather.ill[_NEIGHBOUR] = self.dice.choice(["hanging", "hanging", "refused"])
        self.world.load[_NEIGHBOUR, "shop"] = self.dice.randint(100, 4000)
        await self._lasting("illness", 60, 400)
        self.world.weather.ill.clear()
        self.judge.end("illness")

    async def _override(self) -> None:
        """Somebody sets bounds for a while: they run out, or are taken back before."""
        if "deleted" in self.judge.since or self.judge.spec is None or "override" in self.judge.spec:
            return
        bound = self.dice.choice(["replicas", "minReplicas", "maxReplicas"])
        # It runs out before the calm.
        seconds = min(round(self.world.seconds()) + self.dice.randint(60, 600), round(_STIRRED) - 60)
        until = START + seconds * SECOND
        override = {bound: self.dice.randint(1, 15), "until": format_instant(until), "reason": "a try"}
        self._set_override(override)
        await asyncio.sleep(self.dice.uniform(60, 420))
        self._set_override(None)

    def _set_override(self, override: dict[str, Any] | None) -> None:
        spec = self.judge.spec
        if "deleted" in self.judge.since or spec is None:
            return
        self.judge.stir("edit")
        spec.pop("override", None)
        if override is not None:
            spec["override"] = override
        self.world.edit("cronhpas", "prod", "shop", spec={"override": override})

    async def _restore(self) -> None:
        """Etcd is put back to what it was up to five minutes before, specs, replicas and statuses with it."""
        if self.judge.since.keys() & {"deleted", "foreign"}:
            return
        backup, spec = self.world.snapshot(), copied(self.judge.spec or {})
        await asyncio.sleep(self.dice.uniform(1, 300))
        key = ("prod", "shop")
        whole = key in backup.objects["cronhpas"] and key in backup.objects["deployments"]
        whole = whole and key in self.world.objects["deployments"]
        if not whole or self.judge.since.keys() & {"deleted", "foreign"}:
            return
        if any(
            stir.startswith(("foreign", "object")) for at, stir in self.judge.stirs if at > self.world.seconds() - 301
        ):
            return
        self.judge.stir("target restored")
        self.judge.stir("edit undone")
        self.world.counts["restores"] += 1
        self.judge.spec = spec
        self.world.restore(backup, with_leases=self._know_the_leader)

    @property
    def _know_the_leader(self) -> bool:
        """
        Whether every process has looked at the Leases since one was taken last. Else a restored one can be what it saw
        last: it is taken at once, beside whoever took it meanwhile (docs/engineering/reliability.md).
        """
        looked = 4 * TIMING.retry
        troubles = ("freeze", "partition", "outage", "storm", "slowness")
        return (
            self.world.seconds() - self.world.taken_at > looked
            and not any(trouble.startswith(troubles) for trouble in self.judge.since)
            and not any(self.judge.stirred(trouble, looked) for trouble in troubles)
        )

    async def _clock(self) -> None:
        step = self.dice.choice([-1, 1]) * self.dice.choice([7.0, 90.0, 900.0, 7200.0])
        self.world.operators_offset += round(step * SECOND)
        self.judge.stir(f"clock {step:+.0f} s")


def live_through(seed: int, deciding: Any = decide) -> World:
    """The world at the end of a seed's hour. Raises Violation."""
    log, errors = logging.getLogger("cronhpa"), _Errors()
    level, propagates = log.level, log.propagate
    log.setLevel(logging.ERROR)
    log.propagate = False
    log.addHandler(errors)
    hour = Hour(seed, deciding)
    # A seventh of an hour's CPU is the collector's, which finds little: what an hour leaves goes with the next one.
    gc.disable()
    try:
        world = live(hour.live)
    except Violation as violation:
        raise hour.judge.violation or violation from None
    except Exception as error:
        if hour.judge.violation is not None:  # raised in a task, it may end what others wait for
            raise hour.judge.violation from None
        raise Violation(f"the simulation ended with {error!r}") from error
    finally:
        gc.enable()
        log.setLevel(level)
        log.propagate = propagates
        log.removeHandler(errors)
    if hour.judge.violation is not None:
        raise hour.judge.violation
    if errors.texts:
        raise Violation(f"an error of our own was logged: {errors.texts[0]}")
    return world
