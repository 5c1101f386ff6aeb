"""
Writes docs/reference/ from the code: the resource, the commands, the settings, the chart's values; and for the chart
its defaults, and `sources` in its schema.

`make docs` runs it; a test says when a page is stale. A page that follows from the code is never edited by hand.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any

import typer
import yaml
from pydantic import BaseModel
from typer.core import TyperArgument, TyperGroup

from cronhpa.api.crd import CLUSTER_PLANNED_EVENT, COLUMNS, crd_manifest
from cronhpa.api.identity import API_VERSION, KIND
from cronhpa.cli import app
from cronhpa.operator.settings import Settings
from cronhpa.sources.registry import KINDS

DOCS = Path(__file__).parent.resolve()
CHART = DOCS.parent / "deploy" / "chart"
_REPOSITORY = "https://github.com/cronhpa/cronhpa"
# Parts that Kubernetes has everywhere, or that nobody but the operator and `kubectl get` reads.
_ELSEWHERE = {"metrics[].pods.metric.selector", "conditions", "currentMetrics", "memory", "columns"}
# The most used fields of the status; the others follow in their own order.
_STATUS_FIRST = (
    *("conditions", "currentReplicas", "desiredReplicas", "effectiveMinReplicas", "effectiveMaxReplicas", "nextEdge"),
    "decision",
)
# Words of a description, from which on it stands at its first field alone.
_REPEATED = 8
# Every command has it; the page says so once.
_OPTION_IS_WRONG = re.compile(r"; 2\s+an\s+option\s+is\s+wrong(?=[.;])")
_SOURCES = re.compile(r'^    "sources": \{\n.*?^    \},\n', re.MULTILINE | re.DOTALL)
_SOURCES_SCHEMA = """\
    "sources": {
      "type": "object",
      "additionalProperties": {
        "type": "object",
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
%s
        }
      }
    },
"""
_LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_NOTE = "<!-- Written by docs/generate.py (`make reference`): change the code, not this page. -->\n"


def pages() -> dict[str, str]:
    """Path, from docs/ on, and text of each page."""
    return {
        "reference/resource.md": resource_page(),
        "reference/planned-event.md": event_page(),
        "reference/commands.md": commands_page(),
        "reference/settings.md": settings_page(),
        "reference/chart.md": chart_page(),
        "../deploy/chart/values.schema.json": chart_schema(),
        "../deploy/chart/files/defaults.json": chart_defaults(),
    }


# --- the resource ------------------------------------------------------------------------------------------------


def resource_page() -> str:
    version = crd_manifest()["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]["properties"]
    lines = [
        f"# The resource {KIND}",
        "",
        _NOTE,
        f"`apiVersion: {API_VERSION}`, `kind: {KIND}`, short name `chpa`. `kubectl explain cronhpa.spec` says the",
        "same.",
        "",
        "The API server checks rules that compare fields; `cronhpa preview` checks them without one.",
        "",
        "## spec",
        "",
        "The most used fields first.",
        "",
        *_fields(root["spec"]),
        "## status",
        "",
        *_fields(_by_use(root["status"], _STATUS_FIRST)),
        "## Columns of kubectl get",
        "",
        *(
            f"- **{name.upper()}**{' (`-o wide`)' if width else ''} {_in_line(description)}"
            for name, _, _, width, description in COLUMNS
        ),
    ]
    return "\n".join(lines) + "\n"


def _by_use(node: dict[str, Any], first: Sequence[str]) -> dict[str, Any]:
    """A part of the resource with these fields first."""
    fields = sorted(node["properties"].items(), key=lambda field: first.index(field[0]) if field[0] in first else 99)
    return {**node, "properties": dict(fields)}


def event_page() -> str:
    """Of the schedules only what those of a CronHPA do not have."""
    root = crd_manifest(CLUSTER_PLANNED_EVENT)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    own = crd_manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    known = own["properties"]["schedules"]["items"]["properties"]
    schedule = root["spec"]["properties"]["schedules"]["items"]
    schedule["properties"] = {
        name: field for name, field in schedule["properties"].items() if name not in known or name == "priority"
    }
    for selector in ("selector", "namespaceSelector"):
        root["spec"]["properties"][selector].pop("properties")
    lines = [
        "# The resources PlannedEvent and ClusterPlannedEvent",
        "",
        _NOTE,
        f"`apiVersion: {API_VERSION}`, short names `pev` and `cpev`. [How to use them](../how-to/planned-events.md).",
        "Only a ClusterPlannedEvent has `namespaceSelector`.",
        "",
        "## spec",
        "",
        "Further fields of a schedule: as [those of a CronHPA](resource.md).",
        "",
        *_fields(root["spec"]),
        "`status` is the plan and then the report: `kubectl explain pev.status --recursive`.",
    ]
    return "\n".join(lines) + "\n"


def _fields(node: dict[str, Any]) -> list[str]:
    """As in the reference of the Kubernetes API: field, type, description."""
    return [
        *(
            f"- **`{path}`** ({kind}{', required' if is_required else ''}) {_in_line(text)}".rstrip()
            for path, kind, text, is_required in _walk(node, "")
        ),
        "",
    ]


def _walk(node: dict[str, Any], path: str, seen: dict[str, str] | None = None) -> Iterator[tuple[str, str, str, bool]]:
    """Path, type, description and whether it is required, of each field; equal parts and long texts are shown once."""
    seen = {} if seen is None else seen
    for name, child in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        inner = child.get("items", child)
        fields = json.dumps(inner.get("properties", {}), sort_keys=True)
        first = seen.setdefault(fields, here) if len(inner.get("properties", {})) > 1 else here
        if here in _ELSEWHERE:
            yield here, _type(child), f"{_description(child)} Fields: `kubectl explain`.", False
            continue
        text = _description(child)
        alike = seen.setdefault(text, here) if len(text.split()) >= _REPEATED else here
        if first != here:
            text = f"{text} Fields: as `{first}`."
        elif alike != here:
            text = f"As `{alike}`."
        yield here, _type(child), text, name in node.get("required", ())
        if first == here:
            yield from _walk(inner, f"{here}[]" if "items" in child else here, seen)


def _type(node: dict[str, Any]) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "items" in node:
        return f"[]{_type(node['items'])}"
    return str(node.get("type", ""))


def _description(node: dict[str, Any]) -> str:
    text = [node.get("description") or node.get("items", {}).get("description", "")]
    if "enum" in node:
        text.append(f"One of {', '.join(map(str, node['enum']))}.")
    if node.get("default", {}) != {}:
        text.append(f"Default: `{_default(node['default'])}`.")
    lowest, highest = node.get("minimum"), node.get("maximum")
    if lowest is not None and highest is not None and highest < 2**31 - 1:
        text.append(f"{lowest} to {highest}.")
    return " ".join(part for part in text if part)


def _default(value: object) -> str:
    """As it stands in YAML."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# --- the commands ------------------------------------------------------------------------------------------------


