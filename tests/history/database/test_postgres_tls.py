"""The store in PostgreSQL by TLS (`sslmode=verify-full`): whom it trusts, and what it says where it does not."""

import ssl
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import trustme

from cronhpa.core.model.instant import MINUTE
from cronhpa.history.database.address import PostgresAddress
from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.database.series import RecordedBatch
from cronhpa.history.store import Store
from history.samples import NOON, WEB, everything, sample
from testbed.postgres import Proxy, programs_with_tls, running
from testbed.wait import wait_until

HOST = "127.0.0.1"


class Authorities:
    """Two authorities; the store trusts the first. wrong: what libpq says of a certificate, and the certificate."""

    def __init__(self, folder):
        self.own, self.stranger = trustme.CA(), trustme.CA()
        self.file = folder / "ca.pem"
        self.trust(self.own)
        yesterday = datetime.now(UTC) - timedelta(days=1)
        # libpq says the same of the first two.
        self.wrong = {
            "another authority": ("certificate verify failed", self.stranger.issue_cert(HOST)),
            "expired": ("certificate verify failed", self.own.issue_cert(HOST, not_after=yesterday)),
            "another host": ("other.example", self.own.issue_cert("other.example")),
        }

    def trust(self, authority):
        authority.cert_pem.write_to_path(self.file)

    def demand(self, url):
        return PostgresAddress(f"{url}{'&' if '?' in url else '?'}sslmode=verify-full&sslrootcert={self.file}")


@pytest.fixture
def authorities(tmp_path):
    return Authorities(tmp_path)


def proving(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@contextmanager
def terminated(postgres, schema, authorities):
    """A server behind a proxy that speaks TLS for it: (its address, the proxy)."""
    with closing(Proxy(postgres.port, proving(authorities.own.issue_cert(HOST)))) as proxy:
        yield authorities.demand(postgres.url(schema, port=proxy.port)), proxy


@pytest.fixture
def schema(new_schema):
    return new_schema().url.rpartition("%3D")[2]


def test_a_server_without_tls_is_refused_where_the_url_demands_it(postgres, authorities):
    with pytest.raises(StoreError, match="server does not support SSL"):
        Store(authorities.demand(postgres.url()))


def test_a_certificate_of_the_named_authority_for_the_named_host_is_trusted(postgres, schema, authorities):
    with terminated(postgres, schema, authorities) as (address, _), closing(Store(address)) as store:
        assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
        assert [(NOON, 1.0)] == everything(store)


@pytest.mark.parametrize("what", ["another authority", "expired", "another host"])
def test_a_certificate_that_proves_nothing_is_refused_at_the_start_and_at_each_new_connection(
    postgres, schema, authorities, what
):
    """The store that is open already says so at its next connection, and goes on once the certificate is right."""
    words, wrong = authorities.wrong[what]
    with terminated(postgres, schema, authorities) as (address, proxy), closing(Store(address)) as store:
        right, proxy.tls = proxy.tls, proving(wrong)
        with pytest.raises(StoreError, match=words):
            Store(address)
        assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
        proxy.cut()
        cut, refused = (store.loads.record([sample(60, 2.0)]) for _ in range(2))
        proxy.tls = right

        assert [Fault, Fault] == [type(cut), type(refused)]
        assert refused.message.startswith(f"postgresql://{HOST}:{proxy.port}/postgres: ")
        assert RecordedBatch(1) == store.loads.record([sample(120, 3.0)])
        assert [(NOON, 1.0), (NOON + 2 * MINUTE, 3.0)] == store.loads.minutes(WEB, 0, 2**63)


def test_the_file_of_the_authority_is_read_anew_for_each_connection(postgres, schema, authorities):
    """As with a rotated Secret."""
    with terminated(postgres, schema, authorities) as (address, proxy), closing(Store(address)) as store:
        proxy.tls = proving(authorities.stranger.issue_cert(HOST))
        authorities.trust(authorities.stranger)
        proxy.cut()
        assert isinstance(store.loads.record([sample(0, 1.0)]), Fault)

        assert RecordedBatch(1) == store.loads.record([sample(60, 2.0)])


@pytest.mark.skipif(programs_with_tls() is None, reason="no PostgreSQL of this machine was built with TLS")
def test_a_server_that_speaks_tls_itself_is_trusted_and_refused_alike(authorities):
    with running(tls=authorities.own.issue_cert(HOST)) as server:
        address = authorities.demand(server.url())
        with closing(Store(address)) as store:
            assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
            with closing(psycopg.connect(address.url)) as other:
                ((is_tls, version),) = other.execute(
                    "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
                )
            assert (True, "TLSv1.3") == (is_tls, version)
            with pytest.raises(StoreError, match="no encryption"):
                Store(PostgresAddress(server.url() + "?sslmode=disable"))
            for words, wrong in authorities.wrong.values():
                server.prove_by(wrong)
                assert words in wait_until(lambda: problem_of(address))
                server.prove_by(authorities.own.issue_cert(HOST))
                wait_until(lambda: not problem_of(address))

            assert [(NOON, 1.0)] == everything(store)


def problem_of(address):
    try:
        Store(address).close()
    except StoreError as problem:
        return str(problem)
    return ""
