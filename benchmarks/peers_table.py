"""
The figures of `make bench-peers` as a table, and as docs/engineering/peers.md.

`python benchmarks/peers_table.py` writes the newest figures of each number of objects into the page between its
markers, and beside it the figures that it shows: tests tell by them whether the page is stale. Exit code 1 without
figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from report import FOLDER, calibration_line
from rich.table import Table

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "engineering" / "peers.md"
PUBLISHED = PROJECT / "docs" / "engineering" / "peers-figures.json"
BEGIN, END = "<!-- written by benchmarks/peers_table.py: begin -->", "<!-- end -->"

NAMES = ("HPA", "KEDA", "cronhpa")
SCENARIOS = ("idle", "edge", "step", "outage", "kill", "failover")
# What is shown: a row's name, and where its figure is.
_ROWS = {
    "at rest: CPU s a minute": ("idle", "rest", "own_cpu_s_a_minute"),
    "at rest: resident MB": ("idle", "rest", "own_resident_mb"),
    "at rest: requests a minute": ("idle", "rest", "requests_a_minute"),
    "at rest: the API server's CPU s a minute": ("idle", "rest", "cpu_s_a_minute", "kube-apiserver"),
    "set-up: s until all have decided": ("idle", "set_up_s"),
    "set-up: CPU s": ("idle", "set_up", "own_cpu_s"),
    "edge: objects Ready at it": ("edge", "ready_at_edge"),
    "edge: written, s from it": ("edge", "written"),
    "edge: s late": ("edge", "late"),
    "edge: CPU s around it": ("edge", "cost", "own_cpu_s"),
    "end of the window: s until pods go": ("edge", "down"),
    "step of CPU: s until 4 replicas": ("step", "cpu", "whole"),
    "step of a number, default: s": ("step", "number", "whole"),
    "step of a number, fastest: s": ("step", "number-fast", "whole"),
    "Prometheus gone 2 min: writes": ("outage", "writes_meanwhile"),
    "Prometheus back: s until 4 replicas": ("outage", "after"),
    "killed over an edge: objects Ready at it": ("kill", "ready_at_edge"),
    "killed over an edge: s late": ("kill", "late"),
    "leader of two killed: objects Ready at it": ("failover", "ready_at_edge"),
    "leader of two killed: s late": ("failover", "late"),
}


def title_of(figures: Mapping[str, Any]) -> str:
    settings = figures["settings"]
    return f"{settings['objects']:,} objects of {settings['pods']} pods; three numbers are p50 / p99 / max"


def rows_of(figures: Mapping[str, Any]) -> list[list[str]]:
    """A row a figure: its name, and a cell for each product that was measured."""
    names = [name for name in NAMES if name in figures]
    return [[label, *(_cell(_at(figures[name], path)) for name in names)] for label, path in _ROWS.items()]


def table_of(figures: Mapping[str, Any]) -> Table:
    """What the bench prints."""
    table = Table(title=title_of(figures))
    table.add_column("")
    for name in NAMES:
        if name in figures:
            table.add_column(name, justify="right")
    for row in rows_of(figures):
        table.add_row(*row)
    return table


def missing_of(figures: Mapping[str, Any]) -> list[str]:
    """What could not be measured, and why: a line for each product and reason."""
    parts: dict[tuple[str, str], list[str]] = {}
    for name in NAMES:
        of_product = figures.get(name, {})
        if "missing" in of_product:
            parts[name, of_product["missing"].splitlines()[0]] = []
        for part, of_part in of_product.items():
            if isinstance(of_part, dict) and "missing" in of_part:
                parts.setdefault((name, of_part["missing"].splitlines()[0]), []).append(part)
    return [f"{', '.join([name, *of])}: {why}" for (name, why), of in parts.items()]


def written(page: str, published: Mapping[str, Any]) -> str:
    """The page with one table of these figures, by number of objects and product, between its markers."""
    sizes = sorted(published, key=int)
    heads, runs = [], []
    columns: list[list[list[str]]] = []
    for objects in sizes:
        figures = published[objects]
        heads += [f"{int(objects):,}: {name}" for name in NAMES if name in figures]
        columns.append(rows_of(figures))
        missing = "; ".join(missing_of(figures)) or "nothing"
        runs.append(
            f"{title_of(figures)}, KEDA {figures['settings']['keda']}; {calibration_line(figures['machine'])}. "
            f"Not measured: {missing}."
        )
    rows = [[label, *(cell for of_size in columns for cell in of_size[row][1:])] for row, label in enumerate(_ROWS)]
    table = [
        f"||{'|'.join(heads)}|",
        "|---|" + "---:|" * len(heads),
        *(f"|{'|'.join(row)}|".replace(" / ", "/") for row in rows if {*row[1:]} != {"-"}),
    ]
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    text = "\n\n".join(["\n".join(table), *runs])
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _at(figures: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        figures = figures.get(part) if isinstance(figures, dict) else None
    return figures


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        if "missing" in value:
            return "-"
        ends = " / ".join("never" if value[key] is None else f"{value[key]:g}" for key in ("p50", "p99", "max"))
        return ends if value["count"] == value["of"] else f"{ends} ({value['count']} of {value['of']})"
    return "-" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    found = sorted(FOLDER.glob("peers-*.json"))
    if not found:
        print(f"{FOLDER}: no figures of peers there: run make bench-peers first", file=sys.stderr)
        return 1
    published = json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else {}
    for path in found:
        figures = json.loads(path.read_text())
        published[str(figures["settings"]["objects"])] = figures
    PUBLISHED.write_text(json.dumps(published, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(), published))
    return 0


if __name__ == "__main__":
    sys.exit(main())
