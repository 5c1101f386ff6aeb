"""cronhpa.operator.loop.control_loop: a shard that is given up ends its own tasks, and no others."""

import asyncio

from virtual_time import live

from cronhpa.operator.loop.control_loop import NamespaceTasks


def test_the_tasks_of_a_namespace_end_in_time_or_are_cancelled_and_those_of_others_go_on():
    """
    Tasks of 1, 3 and 9 s; the one of 1 s begins a write of 4 s at its end. Six seconds are given to writes, two to the
    others.
    """
    ended = []

    async def scenario():
        tasks = NamespaceTasks()

        async def take(name, seconds, then=None):
            await asyncio.sleep(seconds)
            ended.append(name)
            if then is not None:
                tasks.spawn(take(then, 4), "given up", writes=True)

        tasks.spawn(take("short", 1, then="its write"), "given up")
        tasks.spawn(take("long", 9), "given up")
        tasks.spawn(take("another's", 3), "kept")
        tasks.spawn(take("long write", 9), "given up", writes=True)

        begun = asyncio.get_running_loop().time()
        await tasks.close(6.0, lambda namespace: namespace == "given up")
        took = asyncio.get_running_loop().time() - begun
        await asyncio.sleep(10)
        return took

    assert 6.0 == round(live(scenario), 3)
    assert ["short", "another's", "its write"] == ended
