"""benchmarks/peers_table.py: figures of the products as rows, and what was not measured."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.usefixtures("benchmark_scripts")

SPREAD = {"count": 100, "of": 100, "min": 0.1, "p50": 1.5, "p99": 4.0, "max": 4.25}
FIGURES = {
    "settings": {"objects": 100, "pods": 2, "keda": "v2.21.0"},
    "machine": {"python": "3.11", "msgspec": "0.20", "json_bytes": 3_800_000, "json_loads_ms": 80, "empty_loop_ms": 99},
    "HPA": {"idle": {"rest": {"own_cpu_s_a_minute": 5.3}}, "kill": {"missing": "an HPA has no schedules\nat all"}},
    "KEDA": {"edge": {"ready_at_edge": 0, "late": SPREAD | {"count": 99, "max": None}}},
    "cronhpa": {"edge": {"ready_at_edge": 100, "late": SPREAD}},
}


def rows(figures):
    import peers_table

    return {label: cells for label, *cells in peers_table.rows_of(figures)}


def test_a_row_has_a_cell_for_each_product_and_a_dash_where_nothing_was_measured():
    of = rows(FIGURES)

    assert ["5.3", "-", "-"] == of["at rest: CPU s a minute"]
    assert ["-", "0", "100"] == of["edge: objects Ready at it"]
    assert ["-", "1.5 / 4 / never (99 of 100)", "1.5 / 4 / 4.25"] == of["edge: s late"]


def test_a_product_that_was_not_run_has_no_column():
    assert ["0"] == rows({"settings": {}, "KEDA": FIGURES["KEDA"]})["edge: objects Ready at it"]


def test_what_could_not_be_measured_is_named_with_the_first_line_of_its_reason():
    import peers_table

    none = {"missing": "an HPA has no schedules\nat all"}
    lost = {"HPA": {"kill": none, "edge": none}, "KEDA": {"missing": "no module proxy\nand more"}}

    assert ["HPA, kill, edge: an HPA has no schedules", "KEDA: no module proxy"] == peers_table.missing_of(lost)


def test_the_page_has_a_column_for_each_product_and_number_of_objects_between_its_markers():
    import peers_table

    page = f"before\n{peers_table.BEGIN}\nold\n{peers_table.END}\nafter\n"
    more = FIGURES | {"settings": {"objects": 1000, "pods": 2, "keda": "v2.21.0"}}

    written = peers_table.written(page, {"1000": more, "100": FIGURES})

    assert (written[:7], written[-7:]) == ("before\n", "\nafter\n")
    assert "old" not in written
    assert "||100: HPA|100: KEDA|100: cronhpa|1,000: HPA|1,000: KEDA|1,000: cronhpa|" in written
    assert "|edge: objects Ready at it|-|0|100|-|0|100|" in written
    assert written.index("\n100 objects of 2 pods") < written.index("\n1,000 objects of 2 pods")
    assert "Not measured: HPA, kill: an HPA has no schedules." in written


def test_the_page_shows_the_published_figures_and_they_are_of_the_peers_that_are_built():
    """A newer KEDA, another setting or a row more: `make bench-peers`, and `python benchmarks/peers_table.py`."""
    import peers
    import peers_products
    import peers_table

    from testbed import build

    published = json.loads(peers_table.PUBLISHED.read_text())
    page = peers_table.PAGE.read_text()

    assert peers_table.written(page, published) == page
    for figures in published.values():
        settings = figures["settings"]
        assert (build.keda_version(), peers_products.PODS, peers_products.PODS_UP, peers.START_UP) == (
            settings["keda"],
            settings["pods"],
            settings["pods_in_window"],
            settings["start_up"],
        )


def test_the_readme_tells_the_ratio_of_the_published_figures():
    import peers_table

    figures = json.loads(peers_table.PUBLISHED.read_text())["1000"]
    theirs, ours = (figures[product]["idle"]["rest"]["own_cpu_s_a_minute"] for product in ("KEDA", "cronhpa"))

    readme = (peers_table.PAGE.parents[2] / "README.md").read_text()

    assert re.findall(r"(\d+) times the CPU", readme) == [f"{theirs / ours:.0f}"]
