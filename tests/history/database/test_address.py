"""Where a store is: a path or a URL; a password is shown nowhere."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.history.database.address import PostgresAddress, store_address


@pytest.mark.parametrize("path", ["history.db", "/var/lib/cronhpa/history.db", "postgres", "a@b#c?d"])
def test_a_path_is_a_file(path):
    assert Path(path) == store_address(path)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/cronhpa", "postgresql://db/cronhpa"),
        ("postgres://app:geheim@db:5432/cronhpa?sslmode=verify-full", "postgresql://db:5432/cronhpa"),
        (
            "postgresql:///cronhpa?host=%2Frun%2Fpg&user=app&p%6Frt=5433",
            "postgresql:///cronhpa?host=%2Frun%2Fpg&p%6Frt=5433",
        ),
        ("postgresql://app@[::1]:5,db2/cronhpa?options=-cwork_mem%3D1MB", "postgresql://[::1]:5,db2/cronhpa"),
        ("postgresql://app:ge%40heim@a,b/cronhpa", "postgresql://a,b/cronhpa"),
    ],
)
def test_a_postgresql_is_shown_without_user_and_password(url, shown):
    assert (PostgresAddress(url), shown) == (store_address(url), str(store_address(url)))


@pytest.mark.parametrize(
    "url",
    [
        "mysql://db/cronhpa",
        "postgresql://app:ge@heim@db/cronhpa",
        "postgresql://app:ge/heim@db/cronhpa",
        "postgresql://app:ge?heim@db/cronhpa",
        "postgresql://app:ge#heim@db/cronhpa",
        "postgresql://db/cronhpa?password=geheim",
        "postgresql://db/cronhpa?sslmode=require&password=geheim",
        "postgresql://db/cronhpa?p%61ssword=geheim",
        "postgresql://db/cronhpa?sslpassword=geheim",
        "postgresql://db/cronhpa?%73slpassword=geheim",
        "postgresql://db/cronhpa?PASSWORD=geheim",
        "postgresql://db/cronhpa?geheim",
        "postgresql://app:%geheim@db/cronhpa",
    ],
)
def test_what_may_be_a_password_in_the_wrong_place_is_refused_and_not_repeated(url):
    with pytest.raises(ValueError, match=r".+") as caught:
        store_address(url)

    assert "heim" not in str(caught.value)


WORDS = st.text(alphabet="ab:/?#@%&=[],. ", max_size=12)


@given(before=WORDS, after=WORDS)
def test_no_password_is_shown_wherever_it_is_written(before, after):
    """Neither of an address that is accepted, nor of one that is refused."""
    try:
        shown = str(store_address(f"postgresql://u:{before}geheim{after}@db/cronhpa"))
    except ValueError as problem:
        shown = str(problem)

    assert "geheim" not in shown
