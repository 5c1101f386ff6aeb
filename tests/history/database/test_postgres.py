"""The store in PostgreSQL: servers that are down, slow, full or cut off; several writers; who may read what."""

import os
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest

from cronhpa.core.model.instant import DAY, MILLISECOND, MINUTE, SECOND
from cronhpa.history.database.address import PostgresAddress, store_address
from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.database.postgres import PostgresDatabase
from cronhpa.history.database.series import LoadSample, RecordedBatch, Series
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.store import Store
from history.samples import API, NOON, WEB, everything, forecast, raw, sample
from testbed.postgres import Proxy, running
from testbed.wait import wait_until


@pytest.fixture
def address(new_schema):
    return new_schema()


def impatient(address):
    """A store whose statements may take 300 ms."""
    return Store(address, lambda address: PostgresDatabase.open(address, statement_timeout=300 * MILLISECOND))


@contextmanager
def holding(address, *statements):
    """Another client in the middle of a transaction."""
    with closing(psycopg.connect(address.url)) as other:
        for statement in statements:
            other.execute(statement)
        yield


def test_a_server_that_restarts_costs_what_was_written_meanwhile():
    with running() as server, closing(Store(PostgresAddress(server.url()))) as store:
        assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
        server.stop()

        refused = [store.loads.record([sample(60, 2.0)]) for _ in range(2)]
        with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
            everything(store)
        server.start()

        assert [Fault, Fault] == [type(outcome) for outcome in refused]
        assert all("nothing was recorded" in outcome.message for outcome in refused)
        assert RecordedBatch(1) == store.loads.record([sample(120, 3.0)])
        assert [(NOON, 1.0), (NOON + 2 * MINUTE, 3.0)] == store.loads.minutes(WEB, 0, 2**63)


def test_a_connection_that_the_server_ends_is_opened_again_by_the_next_transaction(postgres, address):
    with closing(Store(PostgresAddress(address.url + "&application_name=ended"))) as store:
        store.loads.record([sample(0, 1.0)])
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ended'")

        outcomes = [store.loads.record([sample(60 * i, 2.0)]) for i in range(2)]

        assert isinstance(outcomes[0], Fault)
        assert RecordedBatch(1) == outcomes[1]


def test_a_table_that_somebody_locks_is_a_fault_within_the_statements_time(address):
    with closing(impatient(address)) as store:
        store.loads.record([sample(0, 1.0)])
        with holding(address, "LOCK TABLE step IN ACCESS EXCLUSIVE MODE"):
            outcome = store.loads.record([sample(0, 1.0)])
            with pytest.raises(StoreError, match="timeout"):
                everything(store)

        assert isinstance(outcome, Fault)
        assert "timeout" in outcome.message
        assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])


def test_a_writer_that_is_stopped_in_its_transaction_holds_up_others_no_longer_than_a_statement(address):
    lock = "SELECT pg_advisory_xact_lock(25456, (current_schema()::regnamespace::oid::bigint % 2147483647)::int)"
    with closing(impatient(address)) as store:
        with holding(address, lock):
            outcome = store.loads.record([sample(0, 1.0)])
            # Readers need no lock.
            assert [] == everything(store)

        assert isinstance(outcome, Fault)
        assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])


def test_a_server_that_is_cut_off_is_given_up_after_a_second_more_than_a_statement_may_take(postgres, address):
    """The peer acknowledges every byte and sends none: TCP sees no fault, and the server ends no statement."""
    with closing(Proxy(postgres.port)) as proxy:
        schema = address.url.rpartition("%3D")[2]
        through = PostgresAddress(postgres.url(schema, port=proxy.port) + "&connect_timeout=1")
        with closing(impatient(through)) as store:
            assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
            proxy.is_silent = True
            began = time.monotonic()
            cut_off, not_connected = store.loads.record([sample(0, 2.0)]), store.loads.record([sample(0, 2.0)])
            taken = time.monotonic() - began
            proxy.is_silent = False

            assert [Fault, Fault] == [type(cut_off), type(not_connected)]
            # 1.3 s for the statement, 1 or 2 s for the connection, as libpq counts whole seconds; and a busy machine.
            assert taken < 10
            assert RecordedBatch(1) == store.loads.record([sample(0, 3.0)])
            assert [(NOON, 3.0)] == everything(store)


def test_a_server_that_never_answers_is_named_within_seconds():
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]

        with pytest.raises(StoreError, match=f"127.0.0.1:{port}/db"):
            Store(PostgresAddress(f"postgresql://cronhpa:geheim@127.0.0.1:{port}/db?connect_timeout=1"))


