"""The real page server on a free port of loopback, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from pathlib import Path

from cronhpa.page.authentication import Authentication, AuthenticationMode
from cronhpa.page.rights import AllRights
from cronhpa.page.server import PageServer, PageSettings
from page.made_fleet import NOW


@contextmanager
def served(
    objects, *, store=Path("/nowhere/history.db"), rights=None, authentication=None, now=lambda: NOW, **settings
):
    """The address of a page that shows these objects: http://127.0.0.1:PORT."""
    started, box = threading.Event(), {}

    async def serve():
        server = PageServer(
            PageSettings("127.0.0.1", 0, authentication or Authentication(AuthenticationMode.NONE), store, **settings),
            objects,
            rights or AllRights(),
            now,
        )
        box.update(loop=asyncio.get_running_loop(), server=server, task=asyncio.current_task())
        started.set()
        await server.run()

    def run():
        try:
            asyncio.run(serve())
        except asyncio.CancelledError:
            pass
        finally:
            started.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(120)
    assert "server" in box
    try:
        yield f"http://127.0.0.1:{box['server'].address[1]}"
    finally:
        box["loop"].call_soon_threadsafe(box["task"].cancel)
        thread.join(120)
