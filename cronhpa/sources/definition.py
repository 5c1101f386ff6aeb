"""
The file of sources, checked as a whole. The operator's administrator writes it; no tenant's text stands in it.

Each source is one of `prometheus`, `pods` and `url`, and has a name by which the metrics of objects ask for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from cronhpa.core.printable import printable, shortened, without_url_secrets
from cronhpa.history.prometheus import PrometheusError, prometheus_url
from cronhpa.history.promql import MetricName, QueryError, QueryTemplate
from cronhpa.kube.yaml_loader import Loader, line_of
from cronhpa.sources.url_template import UrlTemplate, checked_path
from cronhpa.sources.value_path import ValuePath

# A ConfigMap holds 1 MiB.
BYTES_MAX = 2**20
_NODES_MAX = 50_000
_INPUT_MAX = 200
_LABEL = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
_METRIC = r"^[a-zA-Z_:][a-zA-Z0-9_:]*$"
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_PORT_MAX = 65535
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]{0,4096}")
# The operator states these itself.
_OWN_HEADERS = {"authorization", "connection", "content-length", "content-type", "cookie", "host", "transfer-encoding"}


class SourcesError(ValueError):
    """What is wrong with a file of sources. problems: one a line, each with where, what was found, what is accepted."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def _as_url(text: str) -> str:
    try:
        url = prometheus_url(text)
    except PrometheusError as problem:
        raise ValueError(str(problem)) from None
    if url.user is not None or url.password is not None:
        raise ValueError("it holds a user or a password: username and passwordFile are for that")
    return text.rstrip("/")


def _as_template(template: Callable[[str], object]) -> AfterValidator:
    """Accepts a text that this kind of template can be made of."""

    def check(text: str) -> str:
        try:
            template(text)
        except QueryError as problem:
            raise ValueError(str(problem)) from None
        return text

    return AfterValidator(check)


def _as_headers(headers: dict[str, Any]) -> dict[str, Any]:
    for name, value in headers.items():
        # Of a file only the name is known here.
        if not _HEADER_NAME.fullmatch(name) or not (isinstance(value, Path) or _HEADER_VALUE.fullmatch(value)):
            raise ValueError(f"{name!r} is no header of one line")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(
                f"{name} is the operator's own to state: tokenFile, username and passwordFile are for logins"
            )
    return headers


def _as_port(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("it is no port")  # noqa: TRY004 - pydantic tells of ValueErrors
    if isinstance(value, int) and 1 <= value <= _PORT_MAX:
        return value
    if isinstance(value, str) and _PORT_NAME.fullmatch(value):
        return value
    raise ValueError("it is no port")


def _as_value_path(text: str) -> str:
    ValuePath(text)
    return text


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=False, strict=False
    )


class _Tls(_Strict):
    """The authorities whose certificates are trusted, and the operator's own certificate."""

    ca_file: Path | None = Field(
        None, description="a PEM file: the authorities that are trusted instead of the system's"
    )
    cert_file: Path | None = Field(None, description="a PEM file: the operator's own certificate (mTLS)")
    key_file: Path | None = Field(None, description="a PEM file: the key of certFile")
    server_name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,253}$",
        description="the name in the server's certificate, where the URL's differs",
    )

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(file for file in (self.ca_file, self.cert_file, self.key_file) if file is not None)

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("certFile and keyFile go together: name both or none")
        return self


class _Asked(_Tls):
    """The operator's login and headers, and its deadline."""

    timeout_seconds: float = Field(5, gt=0, le=30, description="a number of seconds, more than 0, at most 30")
    max_age_seconds: int = Field(120, ge=1, le=3600, description="a whole number of seconds from 1 to 3600")
    token_file: Path | None = Field(None, description="a file with a bearer token")
    username: str | None = Field(None, pattern=r"^[^:\x00-\x1f\x7f]+$", description="a user name without a colon")
    password_file: Path | None = Field(None, description="a file with the password of username")
    headers: Annotated[dict[str, str], AfterValidator(_as_headers)] = Field(
        {}, description="further headers, such as X-Scope-OrgID: shop"
    )
    header_files: Annotated[dict[str, Path], AfterValidator(_as_headers)] = Field(
        {}, description="further headers that are secret, each with the file of its value, such as X-API-KEY: /FILE"
    )

    @model_validator(mode="after")
    def _has_one_login(self) -> Self:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and passwordFile go together: name both or none")
        if self.username is not None and self.token_file is not None:
            raise ValueError("it has two logins: name tokenFile, or username and passwordFile")
        if twice := {name.lower() for name in self.headers} & {name.lower() for name in self.header_files}:
            raise ValueError(f"{min(twice)} stands in headers and in headerFiles: name it once")
        return self


