"""`cronhpa convert`: other autoscalers' objects as CronHPA manifests."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cronhpa.cli.documents import UnreadableFileError, as_yaml, read_documents
from cronhpa.cli.lines import complain, fail, say
from cronhpa.core.printable import shortened

File = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE|-", help="YAML or JSON, several documents or a List; - is standard input."),
]


def convert(
    files: File = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write a file for each object to. Default: standard output."),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Time zone of the source's controller, for objects that name none (Aliyun, some of Crane)."),
    ] = None,
    sources: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write the chart values to that define the metric sources needed."),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The Prometheus that exporters of queues and databases are scraped into."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there is any remark.")] = False,
) -> None:
    """
    Convert other autoscalers' objects to CronHPA manifests, and name each field that cannot be carried over.

    Accepted are HorizontalPodAutoscaler (autoscaling/v1, v2beta1, v2beta2, v2), KEDA ScaledObject, Aliyun
    CronHorizontalPodAutoscaler and Crane EffectiveHorizontalPodAutoscaler, as written or as `kubectl get -o yaml`
    prints them. Give related objects in one call, such as jobs on an HPA with that HPA. CronHPAs, workloads and
    Secrets in the input are passed over.

    A query that KEDA asks a Prometheus becomes a named metric source, which the operator asks itself: --sources writes
    the chart values that define it. Scalers of queues and databases become sources on what a Prometheus exporter
    serves if --prometheus names that Prometheus.

    Manifests go to standard output, remarks to standard error, one a line: FILE:OBJECT.FIELD: value: meaning. No
    manifest is made of an object without an equivalent CronHPA.

    Differences without a remark: a window's floor is exact; with KEDA and Crane it is a metric within 10 %.
    The clock decides whether a window is open, so an outage of the controller misses nothing, and a replica count that
    was set by hand lasts until the next reconciliation. A time in a spring gap moves to the first instant after it.

        kubectl get hpa,scaledobject -n prod -o yaml | cronhpa convert - -o out/
        cronhpa convert scaledobject.yaml --sources values.yaml > chpa.yaml

    Exit codes: 0 done; 1 no manifest was made, or --strict and a remark; 2 a file is unreadable.
    """
    from cronhpa.migration.convert import Document
    from cronhpa.migration.convert import convert as converted

    if not files and sys.stdin.isatty():
        raise typer.BadParameter("name files, or pipe objects in: kubectl get hpa -o yaml | ... convert -")
    documents = [Document(str(path), body) for path in files or [Path("-")] for body in _documents(path)]
    found = converted(documents, now=time.time_ns(), zone=time_zone, prometheus=prometheus)
    for remark in found.remarks:
        say(str(remark), err=True)
    if not documents:
        complain("convert", "there is no document in what was given: YAML or JSON objects belong there")
    if output is None:
        if found.manifests:
            typer.echo(as_yaml(found.manifests), nl=False)
    else:
        _write(output, found.manifests)
    _write_sources(sources, found.sources)
    is_whole = not found.remarks and (sources is not None or not found.sources)
    raise typer.Exit(int(not found.manifests or (strict and not is_whole)))


def _write_sources(file: Path | None, sources: Mapping[str, Any]) -> None:
    """The values of the Helm chart that define what the manifests ask for by name."""
    if not sources:
        return
    if file is None:
        complain(
            "convert", f"metric sources are needed ({', '.join(sources)}): --sources FILE writes their chart values"
        )
        return
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(as_yaml(({"sources": dict(sources)},)))
    except OSError as error:
        fail("convert", error, code=2)
    say(str(file), err=True)


def _documents(path: Path) -> Iterator[Any]:
    """The documents of a file; ends the command where they cannot be read."""
    try:
        yield from read_documents(path)
    except UnreadableFileError as error:
        fail("convert", error, code=2)


def _write(folder: Path, manifests: tuple[dict[str, Any], ...]) -> None:
    """A file per object, named after namespace and name; one that exists is not overwritten."""
    try:
        # All names first: a file that is refused leaves nothing half done.
        named = [(f"{_file_name(manifest['metadata'])}.yaml", manifest) for manifest in manifests]
        folder.mkdir(parents=True, exist_ok=True)
        for name, manifest in named:
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(as_yaml((manifest,)))
            say(str(folder / name))
    except OSError as error:
        fail("convert", error, code=2)


_TOLD_MAX = 300
# What the API server takes for the names of these objects and of namespaces.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def _file_name(metadata: dict[str, Any]) -> str:
    """Without its suffix. Raises OSError for what names no object in a cluster: it may be the path of another file."""
    parts = [part for part in (metadata.get("namespace"), metadata["name"]) if part]
    for part in parts:
        if not isinstance(part, str) or _NAME.fullmatch(part) is None:
            raise OSError(
                f"{shortened(str(part), _TOLD_MAX)!r} is no name of a Kubernetes object: "
                "lower-case letters, digits, - and . are accepted, and no file is made of it"
            )
    return ".".join(parts)
