"""Past decisions on a real control plane: explained as then, also after a SIGKILL, to users who may get the object."""

from __future__ import annotations

import json
import time

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.core.model.instant import HOUR, MINUTE, format_instant_exact
from cronhpa.history.database.series import RecordedBatch, Series
from cronhpa.history.store import Store
from testbed.twin import Scaled
from testbed.wait import wait_until

# Asked for before `shop`, which waits for a decision: an earlier test may have ended the operator.
pytestmark = pytest.mark.usefixtures("operator")

# The operator writes what it decided every five seconds.
FLUSHED_SECONDS = 12


@pytest.fixture
def shop(control_plane, namespace, plant):
    """Two pods at a load of 0.9 cores, of which 50 % of two cores are the target: two are wanted."""
    made = Scaled(control_plane, namespace, "web", replicas=2, timeZone="Europe/Berlin")
    made.load = plant.add_target(namespace, made.labels, 0.9)
    made.says("Ready", "True", "Deciding")
    # The first sample is of a window in which the load began: it asks for one, and the count at the start is held.
    wait_until(lambda: made.decided_by, lambda by: by == "Metric/cpu")
    return made


def account(control_plane, namespace, name, *, may_get):
    """A ServiceAccount that may get the CronHPAs of its namespace, or nothing at all."""
    control_plane.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    )
    if may_get:
        meta = {"name": name, "namespace": namespace}
        rule = {"apiGroups": ["cronhpa.io"], "resources": ["cronhpas"], "verbs": ["get"]}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        group = "rbac.authorization.k8s.io/v1"
        control_plane.apply({"apiVersion": group, "kind": "Role", "metadata": meta, "rules": [rule]})
        control_plane.apply(
            {"apiVersion": group, "kind": "RoleBinding", "metadata": meta, "roleRef": reference, "subjects": [subject]}
        )
    return control_plane.service_account_kubeconfig(namespace, name)


@pytest.fixture
def command(control_plane, operator, namespace):
    def run(name, *options, kubeconfig=None):
        config = str(kubeconfig or control_plane.admin_kubeconfig)
        past = ["--operator", operator.past_url] if options else []
        arguments = [name, "web", "-n", namespace, "--kubeconfig", config, *past, *options]
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})

    return run


def kept(operator, namespace):
    store = Store.open_to_read(operator.store)
    try:
        return store.decisions.between(namespace, "web", 0, 2**62, 1000)
    finally:
        store.close()


@pytest.mark.slow
def test_what_was_explained_then_is_explained_again_after_a_sigkill(shop, command, operator, namespace):
    """Word for word. An edit moves a bound and no count, so that the status stands still while it is read."""
    shop.patch(minReplicas=2)
    wait_until(lambda: command("explain", "--verbose").stdout, lambda text: "Bounds now: 2 to 20" in text)
    told = command("explain", "--verbose").stdout
    then = time.time_ns()
    time.sleep(FLUSHED_SECONDS)

    before = kept(operator, namespace)
    operator.kill()
    time.sleep(2)
    operator.start()
    shop.says("Ready", "True", "Deciding")
    time.sleep(FLUSHED_SECONDS)
    # The new process decides the same: it is not written again.
    assert [decision.at for decision in before] == [decision.at for decision in kept(operator, namespace)]
    shop.patch(minReplicas=3)
    shop.reaches(3)
    time.sleep(FLUSHED_SECONDS)

    past = command("explain", "--at", format_instant_exact(then))

    assert 0 == past.exit_code, past.stderr
    heading, *lines = past.stdout.splitlines()
    assert told.splitlines() == lines
    assert heading.startswith("Decided ")
    assert ", in force until " in heading
    again = command("replay", "--at", format_instant_exact(then))
    assert (0, True) == (again.exit_code, "the same again: 2 replicas, by Metric/cpu" in again.stdout), again.output


