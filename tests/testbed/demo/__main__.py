"""
`make demo`. Settings are environment variables:

DEMO_SECONDS           how long it runs, 20 or more (300)
DEMO_SCHEDULE          0 leaves the schedule out
DEMO_KUBECONFIG        a cluster to use instead of one of its own; `make demo KUBECONFIG=path` sets it
DEMO_PLANT_HOST        by which name that cluster's API server reaches this machine (localhost)
DEMO_STARTUP_SECONDS   from a pod's start to Ready (45)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

from cronhpa.core.model.instant import SECOND, format_instant
from testbed.build import BuildError
from testbed.control_plane import ControlPlane, ControlPlaneError
from testbed.demo.api import Api, ApiError
from testbed.demo.cluster import NAMESPACE, OPERATOR_SETTINGS, Installation, Refusal
from testbed.demo.observation import Moment, observe
from testbed.demo.picture import draw
from testbed.demo.scenario import DELAY, RISE_AFTER, START_UP_SECONDS, WINDOW, Scenario
from testbed.demo.score import add, as_json, score, verdict
from testbed.demo.screen import Screen, closing_table, screen_for
from testbed.demo.story import events
from testbed.demo.twins import CRONHPA, TWINS, autoscalers, deployments, settle
from testbed.operator import Operator
from testbed.plant import Plant, PlantError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

RESULT, PICTURE = Path("build/demo.json"), Path("build/demo.svg")
_SECONDS_MIN, _SECONDS = 20, 300
# On a cluster whose nodes are real, 100 pods of half a core would not fit: pods and load are a fiftieth, alike.
_SMALL = 0.02
# From cutting the history to the clock's 0:00: import (1 s), the operator's start (2 s), and some for a slow machine.
_LEAD_S = 6
# The first decision comes with the operator's first reconciliation: 2 s after its object, or more on a slow machine.
_DECIDED_WITHIN_S = 60
_INTERRUPTED, _REFUSED, _FAILED = 130, 2, 1
_UNREACHABLE = (
    'the cluster\'s API server looks for this machine as "{host}": where that is not its name, as from a container, '
    "set DEMO_PLANT_HOST, for example to host.docker.internal"
)


@dataclass(frozen=True)
class Options:
    seconds: int
    has_schedule: bool
    kubeconfig: Path | None
    plant_host: str
    start_up_seconds: int

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Raises ValueError that names the variable, what was found and what is accepted."""
        kubeconfig = environment.get("DEMO_KUBECONFIG")
        if kubeconfig and not Path(kubeconfig).is_file():
            raise ValueError(f"KUBECONFIG={kubeconfig}: there is no such file: name a kubeconfig")
        return cls(
            seconds=_number(environment, "DEMO_SECONDS", _SECONDS, _SECONDS_MIN),
            has_schedule=environment.get("DEMO_SCHEDULE", "1") != "0",
            kubeconfig=Path(kubeconfig).absolute() if kubeconfig else None,
            plant_host=environment.get("DEMO_PLANT_HOST", "localhost"),
            start_up_seconds=_number(environment, "DEMO_STARTUP_SECONDS", START_UP_SECONDS, 1),
        )


