"""cronhpa.api.columns: the columns of `kubectl get` by a running operator, and the pods that it measured."""

from lives import Life, cronhpa, deployment, status, until
from model_api import ModelApi
from virtual_time import live


def test_a_spec_that_became_unreadable_says_so_and_promises_no_edge():
    """The window opens at 07:01 UTC on a Friday, which is 16:01 in Tokyo."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        api.load["prod", "shop"] = 1000
        rush = {"name": "rush", "start": "1 7 * * *", "end": "0 8 * * *", "minReplicas": 4, "leadTimeSeconds": 0}
        cronhpa(api, schedules=[{**rush, "timeZone": "UTC"}], timeZone="Asia/Tokyo")
        async with Life(api):
            await until(30)
            columns = status(api)["columns"]
            assert {"targets": "cpu: 50%/50%", "status": "Deciding", "next": "Fri 16:01 +09:00"} == columns
            assert (2, 0) == tuple(status(api)["decision"]["metrics"][0][key] for key in ("pods", "notReady"))
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": "many"})
            await until(50)
            assert {"targets": "cpu: 50%/50%", "status": "SpecUnreadable"} == status(api)["columns"]

    live(scenario)
