"""`pip install cronhpa`, without an extra: what needs one says which; all else runs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from cli.forked import ForkedCommands

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "crds" / "examples"
WEEK = PROJECT / "benchmarks" / "traces" / "k8s_app11_cpu_1m.csv.gz"
BACKTEST = ["--pod-request", "cpu=500m", "--pod-startup", "2m", "--history", str(WEEK), "--to", "6h"]
IMPORTED = ["--store", "a.db", "--metric", "cpu", "--before-object"]
# What an extra brings; that a file needs it is in its name or in what it says first.
OF_AN_EXTRA = ("matplotlib", "numpy", "pandas", "statsmodels", "pyarrow", "distributed", "psycopg", "opentelemetry")
DRAWN = "a picture is drawn by matplotlib, which is not installed: pip install 'cronhpa[plot]'"
HPA = """apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  maxReplicas: 9
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
"""
# They are imported after a check that says which extra is missing.
NEED_AN_EXTRA = {
    *(f"cronhpa.cli.picture.{name}" for name in ("band", "calendar", "history_picture", "backtest_picture", "style")),
    "cronhpa.cli.picture.timeline_picture", "cronhpa.history.database.postgres", "cronhpa.history.imports.parquet",
    *(f"cronhpa.cli.report.{name}" for name in ("html", "manifests", "text")),
}  # fmt: skip
BLOCKED = """
import sys


class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {missing!r} else self.finder.find_spec(name, path, target)


sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def locked(name):
    return set(re.findall(r"^([a-z0-9-]+)==", (PROJECT / name).read_text(), re.MULTILINE))


@cache
def modules_of_extras():
    """Import names of whatever requirements.lock has and the base has not."""
    base = locked("deploy/plugin.lock")
    return sorted(
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if not {name.lower().replace("_", "-") for name in packages} & {*base, "cronhpa"}
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder for PYTHONPATH, with which a Python begins as where the base alone is installed."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "sitecustomize.py").write_text(BLOCKED.format(missing=set(modules_of_extras())))
    return folder


@pytest.fixture(scope="module")
def based(base, tmp_path_factory):
    with ForkedCommands(tmp_path_factory.mktemp("based"), base) as commands:
        yield commands


def test_what_extras_bring_is_no_part_of_the_base():
    assert set(OF_AN_EXTRA) <= set(modules_of_extras())


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--help"], 0, "preview"),
        (["preview", str(EXAMPLES / "holidays.yaml")], 0, "desk"),
        (["crd"], 0, "CustomResourceDefinition"),
        (["convert", "hpa.yaml"], 0, "kind: CronHPA"),
        (["backtest", str(EXAMPLES / "office-hours.yaml"), *BACKTEST], 0, "reactive"),
        (["status", "-A"], 1, "no way to the Kubernetes API"),
        (["explain", "shop"], 1, "no way to the Kubernetes API"),
        (["preview", str(EXAMPLES / "holidays.yaml"), "--picture", "a.svg"], 1, DRAWN),
        (["backtest", str(EXAMPLES / "forecast.yaml"), *BACKTEST], 1, "pip install 'cronhpa[forecast]'"),
        (["history", "import", "prod/shop", "week.parquet", *IMPORTED], 1, "cronhpa[parquet]"),
    ],
    ids=lambda value: " ".join(Path(word).name for word in value[:2]) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_command_runs_without_extras_or_says_which_one_it_needs(based, tmp_path, words, code, says):
    (tmp_path / "week.parquet").touch()
    (tmp_path / "hpa.yaml").write_text(HPA)
    ended = based.run(*words, within=tmp_path, environment={"KUBECONFIG": "/nonexistent", "COLUMNS": "200"})
    output = (ended.stdout + ended.stderr).decode()

    assert "Traceback" not in output
    assert says in output
    assert code == ended.returncode, output


@pytest.mark.slow
def test_the_modules_that_need_an_extra_are_known(base):
    """Each is imported, also those that a command imports late."""
    modules = [
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
        for room in ("cli", "explained", "migration", "page", "core", "api", "kube", "simulation", "sources", "history")
        for path in sorted((PROJECT / "cronhpa" / room).rglob("*.py"))
        if path.name != "__main__.py"
    ]
    tried = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        print(name)
"""
    environment = {**os.environ, "PYTHONPATH": str(base)}
    ended = subprocess.run(
        [sys.executable, "-c", tried, *modules], env=environment, capture_output=True, text=True, check=False
    )

    assert (0, "") == (ended.returncode, ended.stderr)
    assert NEED_AN_EXTRA == set(ended.stdout.split())