class PrometheusSource(_Asked):
    """One number for each object, by an instant query."""

    query: Annotated[str, _as_template(QueryTemplate)] = Field(
        min_length=1,
        max_length=16_384,
        description="PromQL; $namespace, $name, $kind, $target and $metric within the quotes of label matchers",
    )
    url: Annotated[str, AfterValidator(_as_url)] | None = Field(
        None, description="http(s)://HOST:PORT/PATH of a Prometheus; absent: CRONHPA_PROMETHEUS_URL"
    )
    join: dict[Literal["namespace", "name", "kind", "target"], Annotated[str, Field(pattern=_LABEL)]] = Field(
        {}, description="a label of the answer's series for namespace, name, kind or target of the object"
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.join and "namespace" not in self.join and "namespace" not in QueryTemplate(self.query).names:
            raise ValueError(
                "join names no label of the namespace: objects of one name in two namespaces would get each other's "
                'numbers; add namespace: LABEL, or namespace="$namespace" to the query'
            )
        return self


class PodsSource(_Tls):
    """One number for each ready pod of the target, read from the pods themselves."""

    port: Annotated[int | str, BeforeValidator(_as_port)] = Field(
        description="a number from 1 to 65535, or the name of a container's port"
    )
    metric: str = Field(
        pattern=_METRIC,
        max_length=253,
        description="the name of a sample, such as requests_total",
    )
    path: Annotated[str, AfterValidator(checked_path)] = Field("/metrics", description="a path that begins with /")
    scheme: Literal["http", "https"] = Field("http", description="http or https")
    labels: dict[Annotated[str, Field(pattern=_LABEL)], str] = Field(
        {}, description="labels with the values that a sample must have to count"
    )
    combine: Literal["sum", "average", "max"] = Field(
        "sum", description="sum, average or max: how the samples of one pod become its number"
    )
    timeout_seconds: float = Field(1, gt=0, le=10, description="a number of seconds, more than 0, at most 10")
    max_age_seconds: int = Field(120, ge=1, le=3600, description="a whole number of seconds from 1 to 3600")
    pod_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (), description="networks such as 10.0.0.0/8 in which every pod's IP must lie"
    )


class UrlSource(_Asked):
    """One number for each object, from an HTTP endpoint that answers with one."""

    url: Annotated[str, _as_template(UrlTemplate)] = Field(
        max_length=4096,
        description="http(s)://HOST:PORT/PATH?QUERY; $namespace, $name, $kind, $target and $metric behind the host",
    )
    format: Literal["json", "yaml", "text", "prometheus"] = Field(
        "json", description="json, yaml, text (the number alone) or prometheus (a page of a text format)"
    )
    value: Annotated[str, AfterValidator(_as_value_path)] | None = Field(
        None, description="for json and yaml: the path of the number, such as queues.0.length"
    )
    metric: str | None = Field(
        None, pattern=_METRIC, max_length=253, description="for prometheus: the name of a sample, such as queue_length"
    )
    labels: dict[Annotated[str, Field(pattern=_LABEL)], str] = Field(
        {}, description="for prometheus: labels with the values that a sample must have to count"
    )
    combine: Literal["sum", "average", "max"] | None = Field(
        None, description="for prometheus: sum, average or max of several samples; absent: there must be one"
    )

    @model_validator(mode="after")
    def _has_place(self) -> Self:
        wanted = {"text": set(), "prometheus": {"metric"}}.get(self.format, {"value"})
        allowed = wanted | ({"labels", "combine"} if self.format == "prometheus" else set())
        stated = {field for field in ("value", "metric", "labels", "combine") if getattr(self, field)}
        if wanted - stated:
            raise ValueError(f"format {self.format} needs {min(wanted)}: it says where the number stands")
        if stated - allowed:
            raise ValueError(f"{min(stated - allowed)} means nothing with format {self.format}: leave it out")
        return self


