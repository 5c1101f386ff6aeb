"""
cronhpa.api.status_memory: an object as an earlier release left it is taken up where that release stopped.

earlier_release.json was written by commit 8a1b330, before there were leases, claims and recommendations of two numbers.
Two pods a minute may go; 8 were there, 2 went at 169 s, and one core needs 2 of the 6 that are left at 220 s.
"""

import asyncio
import json
from copy import deepcopy
from pathlib import Path

from lives import Life, condition, deployment, status, timeline
from model_api import ModelApi
from virtual_time import live

LEFT = json.loads((Path(__file__).parent / "earlier_release.json").read_text())


def test_a_status_of_the_earlier_release_is_taken_up_and_lowers_nothing_early():
    async def scenario():
        api = ModelApi()
        await asyncio.sleep(LEFT["at"])
        deployment(api, replicas=LEFT["replicas"])
        api.load["prod", "shop"] = 1000
        api.objects["cronhpas"]["prod", "shop"] = LEFT["item"]
        api.version = 10**6
        async with Life(api):
            await asyncio.sleep(60)
            memory = deepcopy(status(api)["memory"])
            await asyncio.sleep(240)
        return api, memory

    api, memory = live(scenario)
    changes = timeline(api)

    assert [(6, 4), (4, 2)] == [change[1:] for change in changes]
    assert 169 + 60 <= changes[0][0] <= 169 + 60 + 2 * 15
    assert "Deciding" == condition(api, "Ready")["reason"]
    # What the earlier release reads of a memory is still there, by the same names.
    assert 1 == memory["version"]
    assert {"replicas", "time"} <= set(memory["recommendations"][-1])
    assert {"change", "time"} <= set(memory["scaleDownEvents"][-1])
