"""Windows at the clock changes of a zone: the operator's process alone has the clock of that night."""

import time

import pytest

from cronhpa.core.model.instant import SECOND, format_instant, parse_instant
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_operator")]

# A busy machine answers late, and a poll comes after a fifth of a second. A wrong fold would be an hour off.
SLACK = 10 * SECOND
PROGRAM = """
import runpy, time
now = time.time_ns
time.time_ns = lambda: now() + {offset}
runpy.run_module("cronhpa.cli", run_name="__main__", alter_sys=True)
"""


class Night:
    """An operator that lives at another time. On a busy machine it takes half a minute to start."""

    def __init__(self, control_plane, folder, begin):
        self._offset = parse_instant(begin) - time.time_ns()
        kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
        self._operator = Operator(kubeconfig, folder, program=("-c", PROGRAM.format(offset=self._offset)))

    def __enter__(self):
        self._operator.start()
        return self

    def __exit__(self, *_):
        self._operator.kill()

    def now(self):
        return time.time_ns() + self._offset

    def is_told(self, shop, state):
        wait_until(lambda: shop.status.get("schedules"), lambda rows: rows and rows[0]["state"] == state, within_s=60)

    def reaches(self, shop, replicas, at):
        """The count comes at an instant, and not before it."""
        moment, before = parse_instant(at), shop.replicas
        while self.now() < moment - SECOND:
            assert before == shop.replicas, format_instant(self.now())
            time.sleep(0.2)
        shop.reaches(replicas)
        assert self.now() < moment + SLACK, format_instant(self.now())


@pytest.fixture
def shop(control_plane, namespace):
    """It asks for four from one local time of Berlin to another."""

    def make(start, end):
        night = {"name": "night", "start": start, "end": end, "timeZone": "Europe/Berlin", "leadTimeSeconds": 0}
        schedules = [night | {"minReplicas": 4}]
        return Scaled(control_plane, namespace, replicas=2, minReplicas=2, metrics=None, schedules=schedules)

    return make


def test_a_start_in_a_spring_gap_is_the_first_instant_that_exists(control_plane, shop, tmp_path):
    """28 March 2027: at two o'clock, 1:00 UTC, it is three, and half past two is not."""
    web = shop("30 2 28 3 *", "30 3 28 3 *")
    with Night(control_plane, tmp_path, "2027-03-28T00:58:30Z") as night:
        night.is_told(web, "Closed")
        night.reaches(web, 4, "2027-03-28T01:00:00Z")


def test_in_an_autumn_fold_a_start_is_the_first_half_past_two_and_an_end_the_second_quarter_to_three(
    control_plane, shop, tmp_path
):
    """31 October 2027: at three o'clock, 1:00 UTC, it is two. Half past two is 0:30, the quarter 0:45 and 1:45 UTC."""
    web = shop("30 2 31 10 *", "45 2 31 10 *")
    with Night(control_plane, tmp_path, "2027-10-31T00:28:30Z") as night:
        night.is_told(web, "Closed")
        night.reaches(web, 4, "2027-10-31T00:30:00Z")
    with Night(control_plane, tmp_path, "2027-10-31T01:44:00Z") as night:
        night.is_told(web, "Open")
        night.reaches(web, 2, "2027-10-31T01:45:00Z")
