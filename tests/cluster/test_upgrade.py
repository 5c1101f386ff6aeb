"""
cronhpa.api.status_memory, cronhpa.history.database.schema: an upgrade from an earlier release and back, under load.

The earlier release is commit b64ef9e, the first with a Lease: its CRD has no `status.operator` and no columns, its
store is of version 3. It is taken out of the repository's history, so a clone must have that commit.
"""

import subprocess
import time
from pathlib import Path

import pytest

from cronhpa.history.database.schema import SCHEMA
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Changes, Scaled

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("no_operator")]

ROOT = Path(__file__).parents[2]
EARLIER = "b64ef9e"
CRD = "crds/cronhpa.io_cronhpas.yaml"
WINDOW = 20
# Two pods down in ten seconds.
SLOW = {"type": "Pods", "value": 2, "periodSeconds": 10}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("earlier")
    archive = subprocess.run(
        ["git", "archive", EARLIER, "cronhpa", "models", "crds"], cwd=ROOT, check=False, capture_output=True
    )
    if archive.returncode:
        pytest.skip(f"this clone does not have commit {EARLIER}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


@pytest.fixture
def crds(control_plane, earlier):
    """Applies the CRD of one of the two releases; at the end this release's is there again."""

    def apply(root):
        control_plane.kubectl("replace", "-f", str(root / CRD))

    yield lambda is_earlier: apply(earlier if is_earlier else ROOT)
    apply(ROOT)


def test_an_upgrade_and_back_lowers_nothing_early_and_decides_throughout(
    control_plane, namespace, plant, earlier, crds, tmp_path
):
    """
    Each change of the release comes within the window of a load that has just fallen.

    Six pods for three cores and two for one, at most two in ten seconds, after twenty seconds without a higher load.
    """
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    releases = [Operator(kubeconfig, tmp_path, code=earlier), Operator(kubeconfig, tmp_path)]
    crds(True)
    behavior = {"scaleDown": {"stabilizationWindowSeconds": WINDOW, "policies": [SLOW]}}
    shop = Scaled(control_plane, namespace, replicas=2, behavior=behavior)
    load = plant.add_target(namespace, shop.labels, 3.0)

    with Changes(shop) as changes:
        running = releases[0]
        running.start()
        shop.reaches(6)
        for number in (1, 0, 1):
            plant.set_load(load, 1.0)
            fell = time.monotonic()
            time.sleep(3)
            running.__exit__(None, None, None)
            crds(number == 0)
            running = releases[number]
            running.start()
            shop.reaches(4, within_s=90)
            four = time.monotonic()
            assert four - fell >= WINDOW
            shop.reaches(2, within_s=60)
            assert time.monotonic() - four >= 8
            plant.set_load(load, 3.0)
            shop.reaches(6, within_s=60)
        running.__exit__(None, None, None)

    assert changes.most_lost_within(8) <= 2
    log = running.log.read_text()
    # The earlier one says that it cannot read the store any more, and decides on.
    assert f"schema version {SCHEMA.version}: this release reads version 3; use the release that wrote it" in log
    assert "Traceback" not in log
    assert "is damaged" not in log
