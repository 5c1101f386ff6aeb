"""
One control plane for all cluster tests of a pytest process, and for each test a namespace of its own.

Under pytest-xdist each worker that runs them has its own (3 s, 0.6 GB). They could share one, but what a test takes
away, the metrics API or the API server, would be gone for the other worker's tests too.
"""

import os
import re
import secrets
import subprocess

import pytest
import yaml

from cronhpa.core.model.instant import SECOND
from testbed import build
from testbed.control_plane import ControlPlane
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.cluster)


def pytest_terminal_summary(terminalreporter):
    """What a test told with record_property("told", ...), whether it passed or not and whichever worker ran it."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                for name, text in report.user_properties:
                    if name == "told":
                        terminalreporter.write_line(text)


@pytest.fixture(scope="package")
def control_plane():
    """
    A control plane with the CRD, the chart's rights and the upstream HPA, which looks every 2 s.

    $KUBERNETES names the version of its API server, of `build.OLDER_KUBERNETES`; without it the newest.
    """
    older = os.environ.get("KUBERNETES") or None
    with ControlPlane(hpa=True, hpa_sync_period="2s", audit=True, kubernetes=older) as plane:
        plane.install_chart()
        yield plane


@pytest.fixture(scope="package")
def _lasting_plant(control_plane):
    with Plant(control_plane.admin_kubeconfig, window=SECOND, delay=SECOND // 5) as plant:
        yield plant


@pytest.fixture
def plant(_lasting_plant):
    """The metrics API, fast: a window of 1 s, answered 0.2 s later. Without targets at first; mended at the end."""
    yield _lasting_plant
    _lasting_plant.reset()


@pytest.fixture
def namespace(control_plane, request):
    """A namespace for this test alone; what is in it goes with it."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{words}-{secrets.token_hex(3)}"
    # kubectl takes 0.1 s of CPU for each.
    control_plane.create("/api/v1/namespaces", [{"metadata": {"name": name}}])
    yield name
    control_plane.delete(f"/api/v1/namespaces/{name}")


_OPERATOR = pytest.StashKey[Operator]()


@pytest.fixture(scope="package")
def _lasting_operator(control_plane, tmp_path_factory, request):
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    with Operator(kubeconfig, tmp_path_factory.mktemp("operator")) as operator:
        request.config.stash[_OPERATOR] = operator
        yield operator


@pytest.fixture
def no_operator(request):
    """Nobody looks after the objects of this test: the operator, where one runs, is ended until the next test asks."""
    running = request.config.stash.get(_OPERATOR, None)
    if running is not None and running.is_running:
        running.kill()


@pytest.fixture
def operator(_lasting_operator):
    """The real operator with the chart's rights; started again for the next test where one has killed it."""
    if not _lasting_operator.is_running:
        _lasting_operator.start()
    yield _lasting_operator
    assert _lasting_operator.is_running, _lasting_operator.tail()


@pytest.fixture
def helm(control_plane, namespace, tmp_path):
    """Runs helm in the test's namespace, with values if any: (exit code, output). The test's end removes releases."""
    homes = {f"HELM_{name}_HOME": str(tmp_path / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    environment = os.environ | homes | {"KUBECONFIG": str(control_plane.admin_kubeconfig)}
    installed = []

    def run(verb, release, *words, values=None):
        if verb == "install":
            installed.append(release)
        command = [build.binaries() / "helm", verb, release, *words, "--namespace", namespace]
        ended = subprocess.run(
            [*command, "--values", "-"] if values else command,
            input=yaml.safe_dump(values), env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    yield run
    for release in installed:
        run("uninstall", release)