@pytest.mark.slow
def test_a_disk_that_is_full_costs_what_does_not_fit_and_the_next_writes_go_on():
    """The server may write files of at most 2 MB: the table of the steps cannot grow further."""
    with running(file_bytes_max=2 * 2**20) as server, closing(Store(PostgresAddress(server.url()))) as store:
        many = [Series("shop", f"web-{i}", "cpu") for i in range(500)]
        outcomes = []
        while not (outcomes and isinstance(outcomes[-1], Fault)) and len(outcomes) < 400:
            at = NOON + len(outcomes) * 5 * MINUTE
            outcomes.append(store.loads.record([LoadSample(series, at, 1.0) for series in many]))

        assert isinstance(outcomes[-1], Fault), "the disk never became full"
        assert "could not extend file" in outcomes[-1].message
        full = store.loads.record([LoadSample(series, NOON + 2 * DAY, 1.0) for series in many])
        assert isinstance(full, Fault)
        # Every batch before the first refusal is whole, and nothing of those refused is there.
        assert {len(outcomes) - 1} == {len(everything(store, series)) for series in (many[0], many[250], many[499])}
        raw(store.address, "TRUNCATE step", "TRUNCATE minute")
        assert RecordedBatch(500) == store.loads.record([LoadSample(series, NOON + 2 * DAY, 1.0) for series in many])


def test_a_server_without_a_free_connection_is_named_and_found_once_there_is_one():
    """max_connections counts three reserved for the superuser: one for the role `app`, and it is taken."""
    with running(
        settings=("max_connections = 4", "superuser_reserved_connections = 3", "max_wal_senders = 0")
    ) as server:
        server.execute("CREATE ROLE app LOGIN PASSWORD 'first'; GRANT ALL ON SCHEMA public TO app")
        address = PostgresAddress(server.url(user="app:first"))
        with closing(Store(address)) as store:
            with pytest.raises(StoreError, match="remaining connection slots are reserved"):
                Store(address)
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
            assert isinstance(store.loads.record([sample(0, 1.0)]), Fault)
            with closing(wait_until(lambda: psycopg.connect(address.url))):
                refused = store.loads.record([sample(60, 2.0)])

            assert "remaining connection slots are reserved" in refused.message
            assert RecordedBatch(1) == wait_until(lambda: store.loads.record([sample(120, 3.0)]), is_recorded)


def test_a_role_without_rights_is_told_what_it_may_not(postgres, address):
    Store(address).close()
    postgres.execute("DROP ROLE IF EXISTS guest")
    schema = address.url.rpartition("%3D")[2]
    postgres.execute(f"CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA {schema} TO guest")
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO guest")

    with closing(Store(PostgresAddress(postgres.url(schema, user="guest")))) as store:
        outcome = store.loads.record([sample(0, 1.0)])

        assert isinstance(outcome, Fault)
        assert "permission denied for table series" in outcome.message


def test_a_refused_transaction_keeps_nothing_and_the_next_one_goes_on(address):
    """The ids that the refused transaction had given to new series are void."""
    with closing(Store(address)) as store:
        store.loads.record([sample(0, 1.0)])
        raw(address, "ALTER TABLE step ADD CONSTRAINT no_room CHECK (series < 500)")
        many = [sample(0, 2.0, Series("shop", f"web-{i}", "cpu")) for i in range(600)]

        outcome = store.loads.record(many)

        assert "no_room" in outcome.message
        assert ([(NOON, 1.0)], [WEB]) == (everything(store), store.loads.series())
        raw(address, "ALTER TABLE step DROP CONSTRAINT no_room")
        assert RecordedBatch(600) == store.loads.record(many)
        assert [(NOON, 2.0)] == everything(store, many[599].series)


def test_an_interrupted_write_leaves_the_database_to_others(address):
    def batch():
        yield WEB, forecast(NOON)
        raise KeyboardInterrupt

    with closing(Store(address)) as store, closing(Store(address)) as other:
        with pytest.raises(KeyboardInterrupt):
            store.forecasts.save(batch())
        assert RecordedBatch(1) == other.loads.record([sample(0, 3.0)])
        assert RecordedBatch(1) == store.loads.record([sample(0, 4.0)])


def test_several_replicas_write_at_once_without_losing_anything(address):
    """Each adds the same new series, raises them, keeps fits and forecasts, and compacts."""

    def replica(number):
        with closing(Store(address)) as store:
            faults = []
            for i in range(15):
                names = [Series("shop", f"web-{(k * number) % 20}", "cpu") for k in range(20)]
                outcome = store.loads.record([LoadSample(name, NOON + i * MINUTE, float(i)) for name in names])
                faults += [outcome] if isinstance(outcome, Fault) else []
                faults += [store.forecasts.save([(names[0], forecast(NOON))])]
                faults += [store.fits.save(Fit("m", i, i, b"state"), {names[1]: FitInfo(i)})]
                faults += [store.compact(NOON + 3 * DAY)]
            return [fault for fault in faults if fault is not None]

    # 1, 3 and 7 have no factor in common with 20: each order of the series is another one.
    with ThreadPoolExecutor(3) as pool:
        assert [[], [], []] == list(pool.map(replica, (1, 3, 7)))

    with closing(Store(address)) as store:
        assert 20 == len(store.loads.series())
        assert {3} == {len(everything(store, series)) for series in store.loads.series()}
        assert {14.0} == {everything(store, series)[-1][1] for series in store.loads.series()}


