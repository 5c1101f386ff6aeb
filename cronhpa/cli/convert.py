"""`cronhpa convert`: other autoscalers' objects as CronHPA manifests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cronhpa.cli.documents import UnreadableFileError, as_yaml, read_documents
from cronhpa.cli.lines import say

File = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE|-", help="YAML or JSON, several documents or a List; - is the standard input."),
]


def convert(
    files: File = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Directory to write a file per object to. Absent, printed.")
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Zone of the source's controller, for objects that name none (Aliyun; Crane now and then)."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where there is any remark.")] = False,
) -> None:
    """
    Turn other autoscalers' objects into CronHPA manifests, and say line by line what could not be carried over.

    Read are HorizontalPodAutoscaler (autoscaling/v1, v2beta1, v2beta2, v2), KEDA ScaledObject, Aliyun
    CronHorizontalPodAutoscaler and Crane EffectiveHorizontalPodAutoscaler, as written or as `kubectl get -o yaml`
    prints them. Give what belongs together in one call: jobs on an HPA with that HPA, a ScaledObject with the HPA that
    KEDA made of it (it says how KEDA names its metrics).

    Manifests go to the standard output, remarks to stderr, one a line: FILE:OBJECT.FIELD: what was found: what it
    means. What has no honest counterpart is not made.

    What changes on purpose, without a remark for each: a window's floor is exact, where a metric of KEDA or Crane is
    off by up to 10 %. Whether a window is open follows from the clock, so nothing is missed while a controller is
    down, and a count that was set by hand lasts until the next turn. A time that a spring gap skips is the first
    instant after it, and is not lost.

    Exit codes: 0 done; 1 nothing was made, or --strict and a remark; 2 a file cannot be read.
    """
    from cronhpa.migration.convert import Document
    from cronhpa.migration.convert import convert as converted

    documents = [Document(str(path), body) for path in files or [Path("-")] for body in _documents(path)]
    found = converted(documents, now=time.time_ns(), zone=time_zone)
    for remark in found.remarks:
        say(str(remark), err=True)
    if not documents:
        say("cronhpa convert: there is no document in what was given: YAML or JSON objects belong there", err=True)
    if output is None:
        if found.manifests:
            typer.echo(as_yaml(found.manifests), nl=False)
    else:
        _write(output, found.manifests)
    raise typer.Exit(int(not found.manifests or (strict and bool(found.remarks))))


def _documents(path: Path) -> Iterator[Any]:
    """The documents of a file; ends the command where they cannot be read."""
    try:
        yield from read_documents(path)
    except UnreadableFileError as error:
        say(f"cronhpa convert: {error}", err=True)
        raise typer.Exit(2) from error


def _write(folder: Path, manifests: tuple[dict[str, Any], ...]) -> None:
    """A file per object, named after namespace and name; one that exists is not overwritten."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for manifest in manifests:
            name = _file_name(manifest["metadata"])
            with (folder / f"{name}.yaml").open("x", encoding="utf-8") as file:
                file.write(as_yaml((manifest,)))
            say(str(folder / f"{name}.yaml"))
    except OSError as error:
        say(f"cronhpa convert: {error}", err=True)
        raise typer.Exit(2) from error


def _file_name(metadata: dict[str, Any]) -> str:
    """Without its suffix. Raises OSError for a name that leads elsewhere: no object in a cluster has one."""
    name = ".".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    if "/" in name:
        raise OSError(f"{name!r} is no name of a Kubernetes object: it has a slash, and no file is made of it")
    return name