def main() -> int:
    console = Console()
    try:
        options = Options.read(os.environ)
    except ValueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return _REFUSED
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        run(options, console)
    except KeyboardInterrupt:
        console.print("interrupted")
        return _INTERRUPTED
    except Refusal as error:
        print(f"demo: {error}", file=sys.stderr)
        return _REFUSED
    except PlantError as error:
        print(f"demo: {error}", file=sys.stderr)
        if options.kubeconfig:
            print(f"demo: {_UNREACHABLE.format(host=options.plant_host)}", file=sys.stderr)
        return _FAILED
    except (ApiError, AssertionError, BuildError, ControlPlaneError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return _FAILED
    return 0


def run(options: Options, console: Console) -> None:
    """The whole demo. Whatever ends it, what it started has ended and what it made is gone behind it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronhpa-demo-")))
        kubeconfig = options.kubeconfig
        if kubeconfig is None:
            _say(console, "starting a control plane: etcd, API server, controllers, the upstream HPA, simulated nodes")
            kubeconfig = stack.enter_context(ControlPlane(hpa=True)).admin_kubeconfig
        api = Api(kubeconfig)
        given = options.kubeconfig is not None
        installation = stack.enter_context(Installation(api, console, remove=given))
        is_local = options.plant_host == "localhost"
        plant = stack.enter_context(
            Plant(
                kubeconfig, window=WINDOW, delay=DELAY, namespace=NAMESPACE, host=options.plant_host,
                address="127.0.0.1" if is_local else "0.0.0.0",
            )
        )  # fmt: skip
        size = _SMALL if given else 1.0
        # A first guess of the start gives the night's pods; theirs may take a while to be ready on real nodes.
        made = deployments(Scenario.at(_second(_LEAD_S), size=size), NAMESPACE, options.start_up_seconds)
        _say(console, f"two Deployments of {made[0]['spec']['replicas']} pods each, as the night's load needs them")
        for document in made:
            api.apply(document)
        settle(api, made, simulated=not given)
        scenario = Scenario.at(_second(_LEAD_S), size=size, has_schedule=options.has_schedule)
        for name in TWINS:
            plant.add_target(NAMESPACE, {"app": name}, scenario.load)
        store = folder / "history.db"
        cut = time.time_ns()
        _say(console, import_history(scenario, folder, store, cut))
        operator = Operator(
            installation.operator_kubeconfig(kubeconfig, folder),
            folder,
            None,  # this checkout's code
            **OPERATOR_SETTINGS,
        )
        stack.enter_context(operator)
        assert operator.store == store
        _say(console, "operator: ready")
        time.sleep(max(0.0, (scenario.start - time.time_ns()) / SECOND))
        for document in autoscalers(scenario, NAMESPACE):
            api.apply(document)
        moments, told = watch(api, scenario, operator, screen_for(console, scenario, options.seconds), options.seconds)
        facts = {
            "seconds": options.seconds,
            "schedule": options.has_schedule,
            "started": format_instant(scenario.start),
            "recorded": format_instant(scenario.recorded_at(scenario.start)),
            "history_until": format_instant(cut),
            "rise_after_seconds": RISE_AFTER // SECOND,
            "request_cores": scenario.request,
            "startup_seconds": options.start_up_seconds,
            "sentence": verdict(score(moments)),
        }
        write(as_json(moments, told, facts))
        draw(moments, told, NAMESPACE, PICTURE)
        conclude(console, moments)


def import_history(scenario: Scenario, folder: Path, store: Path, now: int) -> str:
    """Fill the operator's store through `cronhpa history import`; what that says."""
    file = folder / "history.csv"
    scenario.write_history(file, now=now)
    command = [
        sys.executable, "-m", "cronhpa.cli", "history", "import", f"{NAMESPACE}/{CRONHPA}", str(file),
        "--store", str(store), "--before-object",
    ]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"`cronhpa history import` ended with {done.returncode}: {done.stderr.strip()}")
    return f"history: {done.stdout.strip()}"


def watch(
    api: Api, scenario: Scenario, operator: Operator, screen: Screen, seconds: int
) -> tuple[list[Moment], list[tuple[float, str]]]:
    """
    A moment a second until the time is up; and the events between them.

    Raises AssertionError with the end of the operator's log where it does not decide.
    """
    moments = [observe(api, scenario, NAMESPACE)]
    told: list[tuple[float, str]] = []
    scores = score(moments)
    begun = moments[0].second
    with screen:
        screen.tell(begun, "both autoscalers begin")
        while moments[-1].second - begun < seconds:
            screen.show(moments[-1], scores)
            time.sleep(1 - time.time() % 1)
            moment = observe(api, scenario, NAMESPACE)
            if moment.second - begun > _DECIDED_WITHIN_S and not moment.verdict.is_made:
                raise AssertionError(f"the operator took no decision in {_DECIDED_WITHIN_S} s:\n{operator.tail()}")
            for text in events(moments[-1], moment):
                told.append((moment.second, text))
                screen.tell(moment.second, text)
            scores = add(scores, moments[-1], moment)
            moments.append(moment)
        screen.show(moments[-1], scores)
    return moments, told


def conclude(console: Console, moments: list[Moment]) -> None:
    scores = score(moments)
    console.print()
    console.print(closing_table(scores))
    _say(console, verdict(scores))
    _say(console, "Under-provisioned: the load is above what the ready pods carry at all of their request.")
    _say(console, "The forecast was fitted by the operator on what was recorded before the start, and on nothing else.")
    _say(console, f"The picture of both twins is {PICTURE.absolute()}")
    _say(console, f"The timeline is in {RESULT.absolute()}")


def write(document: Mapping[str, Any]) -> None:
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=1) + "\n")


def _second(ahead: int) -> int:
    """The whole second so many seconds ahead."""
    return (time.time_ns() // SECOND + ahead) * SECOND


def _number(environment: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = environment.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise ValueError(f"{name}={text}: a whole number, {least} or more, is accepted")
    return int(text)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _leave(number: int, _frame: FrameType | None) -> None:
    """SIGTERM unwinds the stack as ^C does."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
