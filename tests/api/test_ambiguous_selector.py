"""cronhpa.api.ambiguous_selector: the upstream's words, and who is named in them."""

import pytest

from cronhpa.api.ambiguous_selector import ambiguous_selector, objects_named_in

BOTH = [("prod", "shop"), ("prod", "canary")]


def test_it_is_told_in_the_words_of_the_upstream_whoever_tells_it():
    text = "pods by selector app=shop are controlled by more than one HPA (e.g. [{canary prod} {shop prod}])"

    assert ("AmbiguousSelector", text) == (
        ambiguous_selector("app=shop", BOTH).reason,
        ambiguous_selector("app=shop", BOTH).message,
    )
    assert ambiguous_selector("app=shop", BOTH) == ambiguous_selector("app=shop", BOTH[::-1])


def test_who_is_named_is_read_from_it():
    assert sorted(BOTH) == objects_named_in(ambiguous_selector("app in (a,b),!c", BOTH).message)


@pytest.mark.parametrize("text", ["", "selector is required", ambiguous_selector("app=shop", BOTH).message[:-5] + "…"])
def test_another_text_or_one_that_was_cut_names_nobody(text):
    assert not objects_named_in(text)
