"""Commands that only read a store: an operator of an earlier release may be using the file."""

import pytest
from typer.testing import CliRunner

from cronhpa.cli.commands.history import app
from cronhpa.cli.past.past import PrometheusRequest, read_past
from cronhpa.core.model.instant import MINUTE
from cronhpa.core.model.spec import TargetRef
from history.samples import NOON, WEB, write_version_1


@pytest.fixture
def earlier(tmp_path):
    """A store of version 1, and the name of nothing else in its folder."""
    path = tmp_path / "history.db"
    write_version_1(path)
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("list",), "shop/web"), (("export", "shop/web"), "2026-03-01T12:00:00Z,2.5\n2026-03-01T12:05:00Z,2.5\n")],
    ids=["list", "export"],
)
def test_a_store_of_an_earlier_release_is_read_and_left_as_it_is(earlier, arguments, said):
    before = earlier.read_bytes()

    done = CliRunner().invoke(app, [*arguments, "--store", str(earlier)])

    assert 0 == done.exit_code, done.output
    assert said in done.output
    assert before == earlier.read_bytes()


def test_a_past_is_read_from_a_store_of_an_earlier_release_that_stays_as_it_is(earlier):
    before = earlier.read_bytes()

    past = read_past(str(earlier), WEB, PrometheusRequest(TargetRef("apps/v1", "Deployment", "web"), None, 1.0))

    # A maximum of five minutes is known when they are over.
    assert [(NOON + 5 * MINUTE, 2.5), (NOON + 10 * MINUTE, 2.5)] == past.points
    assert before == earlier.read_bytes()


def test_an_import_into_a_store_of_an_earlier_release_is_refused_in_words(earlier, tmp_path):
    """An operator of that release may be using it, and could not read it any more."""
    (tmp_path / "load.csv").write_text("timestamp,value\n2026-03-01T12:00:00Z,4\n")
    before = earlier.read_bytes()

    named = ["shop/web", "--before-object"]
    done = CliRunner().invoke(app, ["import", *named, str(tmp_path / "load.csv"), "--store", str(earlier)])

    assert 1 == done.exit_code
    assert "schema version 1 of an earlier release, whose operator may be using it" in done.stderr
    assert "upgrade the operator, which migrates it" in done.stderr
    assert before == earlier.read_bytes()


def test_a_store_of_a_later_release_is_refused_in_words(earlier):
    earlier.write_bytes(earlier.read_bytes()[:60] + (9).to_bytes(4, "big") + earlier.read_bytes()[64:])

    done = CliRunner().invoke(app, ["list", "--store", str(earlier)])

    assert 1 == done.exit_code
    assert "schema version 9: this release reads versions 1 to 6; use the release that wrote it" in done.stderr
