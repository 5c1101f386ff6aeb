"""Each decision that stands, on a real control plane, compared with the one that would be made."""

import math
import os
import random
import re
import time
from dataclasses import dataclass
from itertools import pairwise

import pytest

from cronhpa.core.model.instant import MINUTE, SECOND, format_instant
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Scaled

# STANDING_SECONDS=3600 for an hour of it. Shorter runs have too few periods for a conclusion.
SECONDS = max(240.0, float(os.environ.get("STANDING_SECONDS", "0")))
OBJECTS = 30
# Each process logs every minute how many it has compared.
COMPARED = re.compile(r"(\d+) decisions that stood were compared, (\d+) differ")


@dataclass(frozen=True)
class Wave:
    """A load that swings by `share` of its mean and doubles for a minute in every seven."""

    mean: float
    share: float
    phase: int

    def at(self, instant):
        swing = 1 + self.share * math.sin((instant / SECOND + 37 * self.phase) / 11)
        is_doubled = instant // MINUTE % 7 == self.phase % 7
        return self.mean * swing * (2 if is_doubled else 1)


def disturb(dice, scaled, operator):
    """What happens to one object, or now and then to all."""
    until = format_instant(time.time_ns() + 20 * SECOND)
    what = dice.randrange(20)
    if what < 5:
        scaled.patch(maxReplicas=dice.randint(20, 40))
    elif what < 10:
        scaled.patch(override={"minReplicas": dice.randint(1, 15), "until": until, "reason": "more for a moment"})
    elif what < 14:
        scaled.patch(override=None)
    elif what < 19:
        scaled.scale_by_hand(dice.randint(1, 20))
    else:
        operator.kill()
        operator.start()


@pytest.mark.long
@pytest.mark.usefixtures("no_operator")
def test_no_decision_that_stands_differs_while_loads_swing_windows_open_specs_are_edited_and_the_operator_is_killed(
    control_plane, namespace, plant, tmp_path
):
    dice = random.Random(4711)
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    objects = []
    for number in range(OBJECTS):
        mean = 0.5 * (1 + number % 5)
        window = {
            "name": "window", "start": f"{number % 10}-59/10 * * * *", "durationMinutes": 2, "minReplicas": 6 + number,
            "timeZone": "UTC",
        }  # fmt: skip
        made = Scaled(
            control_plane, namespace, f"web-{number}", replicas=2, maxReplicas=40,
            schedules=[window] if number % 4 == 3 else None,
            behavior={"scaleDown": {"stabilizationWindowSeconds": 5 * (number % 3)}},
        )  # fmt: skip
        plant.add_target(namespace, made.labels, Wave(mean, 0.08 if number % 2 else 0.3, number))
        objects.append(made)
    end = time.monotonic() + SECONDS
    with Operator(kubeconfig, tmp_path, check_standing="true") as operator:
        while time.monotonic() < end:
            time.sleep(dice.uniform(2, 10))
            disturb(dice, dice.choice(objects), operator)
    told = operator.log.read_text()

    counts = [(int(reconciliations), int(differ)) for reconciliations, differ in COMPARED.findall(told)]
    # The last line of each process: the next one begins with less.
    of_processes = [
        reconciliations for (reconciliations, _), (later, _) in pairwise([*counts, (0, 0)]) if later < reconciliations
    ]
    print(f"{sum(of_processes)} decisions that stood were compared by {len(of_processes)} processes")
    assert "the decision that stands differs" not in told
    assert sum(of_processes) > SECONDS * OBJECTS / 40
    assert {0} == {differ for _, differ in counts}
