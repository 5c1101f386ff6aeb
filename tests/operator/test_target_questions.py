"""cronhpa.kube.target_questions: what is asked about watched targets leaves room for the requests of others."""

import asyncio

import pytest
from virtual_time import live

from cronhpa.kube.errors import ClusterError
from cronhpa.kube.target_questions import TargetQuestions

KEY = ("prod", "apps", "Deployment", "shop")


def refused(status):
    async def get():
        raise ClusterError(status, "Trouble", "refused on purpose")

    return get


def test_sixteen_are_asked_at_a_time_and_who_waits_for_five_seconds_has_no_answer():
    async def scenario():
        questions, begun = TargetQuestions(), []

        async def get():
            begun.append(asyncio.get_running_loop().time())
            await asyncio.sleep(3)
            return "known"

        keys = [("prod", "apps", "Deployment", f"shop-{number}") for number in range(41)]
        answers = await asyncio.gather(*(questions.known(key, get) for key in keys[:40]))
        return begun, answers, await questions.known(keys[40], get)

    begun, answers, later = live(scenario)

    assert [0] * 16 + [3] * 16 == [round(seconds) for seconds in begun[:32]]
    assert ["known"] * 32 + [None] * 8 == answers
    assert "known" == later


def test_a_target_of_two_hundred_objects_is_asked_for_once_a_minute():
    """Its pods come and go: each of the objects would ask whether its replicas are still as they are seen."""

    async def scenario():
        questions, requests = TargetQuestions(), []

        async def get():
            requests.append(KEY)
            return "known"

        answers = await asyncio.gather(*(questions.known(KEY, get) for _ in range(200)))
        return len(requests), answers.count(None)

    assert (1, 199) == live(scenario)


def test_what_is_not_there_is_asked_for_once_a_minute_and_what_cannot_be_said_again():
    async def scenario():
        questions = TargetQuestions()
        with pytest.raises(ClusterError):
            await questions.missing(KEY, refused(503))
        requests = []

        async def absent():
            requests.append(KEY)
            await refused(404)()

        for _ in range(2):
            assert await questions.missing(KEY, absent) is None
        within_a_minute = len(requests)
        await asyncio.sleep(61)
        await questions.missing(KEY, absent)
        return within_a_minute, len(requests)

    assert (1, 2) == live(scenario)
