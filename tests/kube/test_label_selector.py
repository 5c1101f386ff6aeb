"""Label selectors as text: what is read, what is refused, which labels match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.observation import Absent
from cronhpa.kube.label_selector import Requirement, Selector, SelectorError, parse_selector, select

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
    assert Selector(tuple(Requirement(*requirement) for requirement in requirements)) == parse_selector(text)


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
def test_a_malformed_selector_is_refused(text):
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
