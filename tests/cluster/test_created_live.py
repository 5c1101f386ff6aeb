"""cronhpa.cli.commands.create: on a real API server, whose operator decides on what it makes."""

import pytest
import yaml
from typer.testing import CliRunner

from cronhpa.cli import app
from testbed.objects import deployment
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("operator")


def test_what_it_creates_scales_the_target_and_what_it_prints_is_accepted(control_plane, namespace, plant):
    """1.2 cores at 60 % of 1 core need 2 pods."""
    made = deployment("shop", namespace=namespace, replicas=1)
    control_plane.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", [made])
    plant.add_target(namespace, {"app": "shop"}, 1.2)
    options = ["create", "shop", "-n", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig)]
    options += ["--min", "1", "--max", "5", "--cpu", "60", "--forecast"]
    options += ["--schedule", "0 8 * * mon-fri to 0 18 * * mon-fri: 2", "--time-zone", "Europe/Berlin"]

    printed = CliRunner().invoke(app, options)
    control_plane.kubectl("apply", "--validate=strict", "--dry-run=server", "-f", "-", stdin=printed.stdout)
    created = CliRunner().invoke(app, [*options, "--apply"])
    again = CliRunner().invoke(app, [*options, "--apply"])

    assert (0, "") == (printed.exit_code, printed.stderr)
    assert "shop" == yaml.safe_load(printed.stdout)["spec"]["scaleTargetRef"]["name"]
    assert (0, f"cronhpa {namespace}/shop created\n") == (created.exit_code, created.stdout)
    assert (1, True) == (again.exit_code, "is there already" in again.stderr)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/shop"
    wait_until(lambda: control_plane.get(path)["spec"]["replicas"], lambda replicas: replicas == 2)
