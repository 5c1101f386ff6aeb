"""
cronhpa.cli.commands.status, cronhpa.api.explained.object_rows: all objects in one table,
those that need a person first.
"""

import json
import re
from contextlib import asynccontextmanager

import pytest
import yaml
from typer.testing import CliRunner

from cli.glance import GOLDEN, NOW, SITUATIONS, named, pods_of, stated, table_of_all
from cli.glance import body as made
from cli.objects.test_cluster_words import shop
from cli.served import write_kubeconfig
from cronhpa.api.explained.object_rows import rows_of
from cronhpa.cli import app
from cronhpa.cli.commands.status import NEEDS_A_PERSON, table
from cronhpa.cli.objects.cluster import ConnectedCluster, read_all
from cronhpa.core.model.observation import Observation, Scale
from kube.fake_api import FakeApi, answering

EVERYWHERE = "/apis/cronhpa.io/v1alpha1/cronhpas"
PROD = "/apis/cronhpa.io/v1alpha1/namespaces/prod/cronhpas"


def test_the_eight_situations_read_as_they_did_when_a_person_looked_at_them():
    """`python tests/cli/glance.py` writes it anew."""
    assert (GOLDEN / "status.txt").read_text() == table_of_all()
    assert max(map(len, table_of_all().splitlines())) <= 80


def test_objects_that_need_a_person_come_first_then_by_name():
    rows = rows_of([named(name) for name in sorted(SITUATIONS)], NOW)

    assert ["no-target", "no-metric", "two-owners", "maxed", "contradictory"] == [
        row.name for row in rows if row.needs_person
    ]
    assert ["preview", "good", "night-zero", "plain"] == [row.name for row in rows if not row.needs_person]


def test_an_object_that_no_operator_has_seen_needs_one():
    new = {"metadata": {"namespace": "prod", "name": "new", "generation": 1}, "spec": stated()}
    edited = made(stated(), pods_of(12, 580), name="edited")
    edited["metadata"]["generation"] = 5
    first, second = rows_of([edited, new], NOW)

    assert (("edited", "Deciding", True), ("new", "Undecided", True)) == tuple(
        (row.name, row.word, row.needs_person) for row in (first, second)
    )
    assert all("is the operator running" in row.notes[0] for row in (first, second))


def test_a_zero_by_hand_is_told_and_needs_nobody():
    (row,) = rows_of([made(stated(), Observation(Scale(0, 0, "app=shop")))], NOW)

    assert ("Holding", False) == (row.word, row.needs_person)
    assert row.notes[0].startswith("the target was scaled to zero by hand")


def test_more_than_is_allowed_is_told_before_what_goes_well():
    full = made(stated(maxReplicas=2), pods_of(2, 900), name="zzz")
    first, _ = rows_of([named("plain"), full], NOW)

    assert ("zzz", False, ("3 replicas are asked for, and 2 are allowed",)) == (
        first.name,
        first.needs_person,
        first.notes,
    )


def test_a_terminal_cuts_a_row_and_a_pipe_does_not():
    long = made(stated(), pods_of(12, 580), name="n" * 90)

    cut, whole = (
        [line.text for line in table(rows_of([long], NOW), 80, is_cut=is_cut, is_everywhere=True)]
        for is_cut in (True, False)
    )

    assert max(len(line) for line in cut[:2]) <= 80
    # The name alone is cut: it pushed all that is said of every object off the screen.
    assert re.fullmatch(r"prod/n+\.\.\.n+  Deciding  12        2\.\.120        cpu: 58%/60%", cut[1])
    assert f"prod/{'n' * 90}  Deciding  12        2..120        cpu: 58%/60%" == whole[1]
    assert "1 object, none needs a person" == whole[-1]


async def test_objects_are_listed_in_their_namespace_or_everywhere():
    api = FakeApi()
    first, second = ({"metadata": {"name": name, "namespace": "prod"}} for name in "ab")
    api.answers[PROD] = answering({"items": [first]})
    api.answers[EVERYWHERE] = answering({"items": [second, first]})

    async with api.client() as client:
        one = [body["metadata"]["name"] for body in await read_all(client, "prod")]
        both = [body["metadata"]["name"] for body in await read_all(client, None)]

    assert (["a"], ["a", "b"]) == (one, both)


@pytest.fixture
def ask(monkeypatch):
    """Runs the command on these objects."""

    @asynccontextmanager
    async def no_cluster(*_):
        yield ConnectedCluster(None, "default", "none")

    def run(bodies, *options):
        async def listed(*_):
            return bodies

        monkeypatch.setattr("cronhpa.cli.commands.status.read_all", listed)
        monkeypatch.setattr("cronhpa.cli.commands.status.connected", no_cluster)
        return CliRunner().invoke(app, ["status", *options])

    return run


def test_the_exit_code_tells_a_script_whether_a_person_is_needed(ask):
    assert 0 == ask([named("plain"), named("good"), named("preview")]).exit_code
    assert NEEDS_A_PERSON == ask([named("plain"), named("contradictory")]).exit_code
    none = ask([])
    assert (0, "no CronHPA in namespace default\n") == (none.exit_code, none.stdout)