def commands_page() -> str:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    commands = [*_commands(group, "cronhpa")]
    common = _common([row for _, command in commands for row in _rows(command)])
    lines = [
        "# The commands",
        "",
        _NOTE,
        "`cronhpa NAME` and `kubectl cronhpa NAME` are one program; `--help` says the same as this page.",
        "Exit code 2 also means that an option is wrong.",
        "",
        "Options that several commands have:",
        "",
        *common,
        "",
    ]
    for path, command in commands:
        rows = [*_rows(command)]
        lines += [f"## {path}", "", _OPTION_IS_WRONG.sub("", inspect.cleandoc(command.help or "")), ""]
        if path == "cronhpa run":
            lines += [f"Options: {', '.join(map(_name, rows))}; [the settings](settings.md) say what they mean.", ""]
            continue
        if shared := [_name(row) for row in rows if row in common]:
            lines += [f"Above: {', '.join(shared)}.", ""]
        lines += [*(row for row in rows if row not in common), ""]
    return "\n".join(lines).rstrip() + "\n"


def _commands(group: TyperGroup, path: str) -> Iterator[tuple[str, Any]]:
    context = typer.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{path} {name}")
        elif command is not None and not command.hidden:
            yield f"{path} {name}", command


def _rows(command: Any) -> Iterator[str]:
    for each in command.params:
        if not getattr(each, "hidden", False) and each.name != "help":
            yield f"- `{_written(each)}`: {_in_line(each.help or '')}"


def _common(rows: list[str]) -> list[str]:
    """The options that more than one command has; of several rows of one name, the one that most have."""
    named: dict[str, str] = {}
    for row, count in Counter(rows).most_common():
        if count > 1 and row.startswith("- `--"):
            named.setdefault(_name(row), row)
    return [*named.values()]


def _name(row: str) -> str:
    """The long name of a row's option."""
    return f"`{re.split('[, ]', row.split('`')[1])[0]}`"


def _written(parameter: Any) -> str:
    """An argument as it stands in the usage, an option with what it takes."""
    if isinstance(parameter, TyperArgument):
        return str(parameter.metavar or parameter.name.upper())
    names = ", ".join(parameter.opts)
    return names if parameter.is_flag else f"{names} {parameter.metavar or parameter.name.upper()}"


# --- settings and values -----------------------------------------------------------------------------------------


