"""
cronhpa.core.sync_grid, cronhpa.operator.loop.reconciler: a restart into another period hastens no scale-down.
"""

import pytest
from lives import Life, cronhpa, deployment, timeline, until
from model_api import START, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND
from cronhpa.core.sync_grid import following


def on_grid(period, after):
    return (following("prod", period * SECOND, START + round(after * SECOND)) - START) / SECOND


@pytest.mark.parametrize("after", [0.2, 2.0])
def test_what_was_asked_for_behind_the_new_periods_instant_is_held_by_its_own_time(after):
    """
    Eight until a reconciliation of 15 s that lies behind an instant of the later period of 300 s, and five from then
    on: the new process begins within the tenth of its period that belongs to it. The window of 300 s begins with the
    reconciliation.
    """
    grid = on_grid(300, 300)
    last = on_grid(15, grid)

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=8)
        api.load["prod", "shop"] = 4000
        cronhpa(api)
        async with Life(api):
            await until(last + 0.2)
        api.load["prod", "shop"] = 2500
        api.edit("cronhpas", "prod", "shop", spec={"syncPeriodSeconds": 300})
        await until(last + after)
        async with Life(api):
            await until(last + 1300)
        return timeline(api)

    assert last - grid < 28
    (change,) = live(scenario)
    assert (8, 5) == change[1:]
    assert change[0] >= last + 300
