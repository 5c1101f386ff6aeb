"""
Writes docs/reference/metrics.md, rules.yaml, the Grafana dashboards, and the chart's copies of these.

`make monitoring` runs it; tests/deploy/test_monitoring.py fails if a file is stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dashboards
import reference
import rules
import yaml

PROJECT = Path(__file__).parents[2]
HERE = PROJECT / "deploy" / "monitoring"
CHART = PROJECT / "deploy" / "chart" / "files" / "monitoring"
_HEAD = "# Made by `make monitoring` from deploy/monitoring/rules.py.\n"


class _Texts(yaml.SafeDumper):
    """Writes expressions of several lines as block texts."""


def _represent(dumper: yaml.SafeDumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Texts.add_representer(str, _represent)


def rules_text(waits: rules.Waits | None = None) -> str:
    """A rule file of Prometheus."""
    return _HEAD + yaml.dump(rules.groups(waits), Dumper=_Texts, sort_keys=False, width=1000)


def files() -> dict[Path, str]:
    """Every file with its text."""
    made = {PROJECT / "docs" / "reference" / "metrics.md": reference.text()}
    for folder in (HERE, CHART):
        made[folder / "rules.yaml"] = rules_text()
        made |= {folder / "grafana" / name: text for name, text in dashboards.texts().items()}
    return made


def main() -> None:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(PROJECT))


if __name__ == "__main__":
    main()
