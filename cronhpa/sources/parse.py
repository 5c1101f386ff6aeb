"""
The file of sources, checked as a whole. The operator's administrator writes it; no tenant's text stands in it.

Each source is of one kind of `registry`, and has a name by which the metrics of objects ask for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

import yaml
from pydantic import BaseModel, Field, ValidationError, create_model, model_validator
from pydantic_core import ErrorDetails

from cronhpa.core.model.nearest import nearest
from cronhpa.core.model.printable import printable, shortened, without_url_secrets
from cronhpa.history.imports.promql import MetricName
from cronhpa.kube.yaml_loader import Loader, line_of
from cronhpa.sources.registry import KINDS
from cronhpa.sources.source import Definition, StrictModel, text_of

# A ConfigMap holds 1 MiB.
BYTES_MAX = 2**20
_NODES_MAX = 50_000
_INPUT_MAX = 200
# An address or a user name that is refused may hold a password where nothing tells it from the rest.
_NOT_SHOWN = {"url", "urlFile", "username"}


class SourcesError(ValueError):
    """What is wrong with a file of sources. problems: one a line, each with where, what was found, what is accepted."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class _OneKind(StrictModel):
    """A field for each kind of source, of which one is stated."""

    @property
    def definitions(self) -> dict[str, Definition]:
        by_kind = {kind: getattr(self, kind) for kind in KINDS}
        return {kind: definition for kind, definition in by_kind.items() if definition is not None}

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if len(self.definitions) != 1:
            *others, last = KINDS
            raise ValueError(f"exactly one of {', '.join(others)} and {last} is accepted")
        return self


if TYPE_CHECKING:  # mypy knows no class that is made of values
    _Named = _OneKind
else:
    _Named = create_model(
        "_Named", __base__=_OneKind, **{kind: (model | None, Field(None, alias=kind)) for kind, model in KINDS.items()}
    )


class _File(StrictModel):
    sources: dict[Annotated[str, text_of(MetricName)], _Named] = Field(
        description="sources by name, such as requests: {prometheus: {query: ...}}"
    )


def parse_sources(text: str, where: str, *, default_url: str | None = None) -> dict[str, Definition]:
    """
    The sources of a file by name.

    where: the file's name in errors. default_url: the Prometheus of sources without a `url`.
    Raises SourcesError with every problem, each with its line.
    """
    body, node, repeated = loaded_yaml(text, where)
    problems = [
        f"{where}:{key.line}: {key.key} stands here for the second time, after line {key.first_line}: "
        "each name once is accepted"
        for key in repeated
    ]
    try:
        file = _File.model_validate(body)
    except ValidationError as error:
        problems += [_told(problem, node, where) for problem in error.errors()]
        raise SourcesError(tuple(problems)) from None
    definitions: dict[str, Definition] = {}
    for name, source in file.sources.items():
        ((kind, definition),) = source.definitions.items()
        try:
            definitions[name] = definition.with_defaults(default_url)
        except ValueError as problem:
            path = ("sources", name, kind)
            problems.append(f"{where}:{line_at(node, path)}: {'.'.join(path)}: {problem}")
    if problems:
        raise SourcesError(tuple(problems))
    return definitions


def loaded_yaml(text: str, where: str) -> tuple[Any, Any, list[Any]]:
    """The document of a settings file, its node, and the keys that stand twice. Raises SourcesError."""
    if len(text) > BYTES_MAX:
        raise SourcesError((f"{where}: it has more than {BYTES_MAX} characters, as no ConfigMap has",))
    try:
        loader = Loader(text, _NODES_MAX)
        try:
            node = loader.get_single_node()
            body = {} if node is None else loader.construct_object(node, deep=True)
            return body, node, loader.repeated
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError, AttributeError, LookupError) as error:
        # The last three are what PyYAML stumbles over, such as `!!int x`.
        mark = getattr(error, "problem_mark", None)
        at = "" if mark is None else f":{mark.line + 1}"
        reason = getattr(error, "problem", None) or str(error)
        raise SourcesError((f"{where}{at}: {' '.join(str(reason).split())}: one YAML document is accepted",)) from None


def _told(error: ErrorDetails, node: Any, where: str) -> str:
    """`FILE:LINE: FIELD: what was found: what is wrong: what is accepted`."""
    path = tuple(part for part in error["loc"] if part != "[key]")
    # pydantic adds the branch of a union to the path; no field of the file has such a name.
    path = tuple(part for part in path if not isinstance(part, str) or "[" not in part)
    field = ".".join(("", *map(str, path)))[1:] or "the file"
    line = line_at(node, path)
    if error["type"] == "missing":
        return f"{where}:{line}: {field}: it is missing{_accepted(path)}"
    if error["type"] == "extra_forbidden":
        fields = _fields(path[:-1])
        meant = nearest(str(path[-1]), fields)
        accepted = f"{', '.join(fields)} are accepted" if meant is None else f"did you mean {meant}?"
        return f"{where}:{line}: {field}: there is no such field: {accepted}"
    return f"{where}:{line}: {field}: {refusal(error, path)}{_accepted(path)}"


def refusal(error: ErrorDetails, path: tuple[Any, ...]) -> str:
    """What was found at a path of a settings file, and why it is refused."""
    if error["type"] in {"model_type", "dict_type"}:
        return "it has no fields: fields by name are accepted here"
    message, value = error["msg"].removeprefix("Value error, "), error["input"]
    if isinstance(value, dict | BaseModel) or path[-1] in _NOT_SHOWN:
        return message
    return f"{printable(shortened(without_url_secrets(repr(value)), _INPUT_MAX))}: {message}"


def _model(path: tuple[Any, ...]) -> type[BaseModel] | None:
    """The model whose fields stand below a path."""
    if len(path) == 3:  # noqa: PLR2004 - sources, name, kind
        return KINDS.get(str(path[2]))
    models: dict[int, type[BaseModel]] = {0: _File, 2: _Named}
    return models.get(len(path))


def _fields(path: tuple[Any, ...]) -> list[str]:
    model = _model(path)
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _accepted(path: tuple[Any, ...]) -> str:
    for length in range(len(path), 0, -1):
        model = _model(path[: length - 1])
        if model is not None:
            for name, field in model.model_fields.items():
                if (field.alias or name) == path[length - 1] and field.description:
                    return f": accepted is {field.description}"
            return ""
    return ""


def line_at(node: Any, path: tuple[Any, ...]) -> int:
    """The line of the field; if it is missing, of the deepest field above it."""
    line = 1 if node is None else line_of(node)
    for part in path:
        if isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in reversed(node.value) if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            entry = (node.value[part], node.value[part])
        else:
            entry = None
        if entry is None:
            return line
        line, node = line_of(entry[0]), entry[1]
    return line