def test_replicas_that_start_together_make_the_tables_once(address):
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(Store, [address] * 4))

    assert {RecordedBatch(1)} == {store.loads.record([sample(i, 1.0)]) for i, store in enumerate(stores)}
    assert [(1,)] == raw(address, "SELECT count(*) FROM cronhpa_schema")
    for store in stores:
        store.close()


def test_two_stores_in_two_schemas_of_a_database_know_nothing_of_each_other(new_schema):
    one, other = Store(new_schema()), Store(new_schema())
    one.loads.record([sample(0, 1.0)])

    assert ([WEB], []) == (one.loads.series(), other.loads.series())
    one.close()
    other.close()


def test_a_password_file_is_read_anew_for_each_connection(postgres, new_schema, tmp_path):
    """As with a rotated Secret: open connections go on, and the next connection uses the new password."""
    schema = new_schema().url.rpartition("%3D")[2]
    postgres.execute(
        f"DROP ROLE IF EXISTS app; CREATE ROLE app LOGIN PASSWORD 'first'; GRANT ALL ON SCHEMA {schema} TO app"
    )
    file = tmp_path / "password"
    file.write_text("first\n")
    address = store_address(postgres.url(schema, user="app"), str(file))
    with closing(Store(address)) as store:
        postgres.execute("ALTER ROLE app PASSWORD 'second'")
        assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
        with pytest.raises(StoreError, match="password authentication failed"):
            Store(address)
        file.write_text("second\n")
        Store(address).close()
        file.unlink()
        with pytest.raises(StoreError, match="a file with the store's password is needed"):
            Store(address)
        postgres.execute("REASSIGN OWNED BY app TO postgres; DROP OWNED BY app; DROP ROLE app")


def test_no_fault_tells_the_password(postgres):
    postgres.execute("DROP ROLE IF EXISTS app; CREATE ROLE app LOGIN PASSWORD 'first'")
    wrong = store_address(postgres.url(user="app:geheim"))

    with pytest.raises(StoreError) as caught:
        Store(wrong)

    assert "password authentication failed" in str(caught.value)
    assert "geheim" not in f"{caught.value} {wrong}"


def test_a_standby_that_is_promoted_takes_the_place_of_the_server_that_is_lost():
    """The URL names both, and asks for the one that can be written: `target_session_attrs=read-write` of libpq."""
    with running() as first, running(follows=first) as second:
        both = f"postgresql://postgres@127.0.0.1:{first.port},127.0.0.1:{second.port}/postgres"
        with closing(Store(PostgresAddress(f"{both}?target_session_attrs=read-write"))) as store:
            assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
            wait_until(lambda: second.has_replayed(first))
            first.stop(signal.SIGQUIT)
            lost, nobody = (store.loads.record([sample(60, 2.0)]) for _ in range(2))
            second.promote()

            assert [Fault, Fault] == [type(lost), type(nobody)]
            assert "read-only" in nobody.message or "connection to server" in nobody.message
            assert RecordedBatch(1) == store.loads.record([sample(120, 3.0)])
            assert [(NOON, 1.0), (NOON + 2 * MINUTE, 3.0)] == store.loads.minutes(WEB, 0, 2**63)


def test_a_standby_that_an_address_names_alone_is_read_and_written_once_it_is_promoted():
    """As where a name moves to the standby before its promotion."""
    with running() as first, running(follows=first) as second:
        with closing(Store(PostgresAddress(first.url()))) as store:
            store.loads.record([sample(0, 1.0)])
        wait_until(lambda: second.has_replayed(first))
        with closing(Store(PostgresAddress(second.url()))) as store:
            refused = store.loads.record([sample(60, 2.0)])
            assert [(NOON, 1.0)] == store.loads.minutes(WEB, 0, 2**63)
            second.promote()

            assert "read-only transaction" in refused.message
            assert RecordedBatch(1) == store.loads.record([sample(120, 3.0)])


