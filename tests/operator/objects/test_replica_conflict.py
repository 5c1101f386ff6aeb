"""
cronhpa.operator.objects.replica_conflict: who sets back what was scaled is named after the third time, and scaling goes
on.
"""

from lives import Life, condition, cronhpa, deployment, status, timeline, until
from model_api import START, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import MINUTE
from cronhpa.operator.objects.replica_conflict import ReplicaConflict

CALM = {"scaleDown": {"stabilizationWindowSeconds": 0}}
ARGO = {"manager": "argocd-controller", "time": "2027-01-15T07:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
OURS = {"manager": "cronhpa", "time": "2027-01-15T07:09:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
LABELS = {"manager": "someone", "time": "2027-01-15T07:09:00Z", "fieldsV1": {"f:metadata": {}}}
NAMED = (
    "field manager argocd-controller has set back the replicas of Deployment/shop 3 times within 10 minutes, and each"
    " reconciliation changes them again: leave spec.replicas out of what it applies"
)


def contested(times, *, seconds=30.0, managers=(ARGO, OURS, LABELS)):
    """2 cores need 4 replicas; somebody sets 2, `times` times, `seconds` apart."""

    async def story():
        api = ModelApi()
        deployment(api)
        api.edit("deployments", "prod", "shop", metadata={"managedFields": list(managers)})
        api.load["prod", "shop"] = 2000
        cronhpa(api, behavior=CALM)
        async with Life(api):
            for number in range(times):
                await until((number + 1) * seconds)
                api.edit("deployments", "prod", "shop", spec={"replicas": 2})
            await until((times + 1) * seconds)
            told = condition(api, "TargetOwned")
            await until((times + 1) * seconds + 620)
            return api, told, condition(api, "TargetOwned")

    return live(story)


def contested_events(api):
    return [event for event in api.objects["events"].values() if event["reason"] == "ReplicasContested"]


def test_after_three_reversals_the_other_field_manager_is_named_by_one_event_and_scaling_goes_on():
    api, told, later = contested(5)

    assert ("Unknown", "ReplicasContested", NAMED) == (told["status"], told["reason"], told["message"])
    assert [("Warning", NAMED)] == [(event["type"], event["message"]) for event in contested_events(api)]
    assert [(2, 4), *[(4, 2), (2, 4)] * 5] == [change[1:] for change in timeline(api)]
    assert "True" == condition(api, "Ready")["status"]
    assert "OnlyOwner" == later["reason"]


def test_two_reversals_are_people():
    api, told, _ = contested(2)

    assert "OnlyOwner" == told["reason"]
    assert [] == contested_events(api)


def test_reversals_that_are_far_apart_are_people():
    """Five minutes and a second apart: never three within ten minutes."""
    api, told, _ = contested(4, seconds=301.0)

    assert "OnlyOwner" == told["reason"]
    assert [] == contested_events(api)


def test_a_manager_that_the_api_does_not_tell_is_another_one():
    api, told, _ = contested(3, managers=(OURS,))

    assert told["message"].startswith("another field manager has set back the replicas")
    assert 1 == len(contested_events(api))


def test_a_restart_tells_it_no_second_time():
    async def story():
        api = ModelApi()
        deployment(api)
        api.load["prod", "shop"] = 2000
        cronhpa(api, behavior=CALM)
        for life in range(2):
            async with Life(api):
                for number in range(4):
                    await until(life * 200 + 30 * (number + 1))
                    api.edit("deployments", "prod", "shop", spec={"replicas": 2})
                await until(life * 200 + 180)
        return api

    api = live(story)

    assert "ReplicasContested" == condition(api, "TargetOwned")["reason"]
    assert 1 == len(contested_events(api))
    assert "ReplicasContested" not in str(status(api)["memory"])


def test_a_write_that_may_not_have_been_done_is_no_reversal():
    conflict = ReplicaConflict()
    for number in range(6):
        conflict.wrote(4)
        conflict.wrote(None)
        conflict.found(2, START + number * MINUTE)

    assert (False, "") == (conflict.is_unnamed, conflict.problem)


def test_a_count_that_stays_as_it_was_written_is_no_reversal_and_each_write_is_reversed_once():
    conflict = ReplicaConflict()
    conflict.wrote(4)
    conflict.found(4, START)
    for number in range(1, 6):
        conflict.found(2, START + number)

    assert not conflict.is_unnamed
