"""cronhpa.operator.readers.access: users who may get the object may read its past, and nobody else may."""

import asyncio
import base64
import json

import pytest
from virtual_time import live

from cronhpa.api.identity import AUDIENCE
from cronhpa.kube.errors import ClusterError
from cronhpa.operator.readers.access import AccessReviews, User, Verdict, account_of

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


def test_five_made_up_tokens_a_second_are_reviewed_of_each_address():
    """
    Two addresses send 20 tokens a second each. Once what is allowed at once is used up, half a minute has 600 of each:
    30 s x 5 reviews are 150, and the other 450 are refused without a request to the API server.
    """
    reviews = anna_may()

    async def scenario():
        access = AccessReviews(reviews, asyncio.get_running_loop().time)

        async def flood(address, seconds):
            verdicts = []
            for number in range(20 * seconds):
                verdicts.append(await access.may_get(f"{address}-{number}", "prod", "shop", address))
                await asyncio.sleep(1 / 20)
            return verdicts

        await asyncio.gather(flood("10.0.0.1", 30), flood("10.0.0.2", 30))
        reviews.asked.clear()
        return await asyncio.gather(flood("10.0.0.1", 30), flood("10.0.0.2", 30))

    for verdicts in live(scenario):
        assert (150, 450) == (verdicts.count(Verdict.UNKNOWN), verdicts.count(Verdict.LATER))
    assert 2 * 150 == len(reviews.asked)


def test_made_up_tokens_take_nothing_from_a_caller_whose_token_was_accepted():
    """Also where past decisions are served, to which all come from one address."""
    reviews, clock = anna_may(("anna", "prod", "shop")), Clock()

    async def scenario():
        access = AccessReviews(reviews, clock)
        before = access.account("t-anna")
        await access.may_get("t-anna", "prod", "shop")
        made_up = [await access.may_get(f"t-{number}", "prod", "shop") for number in range(100)]
        clock.now = 31.0
        return before, made_up[-1], await access.may_get("t-anna", "prod", "shop"), access.account("t-anna")

    assert (None, Verdict.LATER, Verdict.ALLOWED, "anna") == live(scenario)


def accounts(namespace, count):
    """Users by token: the ServiceAccounts of a namespace."""
    return {f"{namespace}-{number}": {"username": f"system:serviceaccount:{namespace}:{number}"}
            for number in range(count)}  # fmt: skip


def test_a_caller_empties_no_bucket_but_their_own():
    """200 lists at once; the next one is told to come later, and bert is not."""
    reviews = Reviews({}, [("bert", "prod", "")])

    async def scenario():
        access = AccessReviews(reviews, Clock())
        anna = [await access.verdict(User("anna"), f"n-{number}", "") for number in range(201)]
        return anna[199:], await access.verdict(User("bert"), "prod", "")

    assert ([Verdict.REFUSED, Verdict.LATER], Verdict.ALLOWED) == live(scenario)


def test_forty_accounts_of_one_namespace_share_one_turn():
    """
    They ask about 60 namespaces each, without a pause: 2,400 reviews, of which 200 are sent at once and 100 a second
    from then on, two at a time. Each of a reader's 60 comes behind two of theirs at most: 180 turns, 1.8 s.
    """
    reviews = Reviews({}, [("anna", f"n-{number}", "") for number in range(60)])

    async def scenario():
        clock = asyncio.get_running_loop().time
        access = AccessReviews(reviews, clock)

        async def lists(user):
            return [await access.verdict(User(user), f"n-{number}", "") for number in range(60)]

        names = [user["username"] for user in accounts("hostile", 40).values()]
        hostile = [asyncio.create_task(lists(name)) for name in names]
        await asyncio.sleep(1)
        begun = clock()
        mine = await lists("anna")
        seconds = clock() - begun
        theirs = await asyncio.gather(*hostile)
        return mine, seconds, {verdict for verdicts in theirs for verdict in verdicts}

    mine, seconds, theirs = live(scenario)
    assert [Verdict.ALLOWED] * 60 == mine
    assert seconds < 1.9
    assert {Verdict.REFUSED} == theirs