@pytest.mark.slow
def test_a_timeline_tells_each_change_of_the_count(shop, command, plant, tmp_path):
    plant.set_load(shop.load, 2.9)
    shop.reaches(6)
    plant.set_load(shop.load, 0.9)
    shop.reaches(2, within_s=40)
    time.sleep(FLUSHED_SECONDS)
    picture = tmp_path / "past.svg"

    since = ("--from", "10m ago")
    told = command("explain", *since, "--picture", str(picture))
    listed = json.loads(command("explain", *since, "-o", "json").stdout)

    assert 0 == told.exit_code, told.stderr
    assert "-> 6" in told.stdout
    counts = [change["desiredReplicas"] for change in listed["changes"]]
    assert 6 == max(count for count in counts if count is not None)
    assert 2 == counts[-1]
    assert listed["points"]
    assert "desired replicas" in picture.read_text()


@pytest.mark.slow
def test_who_may_get_the_object_reads_its_past_and_nobody_else(shop, command, control_plane, namespace):
    """Of somebody else's namespace, of an account that is gone, and of no account at all there is nothing to read."""
    time.sleep(FLUSHED_SECONDS)
    may = account(control_plane, namespace, "reader", may_get=True)
    may_not = account(control_plane, namespace, "stranger", may_get=False)
    elsewhere = account(control_plane, "default", f"reader-{namespace}"[:60].rstrip("-"), may_get=True)
    gone = account(control_plane, namespace, "gone", may_get=True)
    control_plane.kubectl("delete", "serviceaccount", "gone", "-n", namespace)

    read = command("explain", "--at", "now", kubeconfig=may)
    refused = [command("explain", "--at", "now", kubeconfig=kubeconfig) for kubeconfig in (may_not, elsewhere)]
    unknown = command("explain", "--at", "now", kubeconfig=gone)

    assert 0 == read.exit_code, read.stderr
    assert "web: 2 replicas of" in read.stdout
    for completed in refused:
        assert (1, "") == (completed.exit_code, completed.stdout)
        assert "the operator kept no decision of it for you" in completed.stderr
    assert (1, "") == (unknown.exit_code, unknown.stdout)
    assert "the API server does not know your token" in unknown.stderr


@pytest.mark.slow
def test_a_kubeconfig_without_a_token_asks_by_a_token_for_the_operator_alone(shop, command, control_plane, namespace):
    """The token is made for cronhpa.io: the API server itself does not take it."""
    time.sleep(FLUSHED_SECONDS)
    account(control_plane, namespace, "reader", may_get=True)

    read = command("explain", "--at", "now", "--service-account", f"{namespace}/reader")
    refused = command("explain", "--at", "now", "--service-account", f"{namespace}/default")

    assert 0 == read.exit_code, read.stderr
    assert "web: 2 replicas of" in read.stdout
    assert 1 == refused.exit_code


def test_a_backtest_runs_on_the_load_that_the_operator_recorded(shop, command, operator, control_plane, namespace):
    """Two hours of load, twice as high in the second: for users who may get the object, and for nobody else."""
    account(control_plane, namespace, "reader", may_get=True)
    now = time.time_ns() // HOUR * HOUR
    store = Store(operator.store)
    load = [(now - at * MINUTE, 1.8 if at <= 60 else 0.9) for at in range(1, 121)]
    written = store.loads.backfill(Series(namespace, "web", "cpu"), load)
    store.close()
    assert isinstance(written, RecordedBatch), written
    # Within what was written: whether the operator has recorded something since is not known.
    begin, end = (format_instant_exact(now - minutes * MINUTE) for minutes in (110, 1))
    span = ("--from", begin, "--to", end, "-o", "json")

    completed = command("backtest", *span, "--service-account", f"{namespace}/reader")
    refused = command("backtest", *span, "--service-account", f"{namespace}/default")

    assert 0 == completed.exit_code, completed.stderr
    told = json.loads(completed.stdout)
    assert f"{namespace}/web" == told["object"]
    # 0.9 cores are 2 pods at 50 % of a core, 1.8 cores are 4: 50 min of 2 and 59 min of 4 are 5.6 pod-hours.
    assert 5.3 < told["variants"]["reactive"]["podHours"] < 6.0
    assert 1 == refused.exit_code
    assert "the operator recorded no load of" in refused.stderr