def test_json_holds_each_object_with_its_notes(ask):
    told = json.loads(ask([named("good"), named("no-target")], "-o", "json").stdout)

    assert [("no-target", "NoTarget", True), ("good", "Deciding", False)] == [
        (row["name"], row["status"], row["needsPerson"]) for row in told
    ]
    assert ["there is no Deployment/shop; create it, or correct spec.scaleTargetRef"] == told[0]["notes"]
    assert (12, 20, 30, 80, "cpu: 33%/60%") == tuple(
        told[1][key] for key in ("currentReplicas", "desiredReplicas", "minReplicas", "maxReplicas", "targets")
    )


def test_a_watch_shows_them_again_until_it_is_ended(ask, monkeypatch):
    """Two rounds; then somebody presses Ctrl-C."""
    rounds = iter(range(2))

    async def wait(_):
        if next(rounds, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("cronhpa.cli.commands.status.asyncio.sleep", wait)
    watched = ask([named("no-target")], "--watch")

    assert 0 == watched.exit_code
    assert 3 == watched.stdout.count("1 object, 1 needs a person")


def test_in_40_columns_no_cell_is_cut_to_dots():
    """Found: NEXT as "M...", which says nothing."""
    lines = [
        line.text
        for line in table(rows_of([named(name) for name in SITUATIONS], NOW), 40, is_cut=True, is_everywhere=True)
    ]

    assert ["NAME", "STATUS"] == lines[0].split()
    assert [] == [line for line in lines if len(line) > 40 or line.endswith("...")]


def test_a_narrow_terminal_leaves_out_whole_columns():
    lines = [line.text for line in table(rows_of([named("good")], NOW), 60, is_cut=True, is_everywhere=False)]

    assert ["NAME  STATUS    REPLICAS  BOUNDS  NEXT", "good  Deciding  12 -> 20  30..80  Mon 13:00 +01:00"] == lines[:2]


def test_a_note_of_several_objects_stands_once_below_the_table():
    """25 objects without metrics a minute after an installation had the same two lines each."""
    new = [made(stated(), pods_of(2, 0), name=f"web-{number}") for number in range(3)]
    for body in new:
        del body["status"]

    lines = [line.text for line in table(rows_of(new, NOW), 80, is_cut=False, is_everywhere=False)]

    assert ["NAME", "web-0", "web-1", "web-2"] == [line.split()[0] for line in lines[:4]]
    assert "3 objects: nothing was decided yet: is the operator running, and does it watch" == lines[4]
    assert ["  this namespace?", "  web-0, web-1, web-2", "3 objects, 3 need a person"] == lines[5:]


def test_what_needs_a_person_is_red_and_what_goes_well_has_no_colour():
    rows = rows_of([named(name) for name in ("plain", "preview", "no-target")], NOW)

    _, *lines, _ = (line for line in table(rows, 80, is_cut=False, is_everywhere=False) if line.text[0] != " ")

    assert [("no-target", "red"), ("preview", "yellow"), ("plain", None)] == [
        (line.text.split()[0], line.colour) for line in lines
    ]


def test_the_objects_are_printed_as_kubectl_does(ask):
    both = [named("plain"), named("no-target")]

    assert "prod/no-target\nprod/plain\n" == ask(both, "-o", "name").stdout
    assert ["no-target", "plain"] == [
        body["metadata"]["name"] for body in yaml.safe_load_all(ask(both, "-o", "yaml").stdout)
    ]
    wide = ask(both, "-o", "wide").stdout.splitlines()
    assert ["TARGET", "DECIDED-BY", "MODE", "FORECAST", "AGE"] == wide[0].split()[-5:]
    assert any("Deployment/shop  Metric/cpu" in line for line in wide)


def test_objects_are_chosen_by_name_or_label(served, tmp_path):
    served.hold(shop("prod", "shop"), shop("dev", "cart"))
    file = write_kubeconfig(tmp_path / "kubeconfig", served.server, {"prod": "prod"})

    def names(*words):
        done = CliRunner().invoke(app, ["status", *words, "-o", "name", "--kubeconfig", str(file)])
        return done.output.split("\n")[:-1]

    assert ["dev/cart", "prod/shop"] == names("shop", "dev/cart")
    assert ["prod/shop"] == names("-l", "app=shop")
    assert "app=shop" == served.asked[-1][2]["labelSelector"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shop", "-l", "app=shop"), "names or labels, not both"),
        (("shop", "-A"), "name objects as NAMESPACE/NAME, or leave out the names"),
        (("-o", "yml"), "'yml' is not one of 'table', 'wide', 'name', 'json', 'yaml'."),
    ],
)
def test_options_that_make_no_sense_are_refused(words, said):
    ended = CliRunner().invoke(app, ["status", *words])

    assert 2 == ended.exit_code
    assert said in " ".join(ended.stderr.replace("│", " ").split())
    assert "Value error" not in ended.stderr
