"""Replicas of one installation: operators of one release that elect who leads."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from testbed.operator import Operator


class ElectionTiming(NamedTuple):
    """In seconds."""

    lease_duration: float
    renew_deadline: float
    retry_period: float


def started_replica(
    kubeconfig: Path, folder: Path, identity: str, lease: str, timing: ElectionTiming, **settings: str
) -> Operator:
    """A replica that is ready. identity: its name in the Lease. settings: further settings, CRONHPA_*."""
    operator = Operator(
        kubeconfig,
        folder,
        leader_elect_identity=identity,
        leader_elect_resource_name=lease,
        leader_elect_lease_duration=f"{timing.lease_duration}s",
        leader_elect_renew_deadline=f"{timing.renew_deadline}s",
        leader_elect_retry_period=f"{timing.retry_period}s",
        **settings,
    )
    operator.start()
    return operator
