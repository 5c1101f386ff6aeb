"""
cronhpa.history.database.postgres, cronhpa.history.database.address: whatever a URL hides is in no text, however libpq
reads the URL.

libpq and the server repeat parts of a URL in their errors: user names, values, and of a malformed URL all of it.
"""

from contextlib import closing
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronhpa.history.database.address import PostgresAddress, store_address
from cronhpa.history.database.database import StoreError
from cronhpa.history.store import Store
from history.samples import everything

SECRET = "geheim"
SHOWN = {"host", "hostaddr", "port", "dbname"}
PARAMETERS = sorted({option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()} - SHOWN | {"unknown"})


def texts_of(url):
    """What is shown of the URL: its address, and the error of its use."""
    try:
        address = store_address(url)
    except ValueError as problem:
        return [str(problem)]
    texts = [str(address), repr(address)]
    try:
        with closing(Store(address)) as store:
            everything(store)
    except StoreError as problem:
        texts.append(str(problem))
    return texts


def percent_encoded(text):
    return "".join(f"%{byte:02x}" for byte in text.encode())


@pytest.mark.parametrize("encode", [str, percent_encoded])
@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("value", [SECRET, f"-c {SECRET}=1", f"-c work_mem={SECRET}", f"/{SECRET}.pem"])
def test_a_secret_in_a_parameter_is_shown_nowhere(postgres, name, value, encode):
    """Each parameter that libpq has; the server answers."""
    url = f"postgresql://nobody@127.0.0.1:{postgres.port}/test?{encode(name)}={quote(value, safe='')}"

    texts = texts_of(url)

    assert not [text for text in texts if SECRET in text]
    assert name.endswith("password") is ("URL" not in texts[0] and "password" in texts[0]) or "sslpassword" in texts[0]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:geheim@[::1/test",
        "postgresql://geheim:p@[::1/test",
        "postgresql://u:geheim@a:b:c/test",
        "postgresql://u:%zgeheim@a/test",
        "postgresql://u:%00geheim@a/test",
        "postgresql://a/test?geheim",
        "postgresql://a/test?geheim=1",
        "postgresql://a/test?sslmode=a=geheim",
        "postgresql://a/test?a;password=geheim",
        "postgresql://a/test?ssl=geheim",
    ],
)
def test_of_a_url_that_libpq_cannot_read_nothing_is_repeated(url):
    texts = texts_of(url)

    assert texts
    assert not [text for text in texts if SECRET in text]


ANY = st.text(alphabet="ab1:/?#@%&=[],+;.'\"\\ \n-ä", max_size=70)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.sampled_from(["user", "password", "value", "name"]), before=ANY, after=ANY, raw=st.booleans())
def test_no_secret_of_any_part_is_shown_by_a_real_server(postgres, part, before, after, raw):
    """The server refuses the login, or accepts it; names of more than 63 bytes it repeats in part."""
    secret = f"{before}{SECRET}{after}"
    written = secret if raw else quote(secret, safe="")
    user, password = (written if part == "user" else "nobody"), (written if part == "password" else "x")
    query = {"value": f"sslmode={written}", "name": f"{written}=1"}.get(part, "sslmode=prefer")

    texts = texts_of(f"postgresql://{user}:{password}@127.0.0.1:{postgres.port}/test?{query}")

    assert not [text for text in texts if SECRET in text]


def test_what_is_wrong_is_still_said(postgres):
    url = f"postgresql://app:wrong@127.0.0.1:{postgres.port}/test"
    with pytest.raises(StoreError) as caught:
        Store(PostgresAddress(url))

    assert str(caught.value).startswith(f"postgresql://127.0.0.1:{postgres.port}/test: ")
    assert 'password authentication failed for user "app"' in str(caught.value)
