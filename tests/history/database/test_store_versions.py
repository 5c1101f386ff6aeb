"""cronhpa.history.database.schema: a newer release migrates an older store, an older one refuses a newer one."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest
from msgspec import Raw
from msgspec.structs import replace

from cronhpa.core.model.instant import DAY, MINUTE
from cronhpa.history.database.address import PostgresAddress
from cronhpa.history.database.database import Fault, StoreError
from cronhpa.history.database.postgres import PostgresDatabase
from cronhpa.history.database.schema import SCHEMA
from cronhpa.history.database.series import RecordedBatch, Series
from cronhpa.history.database.sqlite import SqliteDatabase
from cronhpa.history.past.decisions import KeptDecision
from cronhpa.history.past.past_decision import PastDecision
from cronhpa.history.past.points import Point
from cronhpa.history.store import Store
from history.samples import NOON, WEB, everything, raw, sample

# The next release has a table more.
NEXT = replace(
    SCHEMA,
    version=SCHEMA.version + 1,
    tables=SCHEMA.tables + "CREATE TABLE later (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    migrations={**SCHEMA.migrations, SCHEMA.version: "CREATE TABLE later (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"},
)


def opened(address, how="open", schema=NEXT):
    """A store as another release opens it."""
    database = PostgresDatabase if isinstance(address, PostgresAddress) else SqliteDatabase
    return Store(address, partial(getattr(database, how), schema=schema))


def test_the_operator_of_the_next_release_migrates_a_store_and_keeps_what_is_in_it(address):
    with closing(Store(address)) as store:
        store.loads.record([sample(0, 1.0)])

    with closing(opened(address)) as later:
        assert [(NOON, 1.0)] == everything(later)
        assert RecordedBatch(1) == later.loads.record([sample(0, 2.0)])
    assert [] == raw(address, "SELECT * FROM later")


def test_a_store_of_a_later_release_is_refused_in_words(address):
    opened(address).close()

    for how in (Store, Store.open_unmigrated, Store.open_to_read):
        with pytest.raises(
            StoreError, match=rf"schema version {NEXT.version}: this release reads version.*use the release that wrote"
        ):
            how(address)


def test_a_command_of_the_next_release_refuses_an_older_operators_store_and_leaves_it_as_it_is(address):
    """Otherwise the running operator of the older release could no longer read it."""
    with closing(Store(address)) as store:
        store.loads.record([sample(0, 1.0)])
        with pytest.raises(
            StoreError, match=r"of an earlier release, whose operator may be using it.*upgrade the operator"
        ):
            opened(address, "open_unmigrated")

        assert RecordedBatch(1) == store.loads.record([sample(0, 2.0)])
        with closing(opened(address, "open_to_read")) as reader:
            assert [(NOON, 2.0)] == everything(reader)


def test_a_command_makes_a_store_where_there_is_none(address):
    with closing(Store.open_unmigrated(address)) as store:
        assert RecordedBatch(1) == store.loads.record([sample(0, 1.0)])
    with closing(Store(address)) as store:
        assert [WEB] == store.loads.series()


def test_an_operator_whose_store_is_migrated_meanwhile_writes_no_more(address):
    """A rolling update: the replica of the next release leads for a while, and the older one leads again."""
    with closing(Store(address)) as store:
        store.loads.record([sample(0, 1.0)])
        opened(address).close()

        outcome = store.loads.record([sample(0, 2.0)])

        assert isinstance(outcome, Fault)
        assert "release" in outcome.message
    assert [(1.0,)] == raw(address, "SELECT high FROM step")


def test_several_processes_that_migrate_at_once_migrate_once(address):
    Store(address).close()

    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(opened, [address] * 4))

    assert {RecordedBatch(1)} == {store.loads.record([sample(i, 1.0)]) for i, store in enumerate(stores)}
    for store in stores:
        store.close()


def test_decisions_and_points_of_an_earlier_form_go_and_new_ones_are_kept(address):
    """They lived for a week. The object stays, without the digest of a decision that is gone."""
    migrations = {version: SCHEMA.migrations[version] for version in (1, 2, 3)}
    # Without the table that version 6 brought.
    tables = SCHEMA.tables.replace(f"{SCHEMA.migrations[5]};", "")
    of_version_4 = replace(SCHEMA, version=4, tables=tables, migrations=migrations)
    opened(address, schema=of_version_4).close()
    raw(
        address,
        "INSERT INTO object (namespace, name, last, bytes) VALUES ('prod', 'web', 'digest', 4)",
        f"INSERT INTO decided VALUES (1, {NOON}, {NOON}, '2abc')",
        f"INSERT INTO points VALUES (1, {NOON // DAY}, 0, '1abc')",
    )
    decision = PastDecision(NOON, Raw(b"{}"))

    with closing(Store(address)) as store:
        store.decisions.record([KeptDecision("prod", "web", "digest", decision)])
        store.decisions.record_points([("prod", "web", Point(NOON, 4, 4, 1.5, 2, 9, None))])

        assert store.decisions.tidy(NOON + MINUTE) is None  # the minute of the first object
        assert decision == store.decisions.at("prod", "web", NOON)
        assert 1 == len(store.decisions.points("prod", "web", 0, NOON + DAY))


@pytest.mark.parametrize(
    "name",
    ["'; DROP TABLE step; --", "?$1%s%%", "\\0", "a\0b", "\\", "\\\\0", "Ünï-😀", "a\nb", "x" * 1000, "", "NULL"],
)
def test_a_series_of_any_name_is_kept_under_it(store, name):
    """A name that the database refuses would lose the whole batch."""
    series = Series(name, name[::-1], name)

    assert RecordedBatch(2) == store.loads.record([sample(0, 1.0), sample(0, 2.0, series)])

    assert ([(NOON, 2.0)], [(NOON, 1.0)]) == (everything(store, series), everything(store))
    assert sorted(
        [WEB, series], key=lambda member: [part.encode() for part in (member.namespace, member.name, member.metric)]
    ) == (store.loads.series())
