"""cronhpa.operator.access: users who may get the object may read its past, and nobody else may."""

import asyncio
import base64
import json

import pytest

from cronhpa.api.identity import AUDIENCE
from cronhpa.kube.errors import ClusterError
from cronhpa.operator.access import AccessReviews, Verdict

ANNA = {"username": "anna", "uid": "u-1", "groups": ["team-shop"], "extra": {"scopes": ["a"]}}


class Reviews:
    """The two reviews of an API server. tokens: users by token; rights: (user, namespace, name)."""

    def __init__(self, tokens=None, rights=(), *, knows_audiences=True):
        self.tokens, self.rights, self.knows_audiences = tokens or {}, set(rights), knows_audiences
        self.asked = []
        self.at_once = self.most_at_once = 0
        self.hangs = asyncio.Event()
        self.hangs.set()

    async def review(self, path, body, kind):
        self.asked.append((path.rpartition("/")[2], body["spec"]))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.hangs.wait()
        await asyncio.sleep(0)
        self.at_once -= 1
        spec = body["spec"]
        if path.endswith("tokenreviews"):
            user = self.tokens.get(spec["token"])
            status = {"authenticated": user is not None, "user": user or {}}
            if user is not None and self.knows_audiences:
                status["audiences"] = spec.get("audiences", ["https://kubernetes.default.svc"])
        else:
            about = spec["resourceAttributes"]
            assert ("get", "cronhpa.io", "cronhpas") == (about["verb"], about["group"], about["resource"])
            status = {"allowed": (spec["user"], about["namespace"], about["name"]) in self.rights}
        import msgspec

        return msgspec.convert({"status": status}, kind)

    def count(self, kind):
        return sum(path == kind for path, _ in self.asked)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def token_for(*audiences):
    """A JWT that says whom it is for."""
    claims = base64.urlsafe_b64encode(json.dumps({"aud": list(audiences)}).encode()).decode().rstrip("=")
    return f"head.{claims}.signature"


def ask(reviews, *questions, clock=None):
    """The verdicts on (token, namespace, name), one after the other."""

    async def all_of_them():
        access = AccessReviews(reviews, clock or Clock())
        return [await access.may_get(*question) for question in questions]

    return asyncio.run(all_of_them())


def anna_may(*rights):
    return Reviews({"t-anna": ANNA}, rights)


def test_who_may_get_the_object_may_read_its_past():
    reviews = anna_may(("anna", "prod", "shop"))

    assert [Verdict.ALLOWED] == ask(reviews, ("t-anna", "prod", "shop"))
    (_, review) = reviews.asked[1]
    assert ("anna", "u-1", ("team-shop",), {"scopes": ["a"]}) == (
        review["user"], review["uid"], tuple(review["groups"]), review["extra"],
    )  # fmt: skip


@pytest.mark.parametrize("about", [("prod", "cart"), ("test", "shop"), ("prod", "Shop"), ("prod/", "shop")])
def test_of_another_object_or_namespace_the_right_to_this_one_is_none(about):
    assert [Verdict.REFUSED] == ask(anna_may(("anna", "prod", "shop")), ("t-anna", *about))


def test_a_right_to_one_object_that_is_remembered_is_no_right_to_another():
    reviews = anna_may(("anna", "prod", "shop"))

    assert [Verdict.ALLOWED, Verdict.REFUSED] == ask(reviews, ("t-anna", "prod", "shop"), ("t-anna", "prod", "cart"))


@pytest.mark.parametrize("token", ["", "t-bert", "t-anna ", "t" * 100_000, "tökn", "a.b.c", "a.e30.c"])
def test_a_token_that_nobody_has_is_nobodys(token):
    assert [Verdict.UNKNOWN] == ask(anna_may(("anna", "prod", "shop")), (token, "prod", "shop"))


def test_a_token_longer_than_any_is_not_even_asked_about():
    reviews = anna_may()

    ask(reviews, ("t" * 100_000, "prod", "shop"))

    assert [] == reviews.asked


def test_answers_are_believed_for_half_a_minute():
    """A token that expires, and a right that is taken away, end within that time."""
    reviews, clock = anna_may(("anna", "prod", "shop")), Clock()
    question = ("t-anna", "prod", "shop")

    async def scenario():
        access = AccessReviews(reviews, clock)
        first = [await access.may_get(*question) for _ in range(5)]
        asked = len(reviews.asked)
        reviews.rights.clear()
        clock.now = 29.0
        believed = await access.may_get(*question)
        clock.now = 31.0
        taken = await access.may_get(*question)
        reviews.tokens.clear()
        clock.now = 62.0
        return first, asked, believed, taken, await access.may_get(*question)

    assert ([Verdict.ALLOWED] * 5, 2, Verdict.ALLOWED, Verdict.REFUSED, Verdict.UNKNOWN) == asyncio.run(scenario())


