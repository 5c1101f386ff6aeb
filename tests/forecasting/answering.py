"""A server that answers range queries as Prometheus does, on loopback."""

from __future__ import annotations

from aiohttp import web


class Answering:
    """A server that notes what it was asked and answers with one value at each minute of the span; or as told."""

    def __init__(self, value=lambda _: "1.5", answer=None, status=200, clusters=None, warnings=()):
        """clusters: the number of clusters whose series it has; None: no series says of which it is."""
        self.asked, self.headers, self.tenants = [], [], []
        self._value, self._answer, self._status = value, answer, status
        self._clusters, self._warnings = clusters, list(warnings)

    async def __aenter__(self):
        application = web.Application()
        application.router.add_post("/api/v1/query_range", self._range)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    async def _range(self, request):
        form = await request.post()
        self.asked.append((form["query"], int(form["start"]), int(form["end"]), int(form["step"])))
        self.headers.append(request.headers.get("Authorization"))
        self.tenants.append(request.headers.get("X-Scope-OrgID"))
        if self._answer is not None:
            return web.Response(text=self._answer, status=self._status)
        seconds = range(int(form["start"]), int(form["end"]) + 1, int(form["step"]))
        if form["query"].startswith("count(count by (cluster"):
            values = [] if self._clusters is None else [[at, str(self._clusters)] for at in seconds]
        elif form["query"].startswith("count("):
            values = []
        else:
            values = [[at, value] for at in seconds if (value := self._value(at)) is not None]
        return web.json_response({"status": "success", "data": matrix(values), "warnings": self._warnings})


def matrix(*lines):
    return {"resultType": "matrix", "result": [{"metric": {}, "values": values} for values in lines if values]}