@pytest.mark.slow
def test_a_caller_with_rights_in_some_of_three_thousand_namespaces_gets_an_answer_about_each_and_keeps_it():
    """
    50 a second and 200 at once: all are known after (3,000 - 200) / 50 = 56 s, and from then on no list is left out,
    although an answer is half a minute old when it is confirmed.
    """
    names = [f"n-{number:04}" for number in range(3000)]
    mine = {"n-0007", "n-1500", "n-2999"}
    reviews = Reviews({}, [("anna", name, "") for name in mine])

    async def scenario():
        clock = asyncio.get_running_loop().time
        access = AccessReviews(reviews, clock)
        seen = []
        for _ in range(200):
            verdicts = [await access.verdict(User("anna"), name, "") for name in names]
            shown = {name for name, verdict in zip(names, verdicts, strict=True) if verdict is Verdict.ALLOWED}
            seen.append((clock(), verdicts.count(Verdict.LATER), shown))
            await asyncio.sleep(2)
        return seen

    seen = live(scenario)
    late = [(pending, shown) for at, pending, shown in seen if at > 60]
    assert 150 < len(late)
    assert (0, mine) == max(late, key=lambda one: (one[0], one[1] != mine))
    # No more than the pace, also while refusals are asked about anew.
    assert len(reviews.asked) < 200 + 50 * (seen[-1][0] + 1)


def test_a_right_that_is_given_is_seen_within_half_a_minute_where_namespaces_are_few():
    reviews, clock = Reviews({}), Clock()

    async def scenario():
        access = AccessReviews(reviews, clock)
        before = await access.verdict(User("anna"), "prod", "")
        reviews.rights.add(("anna", "prod", ""))
        clock.now = 31.0
        return before, await access.verdict(User("anna"), "prod", "")

    assert (Verdict.REFUSED, Verdict.ALLOWED) == live(scenario)


def test_a_right_that_is_taken_away_is_never_believed_on_and_neither_is_the_refusal_of_one_object():
    """While the bucket is empty both are told to come later."""
    reviews, clock = anna_may(("anna", "prod", "")), Clock()

    async def scenario():
        access = AccessReviews(reviews, clock)
        anna = User("anna")
        first = await access.verdict(anna, "prod", ""), await access.verdict(anna, "prod", "shop")
        clock.now = 31.0
        for number in range(200):
            await access.verdict(anna, f"n-{number}", "")
        return first, (await access.verdict(anna, "prod", ""), await access.verdict(anna, "prod", "shop"))

    assert ((Verdict.ALLOWED, Verdict.REFUSED), (Verdict.LATER, Verdict.LATER)) == live(scenario)


def test_requests_of_one_caller_at_once_ask_about_a_namespace_once():
    reviews = Reviews({}, [("anna", "prod", "")])

    async def scenario():
        access = AccessReviews(reviews, Clock())
        return await asyncio.gather(*(access.verdict(User("anna"), "prod", "") for _ in range(40)))

    assert [Verdict.ALLOWED] * 40 == live(scenario)
    assert len(reviews.asked) <= 2


@pytest.mark.slow
def test_callers_with_very_many_answers_take_no_memory_of_one_with_few():
    """50,001 answers: one of the caller with most of them is forgotten."""
    reviews = Reviews({}, [("anna", "prod", "")])

    async def scenario():
        access = AccessReviews(reviews, Clock())
        await access.verdict(User("anna"), "prod", "")
        for number in range(50_000):
            await access.verdict(User(f"u-{number // 200}"), f"n-{number}", "")
        sent = len(reviews.asked)
        await access.verdict(User("anna"), "prod", "")
        return len(reviews.asked) - sent

    assert 0 == live(scenario)


@pytest.mark.parametrize(
    ("user", "account"),
    [("anna", "anna"), ("system:serviceaccount:shop:ci", "system:serviceaccount:shop"), ("system:admin",) * 2],
)
def test_the_accounts_of_a_namespace_are_one_account(user, account):
    assert account == account_of(user)


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
