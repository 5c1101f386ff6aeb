"""
What all tests share: how hypothesis explores, that what they start can be interrupted, and a PostgreSQL.

`ci` gives the same examples on every run, so that a failure on one machine is a failure on all. To look further:
HYPOTHESIS_PROFILE=explore makes twenty times as many, others each time.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

pytest_plugins = ["distribution"]

# Before numpy is imported. Its threads wait by spinning: four workers on two cores took ten times the time for a fit.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# A slow machine is no failure: no deadline, and no complaint about how long examples take to make.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50, suppress_health_check=_PATIENT)
settings.register_profile("explore", deadline=None, max_examples=1000, suppress_health_check=_PATIENT)
# For `make mutation`: whatever example kills a mutant will do, so no smaller one is looked for, and a mutant that only
# the hundredth example kills wants a test of its own.
settings.register_profile(
    "mutation", settings.get_profile("ci"), max_examples=25, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell starts what runs in its background with SIGINT ignored, and every process started from there inherits that:
# a test that interrupts one of them would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres():
    """One server for all tests of a session that ask for it."""
    from testbed.postgres import running

    with running() as server:
        yield server


@pytest.fixture(scope="session")
def new_schema(postgres):
    """Makes the address of an empty store in a schema of its own."""
    from cronhpa.history.database.address import PostgresAddress

    numbers = count(1)

    def make():
        name = f"t{next(numbers)}"
        postgres.execute(f"CREATE SCHEMA {name}")
        return PostgresAddress(postgres.url(name))

    return make


@pytest.fixture(scope="module")
def scripts():
    """The modules of deploy/monitoring by name; they are scripts, and in no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "deploy" / "monitoring")
        import dashboards
        import generate
        import rules

        yield {"generate": generate, "rules": rules, "dashboards": dashboards}
        for name in ("dashboards", "generate", "reference", "rules"):
            sys.modules.pop(name, None)


@pytest.fixture
def benchmark_scripts(monkeypatch):
    """A test may import scripts of benchmarks/, which are no package; the next test imports them anew."""
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    yield
    for script in folder.glob("*.py"):
        sys.modules.pop(script.stem, None)
