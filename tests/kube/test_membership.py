"""Label selectors as text, and the index of pods that answers them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.situations import NOW, pod
from cronhpa.core.instant import HOUR, MINUTE, SECOND
from cronhpa.core.observation import Absent
from cronhpa.core.observe import start_up
from cronhpa.kube.membership import PodIndex, Requirement, Selector, SelectorError, parse_selector, select

SHOP = {"app": "shop", "tier": "web"}


def matches(text, **labels):
    return parse_selector(text).matches(labels)


# --- texts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("app=shop", [("app", "in", ("shop",))]),
        ("app==shop", [("app", "in", ("shop",))]),
        ("app!=shop", [("app", "notin", ("shop",))]),
        ("app=", [("app", "in", ("",))]),
        ("app", [("app", "exists", ())]),
        ("!app", [("app", "absent", ())]),
        ("app in (b,a)", [("app", "in", ("a", "b"))]),
        ("app notin (a)", [("app", "notin", ("a",))]),
        ("app in ( a , )", [("app", "in", ("", "a"))]),
        ("in in (in)", [("in", "in", ("in",))]),
        (
            " app = shop , tier in (web) ,!canary",
            [("app", "in", ("shop",)), ("tier", "in", ("web",)), ("canary", "absent", ())],
        ),
        ("app.kubernetes.io/name=shop-2.x_y", [("app.kubernetes.io/name", "in", ("shop-2.x_y",))]),
        ("pod-template-hash=5d4f8", [("pod-template-hash", "in", ("5d4f8",))]),
    ],
)
def test_a_selector_is_read(text, requirements):
    assert Selector(tuple(Requirement(*item) for item in requirements)) == parse_selector(text)


@pytest.mark.parametrize(
    "text",
    [
        "app in (",
        "app in",
        "app in a",
        "app like (a)",
        "=shop",
        ",app=shop",
        "app=shop,",
        "app=shop,,tier=web",
        "app=shop tier=web",
        "app=a=b",
        "!",
        "!,",
        "!(a)",
        "()",
        "app=(a)",
        "replicas>3",
        "-app=shop",
        "app=-shop",
        "a/b/c=d",
        "äpp=shop",
        "a" * 64 + "=x",
        "app=" + "x" * 64,
    ],
)
def test_what_is_no_selector_is_refused(text):
    with pytest.raises(SelectorError, match="unable to parse requirement: "):
        parse_selector(text)


@given(st.text("ab=!,() innot", max_size=14))
def test_any_text_is_read_or_refused(text):
    try:
        parsed = parse_selector(text)
    except SelectorError:
        return
    assert parsed.requirements or not text.strip()


def test_a_selector_that_cannot_be_used_says_so_in_the_upstreams_words():
    assert Absent("SelectorRequired", "selector is required") == select("")
    assert Absent(
        "InvalidSelector",
        "couldn't convert selector into a corresponding internal selector object: "
        "unable to parse requirement: found '', expected: ',', ')' or identifier",
    ) == select("app in (")


# --- matching ----------------------------------------------------------------------------------------------------


def test_requirements_match_labels():
    assert matches("app=shop", **SHOP)
    assert not matches("app=web", **SHOP)
    assert matches("app in (shop,web),tier", **SHOP)
    assert not matches("app,!tier", **SHOP)


def test_a_label_that_is_not_there_differs_from_every_value():
    assert matches("app!=shop")
    assert matches("app notin (shop)")
    assert not matches("app=")
    assert not matches("app in (shop)")


# --- the index ---------------------------------------------------------------------------------------------------

keys, words = st.sampled_from(["app", "tier", "x"]), st.sampled_from(["a", "b", "c"])
labels = st.dictionaries(keys, words)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["in", "notin"]), st.lists(words, min_size=1, max_size=2).map(tuple)),
    st.builds(Requirement, keys, st.sampled_from(["exists", "absent"])),
)
selectors = st.builds(Selector, st.lists(requirements, max_size=3).map(tuple))
changes = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "drop"]), st.sampled_from(["prod", "test"]), st.integers(0, 5), labels
    ),
    max_size=30,
)


@given(changes, st.lists(selectors, min_size=1, max_size=5))
def test_the_index_answers_as_looking_at_every_pod_does(changes, questions):
    index, known = PodIndex(), {}
    for verb, namespace, number, of in changes:
        name = f"pod-{number}"
        if verb == "put":
            index.put(namespace, of, pod(name))
            known[namespace, name] = of
        else:
            index.drop(namespace, name)
            known.pop((namespace, name), None)

    assert set(known) == index.names()
    assert len(known) == index.count()
    for selector in questions:
        for namespace in ("prod", "test", "dev"):
            naive = {name for (home, name), of in known.items() if home == namespace and selector.matches(of)}
            found = [item.name for item in index.matching(namespace, selector)]
            assert naive == set(found)
            assert len(naive) == len(found)


def test_the_index_gives_the_pod_as_it_was_put_last():
    index = PodIndex()
    index.put("prod", SHOP, pod("a", phase="Pending"))
    index.put("prod", dict(SHOP), pod("a", phase="Running"))

    assert ("Running",) == tuple(item.phase for item in index.matching("prod", parse_selector("app=shop")))


def test_a_pod_that_lost_its_readiness_and_got_it_back_took_as_long_to_start_as_it_did():
    """Ready 20 s after its creation; not Ready in the 30th minute, and not in the 40th."""
    index, began = PodIndex(), NOW - HOUR
    lives = [("False", 0), ("True", 20), ("False", 1800), ("True", 1860), ("False", 2400), ("True", 2460)]
    for ready, since in lives:
        index.put("prod", SHOP, pod("a", ready=ready, started=began, ready_since=began + since * SECOND))

    (found,) = index.matching("prod", parse_selector("app=shop"))
    assert began + 2460 * SECOND == found.ready_since
    assert 25 * SECOND == start_up([found])


def test_another_pod_of_the_same_name_has_its_own_start():
    index, began = PodIndex(), NOW - HOUR
    for start, since in ((began, began + 20 * SECOND), (began + MINUTE, began + MINUTE + 40 * SECOND)):
        index.put("prod", SHOP, pod("shop-0", started=start, ready_since=since))

    assert 45 * SECOND == start_up(index.matching("prod", parse_selector("app=shop")))


def test_pods_of_other_namespaces_are_never_meant():
    index = PodIndex()
    index.put("prod", SHOP, pod("a"))

    assert () == index.matching("test", parse_selector("app=shop"))