def settings_page() -> str:
    lines = [
        "# The operator's settings",
        "",
        _NOTE,
        "Environment variables of `cronhpa run`; some are options of it, too. The chart sets them from its",
        "[values](chart.md); `extraEnv` sets any other. Durations are texts such as `15s` or `5m`.",
        "",
    ]
    for name, field in Settings.model_fields.items():
        shown = "" if field.default is None or field.default == "" else f"`{_plain(field.default)}`"
        lines.append(f"- `CRONHPA_{name.upper()}`{f' ({shown})' if shown else ''}: {_in_line(field.description or '')}")
    return "\n".join(lines) + "\n"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def chart_page() -> str:
    rows = (
        f"- `{path}`{f' (`{default}`)' if default else ''}{f': {_in_line(text)}' if text else ''}"
        for path, default, text in chart_values()
    )
    lines = [
        "# The chart's values",
        "",
        _NOTE,
        "`helm show values` prints the same file with its comments. A misspelt name is an error.",
        "",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def chart_schema() -> str:
    """The schema of the chart's values: `sources` by the models of their kinds, all else as it is written by hand."""
    text, count = _SOURCES.subn(lambda _: _sources_schema(), (CHART / "values.schema.json").read_text("utf-8"))
    if count != 1:
        raise ValueError(f"values.schema.json has {count} properties `sources` at four spaces: one is needed")
    return text


def chart_defaults() -> str:
    """values.yaml for the chart's templates, which cannot read that file itself."""
    return json.dumps(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")), indent=1) + "\n"


def _sources_schema() -> str:
    """A line for each field."""
    kinds = []
    for kind, model in KINDS.items():
        schema = _kind_schema(model)
        fields = ",\n".join(f'"{name}": {json.dumps(field)}' for name, field in schema.pop("properties").items())
        others = "".join(f'"{keyword}": {json.dumps(value)},\n' for keyword, value in schema.items())
        kinds.append(f'"{kind}": {{\n{indent(others, "  ")}  "properties": {{\n{indent(fields, "    ")}\n  }}\n}}')
    return _SOURCES_SCHEMA % indent(",\n".join(kinds), " " * 10)


def _kind_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    if "$defs" in schema:
        raise ValueError(f"{model.__name__} has a field that is a model: texts, numbers, lists and maps are accepted")
    fields = {name: _bare(field) for name, field in schema.pop("properties").items()}
    return {**_bare(schema), "properties": fields}


def _bare(schema: Any) -> Any:
    """Without what Helm has no use for."""
    if isinstance(schema, dict):
        left_out = {"title", "default", "format"}
        return {keyword: _bare(value) for keyword, value in schema.items() if keyword not in left_out}
    return [_bare(each) for each in schema] if isinstance(schema, list) else schema


def chart_values() -> Iterator[tuple[str, str, str]]:
    """Path, default and comment of each value of the chart, in the order of values.yaml."""
    comment: list[str] = []
    parents: list[tuple[int, str]] = []
    for line in (CHART / "values.yaml").read_text("utf-8").splitlines()[1:]:
        if re.match(r"\s*#", line):
            comment.append(line.strip().removeprefix("#").strip())
            continue
        found = re.match(r"( *)([A-Za-z]\w*):\s*(.*)$", line)
        if found:
            depth, name, default = len(found[1]), found[2], found[3]
            parents = [each for each in parents if each[0] < depth]
            path = ".".join([*(parent for _, parent in parents), name])
            if default or comment:
                yield path, default, " ".join(comment)
            if not default:
                parents.append((depth, name))
        comment = []


def _in_line(text: str) -> str:
    return " ".join(text.split())


def site(folder: Path) -> None:
    """A copy of docs/ whose links to other files of the project lead to the repository."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page in folder.rglob("*.md"):
        original = DOCS / page.relative_to(folder)
        page.write_text(_LINK.sub(partial(_on_the_site, original.parent), page.read_text("utf-8")), "utf-8")


def _on_the_site(folder: Path, link: re.Match[str]) -> str:
    target = (folder / link[1]).resolve()
    if not link[1].startswith("..") or target.is_relative_to(DOCS):
        return link[0]
    kind = "tree" if target.is_dir() else "blob"
    return f"]({_REPOSITORY}/{kind}/main/{target.relative_to(DOCS.parent)}{link[2] or ''})"


def main() -> int:
    """
    Write what changed and name it; with --check name it alone, and return 1 where there is any.

    With --site FOLDER write what the site is built from.
    """
    if "--site" in sys.argv:
        site(Path(sys.argv[sys.argv.index("--site") + 1]))
        return 0
    made = {(DOCS / name).resolve(): text for name, text in pages().items()}
    stale = {path: text for path, text in made.items() if _read(path) != text}
    for path, text in stale.items():
        sys.stdout.write(f"{path.relative_to(DOCS.parent)}\n")
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    return int(bool(stale) and "--check" in sys.argv)


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
