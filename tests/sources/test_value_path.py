"""cronhpa.sources.value_path: the part of GJSON's paths that is accepted, and what stands at a path."""

import pytest

from cronhpa.sources.value_path import ValuePath, ValuePathError

# Examples of GJSON's SYNTAX.md among them.
DOCUMENT = {
    "name": {"first": "Tom", "last": "Anderson"},
    "age": 37,
    "children": ["Sara", "Alex", "Jack"],
    "fav.movie": "Deer Hunter",
    "friends": [{"first": "Dale", "age": 44}, {"first": "Roger", "age": 68}],
    "0": "a key of a digit",
    "back\\slash": 1,
    "queue-length/a:b c": 2,
    "ü": 3,
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("age", 37),
        ("name.last", "Anderson"),
        ("children.1", "Alex"),
        ("children.#", 3),
        ("friends.1.age", 68),
        (r"fav\.movie", "Deer Hunter"),
        ("0", "a key of a digit"),
        (r"back\\slash", 1),
        ("queue-length/a:b c", 2),
        (r"\a\g\e", 37),
        ("ü", 3),
        ("friends", DOCUMENT["friends"]),
    ],
)
def test_a_path_names_one_place(path, found):
    assert found == ValuePath(path).find(DOCUMENT)


def test_a_sign_alone_counts_the_elements_of_the_whole():
    assert 2 == ValuePath("#").find([5, 6])


@pytest.mark.parametrize(
    "path",
    ["none", "age.none", "children.3", "children.01", "children.-1", "children.x", "children.1.0", "name.#", "age.#",
     "fav.movie", "friends.age", "children.99999999999999999999"],
)  # fmt: skip
def test_a_place_that_is_not_there_is_not_found(path):
    with pytest.raises(LookupError):
        ValuePath(path).find(DOCUMENT)


@pytest.mark.parametrize(
    "path",
    ["", ".", "a.", ".a", "a..b", "child*", "c?ildren.0", 'friends.#(last=="Murphy").first', "friends.#.age", "a|b",
     "@reverse", "children|@reverse", "!true", "{a,b}", "[a,b]", "a.#.", "##", "a#", "\\", "a.\\", "(a)", "a" * 1025],
)  # fmt: skip
def test_what_chooses_or_computes_is_refused_with_what_is_accepted(path):
    with pytest.raises(ValuePathError, match=r"accepted"):
        ValuePath(path)


@pytest.mark.parametrize("character", ".*?|#@![]{}()\\")
def test_every_character_that_means_something_may_be_meant(character):
    assert 1 == ValuePath(f"a.\\{character}b").find({"a": {f"{character}b": 1}})