Definition = PrometheusSource | PodsSource | UrlSource


class _Named(_Strict):
    prometheus: PrometheusSource | None = None
    pods: PodsSource | None = None
    url: UrlSource | None = None

    @property
    def definitions(self) -> list[Definition]:
        return [source for source in (self.prometheus, self.pods, self.url) if source is not None]

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if len(self.definitions) != 1:
            raise ValueError("exactly one of prometheus, pods and url is accepted")
        return self


def _as_name(text: str) -> str:
    try:
        MetricName(text)
    except QueryError as problem:
        raise ValueError(str(problem)) from None
    return text


class _File(_Strict):
    sources: dict[Annotated[str, AfterValidator(_as_name)], _Named] = Field(
        description="sources by name, such as requests: {prometheus: {query: ...}}"
    )


def parse_sources(text: str, where: str, *, default_url: str | None = None) -> dict[str, Definition]:
    """
    The sources of a file by name.

    where: the file's name in errors. default_url: the Prometheus of sources without a `url`.
    Raises SourcesError with every problem, each with its line.
    """
    body, node, repeated = _loaded(text, where)
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
        (definition,) = source.definitions
        if isinstance(definition, PrometheusSource) and definition.url is None:
            if default_url is None:
                problems.append(
                    f"{where}:{_line(node, ('sources', name, 'prometheus'))}: sources.{name}.prometheus: it has no "
                    "url, and CRONHPA_PROMETHEUS_URL names none either: state one of them"
                )
                continue
            definition = definition.model_copy(update={"url": default_url.rstrip("/")})
        definitions[name] = definition
    if problems:
        raise SourcesError(tuple(problems))
    return definitions


def _loaded(text: str, where: str) -> tuple[Any, Any, list[Any]]:
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
        said = getattr(error, "problem", None) or str(error)
        raise SourcesError((f"{where}{at}: {' '.join(str(said).split())}: one YAML document is accepted",)) from None


def _told(error: ErrorDetails, node: Any, where: str) -> str:
    """`FILE:LINE: FIELD: what was found: what is wrong: what is accepted`."""
    path = tuple(part for part in error["loc"] if part != "[key]")
    # pydantic adds the branch of a union to the path; no field of the file has such a name.
    path = tuple(part for part in path if not isinstance(part, str) or "[" not in part)
    field = ".".join(("", *map(str, path)))[1:] or "the file"
    kind, message = error["type"], error["msg"].removeprefix("Value error, ")
    if kind in {"model_type", "dict_type"}:
        message = "fields by name are accepted here"
    line = _line(node, path)
    if kind == "missing":
        return f"{where}:{line}: {field}: it is missing{_accepted(path)}"
    if kind == "extra_forbidden":
        fields = ", ".join(_fields(path[:-1]))
        return f"{where}:{line}: {field}: there is no such field: {fields} are accepted"
    value = error["input"]
    shown = (
        ""
        if isinstance(value, dict | BaseModel)
        else f"{printable(shortened(without_url_secrets(repr(value)), _INPUT_MAX))}: "
    )
    return f"{where}:{line}: {field}: {shown}{message}{_accepted(path)}"


def _model(path: tuple[Any, ...]) -> type[BaseModel] | None:
    """The model whose fields stand below a path."""
    models: dict[int, type[BaseModel]] = {0: _File, 2: _Named}
    if len(path) == 3:  # noqa: PLR2004 - sources, name, kind
        kinds: dict[str, type[BaseModel]] = {"prometheus": PrometheusSource, "pods": PodsSource, "url": UrlSource}
        return kinds.get(str(path[2]))
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


def _line(node: Any, path: tuple[Any, ...]) -> int:
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