def test_a_session_that_may_only_read_is_left_for_one_that_may_write(postgres, new_schema):
    """
    As where a name led to a standby for a moment: the role's sessions are read-only if they begin before RESET. Found:
    the store stayed in such a session for ever.
    """
    schema = new_schema().url.rpartition("%3D")[2]
    postgres.execute(f"DROP ROLE IF EXISTS moved; CREATE ROLE moved LOGIN; GRANT ALL ON SCHEMA {schema} TO moved")
    address = PostgresAddress(postgres.url(schema, user="moved"))
    Store(address).close()
    postgres.execute("ALTER ROLE moved SET default_transaction_read_only = on")
    with closing(Store(address)) as store:
        refused = store.loads.record([sample(0, 1.0)])
        postgres.execute("ALTER ROLE moved RESET default_transaction_read_only")
        again = [store.loads.record([sample(60 * i, 2.0)]) for i in (1, 2)]

        assert "read-only transaction" in refused.message
        assert [RecordedBatch(1)] * 2 == again
    postgres.execute("REASSIGN OWNED BY moved TO postgres; DROP OWNED BY moved; DROP ROLE moved")


@contextmanager
def bouncer(server):
    """PgBouncer in session mode before a server; its port. PGBOUNCER names its program, where it is not in PATH."""
    program = shutil.which(os.environ.get("PGBOUNCER", "pgbouncer"))
    if program is None:
        pytest.skip("PgBouncer is not installed: put it into PATH, or name its program in PGBOUNCER")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    folder = server.folder  # which it may read, too
    users, settings, log = (folder / f"pgbouncer.{name}" for name in ("users", "ini", "log"))
    users.write_text('"postgres" ""\n')
    settings.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port} user=postgres\n[pgbouncer]\n"
        f"pool_mode = session\nauth_type = any\nauth_file = {users}\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "default_pool_size = 2\nserver_login_retry = 1\n"
    )
    user = 65534 if os.geteuid() == 0 else None  # it refuses to run as root
    with log.open("wb") as opened:
        process = subprocess.Popen([program, settings], stdout=opened, stderr=opened, user=user)
    try:
        wait_until(log.read_text, lambda text: "listening on" in text)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def test_pgbouncer_in_session_mode_passes_everything_on():
    """Two stores on two connections, a restart of the server behind it, and a third store that waits for its turn."""
    with running() as server, bouncer(server) as port:
        address = PostgresAddress(f"postgresql://postgres@127.0.0.1:{port}/postgres?connect_timeout=2")
        with closing(Store(address)) as one, closing(Store(address)) as other:
            for number in range(8):  # psycopg prepares a statement from its fifth use on
                assert RecordedBatch(1) == one.loads.record([sample(60 * number, 1.0)])
                assert RecordedBatch(1) == other.loads.record([sample(60 * number, 2.0)])
            with pytest.raises(StoreError, match="timeout"):
                Store(address)
            server.stop()
            server.start()
            assert isinstance(one.loads.record([sample(600, 3.0)]), Fault)
            assert isinstance(other.loads.record([sample(600, 3.0)]), Fault)

            assert RecordedBatch(1) == wait_until(lambda: one.loads.record([sample(660, 4.0)]), is_recorded)
            assert RecordedBatch(1) == wait_until(lambda: other.loads.record([sample(720, 5.0)]), is_recorded)
            assert 10 == len(one.loads.minutes(WEB, 0, 2**63))


def is_recorded(outcome):
    return not isinstance(outcome, Fault)


def test_opening_to_read_changes_nothing(address):
    with pytest.raises(StoreError, match="it has no tables of cronhpa"):
        Store.open_to_read(address)
    with closing(Store(address)) as store:
        store.loads.record([sample(0, 1.0)])
        with closing(Store.open_to_read(address)) as reader:
            refused = reader.loads.record([sample(0, 9.0)])
            assert "read-only transaction" in refused.message
            assert [(NOON, 1.0)] == everything(reader)
            store.loads.record([sample(0, 2.0)])
            assert [(NOON, 2.0)] == everything(reader)


def test_a_reader_sees_one_state_while_another_replica_compacts(address):
    """A read transaction sees one state: it misses no row that becomes a day meanwhile."""
    with closing(Store(address)) as store, closing(Store(address)) as other:
        store.loads.record([sample(60 * minute, 1.0) for minute in range(300)])
        database = PostgresDatabase.open_to_read(address)

        def read(db):
            before = db.execute("SELECT count(*) FROM day").fetchone()
            assert other.compact(NOON + 5 * 3600 * SECOND) is None
            return before, db.execute("SELECT count(*) FROM step").fetchone()

        assert ((0,), (60,)) == database.read(read)
        assert 60 == len(everything(store))
        database.close()


def test_a_store_that_was_closed_stays_closed(address):
    store = Store(address)
    store.close()

    assert isinstance(store.loads.record([sample(0, 1.0, API)]), Fault)