def test_a_group_that_was_left_gives_no_right_after_half_a_minute():
    """The right is first asked for 29 s after the groups were read: it was given to these groups, and to no others."""
    reviews, clock = Reviews({"t-anna": ANNA}, [("anna", "prod", "shop"), ("anna", "prod", "cart")]), Clock()

    async def scenario():
        access = AccessReviews(reviews, clock)
        first = await access.may_get("t-anna", "prod", "cart")
        clock.now = 29.0
        still = await access.may_get("t-anna", "prod", "shop")
        reviews.tokens["t-anna"] = {**ANNA, "groups": []}
        reviews.rights.clear()
        clock.now = 31.0
        return first, still, await access.may_get("t-anna", "prod", "shop")

    assert (Verdict.ALLOWED, Verdict.ALLOWED, Verdict.REFUSED) == asyncio.run(scenario())
    assert 2 == reviews.count("tokenreviews")


def test_an_answer_is_believed_from_when_it_was_asked_for():
    """The API server took ten seconds: its answer may be as old."""
    reviews, clock = anna_may(("anna", "prod", "shop")), Clock()

    class Slow(Reviews):
        async def review(self, path, body, kind):
            clock.now += 10.0
            return await reviews.review(path, body, kind)

    async def scenario():
        access = AccessReviews(Slow(), clock)
        await access.may_get("t-anna", "prod", "shop")
        clock.now = 31.0
        return await access.may_get("t-anna", "prod", "shop")

    assert Verdict.ALLOWED == asyncio.run(scenario())
    assert 2 == reviews.count("tokenreviews")


def test_a_token_for_the_operator_alone_is_asked_about_as_such():
    mine = token_for(AUDIENCE)
    reviews = Reviews({mine: ANNA}, [("anna", "prod", "shop")])

    assert [Verdict.ALLOWED] == ask(reviews, (mine, "prod", "shop"))
    assert [AUDIENCE] == reviews.asked[0][1]["audiences"]


def test_an_authenticator_that_looks_at_no_audience_proves_nothing_about_a_token_with_one():
    mine = token_for(AUDIENCE)

    assert [Verdict.UNKNOWN] == ask(
        Reviews({mine: ANNA}, [("anna", "prod", "shop")], knows_audiences=False), (mine, "prod", "shop")
    )


def test_a_token_for_somebody_else_is_asked_about_as_one_for_the_api_server():
    """Which says that it is not: its audience is not that of the API server."""
    reviews = Reviews({}, [])

    assert [Verdict.UNKNOWN] == ask(reviews, (token_for("vault"), "prod", "shop"))
    assert "audiences" not in reviews.asked[0][1]


def test_ten_reviews_a_second_are_asked_whatever_is_shown():
    """20 at once; further tokens are refused until later, without requests to the API server."""
    reviews, clock = anna_may(), Clock()

    async def scenario():
        access = AccessReviews(reviews, clock)
        flood = [await access.may_get(f"t-{number}", "prod", "shop") for number in range(100)]
        clock.now = 1.0
        return flood, [await access.may_get(f"u-{number}", "prod", "shop") for number in range(100)]

    first, second = asyncio.run(scenario())

    assert [20, 80] == [first.count(Verdict.UNKNOWN), first.count(Verdict.LATER)]
    assert [10, 90] == [second.count(Verdict.UNKNOWN), second.count(Verdict.LATER)]
    assert 30 == len(reviews.asked)


def test_an_api_server_that_hangs_is_asked_by_two_at_a_time():
    """The other places of the client are those of decisions."""

    async def scenario():
        reviews = anna_may()
        reviews.hangs.clear()
        access = AccessReviews(reviews, Clock())
        asking = [asyncio.create_task(access.may_get(f"t-{number}", "prod", "shop")) for number in range(10)]
        await asyncio.sleep(0.01)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return reviews.most_at_once

    assert 2 == asyncio.run(scenario())


def test_an_api_server_that_does_not_answer_gives_no_right():
    class Gone:
        async def review(self, *_):
            raise ClusterError(0, "Unreachable", "no route")

    with pytest.raises(ClusterError):
        ask(Gone(), ("t-anna", "prod", "shop"))
