"""cronhpa.cli.explain: the lines that a status is explained by."""

from cronhpa.cli.explain import explained

METADATA = {"namespace": "prod", "name": "shop"}


def condition(kind, status):
    return {"type": kind, "status": status, "reason": f"{kind}Reason", "message": "as it is"}


def body(**status):
    return {"metadata": METADATA, "status": {"conditions": [condition("AbleToScale", "True")], **status}}


def test_an_object_without_conditions_has_not_been_decided():
    assert ["prod/shop has not been decided yet: is the operator running?"] == explained({"metadata": METADATA})


def test_a_decision_is_told_with_who_asks_for_what_what_limited_it_and_what_comes_next():
    lines = explained(
        body(
            target="Deployment/shop",
            currentReplicas=12,
            desiredReplicas=20,
            effectiveMinReplicas=20,
            effectiveMaxReplicas=99,
            decision={
                "decidedBy": "Schedule/day",
                "reason": "Schedule/day asks for at least 20",
                "proposals": [
                    {"source": "Metric", "name": "cpu", "role": "Target", "replicas": 9},
                    {"source": "Forecast", "name": "cpu", "role": "Floor", "replicas": 17, "reason": "p95 load"},
                    {"source": "Schedule", "name": "day", "role": "Cap", "replicas": 20, "until": "17:00"},
                ],
                "abstentions": [{"source": "Metric", "name": "memory", "message": "no samples"}],
                "steps": [{"rule": "ScaleUpLimit", "from": 40, "to": 24}],
            },
            nextEdge={"schedule": "day", "state": "Closed", "time": "17:00"},
        )
    )

    assert [
        "prod/shop wants 20 replicas of Deployment/shop, decided by Schedule/day; 12 were found, 20 to 99 are allowed.",
        "  reason: Schedule/day asks for at least 20",
        "  Metric/cpu asks for 9",
        "  Forecast/cpu asks for at least 17 (p95 load)",
        "  Schedule/day asks for at most 20 until 17:00",
        "  Metric/memory says nothing: no samples",
        "  ScaleUpLimit made 24 of 40",
        "  next: day is closed from 17:00",
    ] == lines


def test_conditions_are_told_where_they_are_news():
    """False is news of most conditions, True of ScalingLimited and ScaledToZero."""
    lines = explained(
        body(
            conditions=[
                condition("AbleToScale", "False"),
                condition("ScalingActive", "True"),
                condition("ScalingLimited", "True"),
                condition("ScaledToZero", "False"),
            ]
        )
    )

    assert [
        "  AbleToScale is False: AbleToScaleReason: as it is",
        "  ScalingLimited is True: ScalingLimitedReason: as it is",
    ] == lines[1:]


def test_what_is_withheld_is_told():
    assert "  withheld: mode is DryRun" in explained(body(decision={"withheld": "mode is DryRun"}))
