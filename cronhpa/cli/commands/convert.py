"""`cronhpa convert`: other autoscalers' objects as CronHPA manifests."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cronhpa.cli.objects.cluster import Context, Kubeconfig, connected
from cronhpa.cli.objects.yaml_documents import UnreadableFileError, as_yaml, read_each
from cronhpa.cli.terminal.console import complain, fail, say
from cronhpa.core.model.printable import shortened

File = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE|-", help="YAML or JSON, several documents or a List; - is standard input."),
]


def convert(  # noqa: PLR0913, PLR0917 - the options of a command
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
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Without files: read the autoscalers of this namespace of a cluster.",
        ),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Without files: read those of all namespaces.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there is any remark.")] = False,
) -> None:
    """
    Convert other autoscalers' objects to CronHPA manifests, and name each field that cannot be carried over.

    Accepted are HorizontalPodAutoscalers (autoscaling/v1, v2beta1, v2beta2, v2), KEDA ScaledObjects, the cron HPAs of
    Aliyun, tkestack, Huawei CCE, dtaniwaki and d-kuro, and what Crane, Kapacity, PHPA, Zalando, kube-downscaler,
    kube-green, AWS and Google Cloud have: docs/reference/conversion.md says which objects, and what becomes of each.
    Give related objects in one call, or name a namespace of a cluster.

    Prometheus queries of KEDA and URLs of metrics-api triggers become metric sources: --sources writes the chart values
    that define them. Scalers of queues and databases do if --prometheus names the Prometheus that scrapes an exporter.

    Manifests go to standard output, remarks to standard error, one a line: FILE:OBJECT.FIELD: value: meaning. No
    manifest is made of an object without an equivalent CronHPA.

    docs/migrating.md names the differences without a remark.

        cronhpa convert -n prod -o out/ --sources values.yaml
        kubectl get hpa,scaledobject -n prod -o yaml | cronhpa convert - -o out/
        cronhpa convert scaledobject.yaml --sources values.yaml > chpa.yaml

    Exit codes: 0 done; 1 no manifest was made, or --strict and a remark or a source without --sources; 2 a
    file or a document in it is unreadable, a file exists already (the others are made), or the cluster does not answer.
    """
    from cronhpa.migration.convert import Document
    from cronhpa.migration.convert import convert as converted

    unreadable: list[UnreadableFileError] = []
    if namespace is not None or everywhere:
        if files:
            raise typer.BadParameter("files and a namespace: name one of them")
        documents = [
            Document("cluster", body) for body in _of_cluster(None if everywhere else namespace, kubeconfig, context)
        ]
    else:
        if not files and sys.stdin.isatty():
            raise typer.BadParameter(
                "name files or a namespace, or pipe objects in: kubectl get hpa -o yaml | ... convert -"
            )
        read = [(str(path), body) for path in files or [Path("-")] for body in read_each(path)]
        unreadable = [body for _, body in read if isinstance(body, UnreadableFileError)]
        for problem in unreadable:
            complain("convert", str(problem))
        documents = [Document(name, body) for name, body in read if not isinstance(body, UnreadableFileError)]
    conversion = converted(documents, now=time.time_ns(), zone=time_zone, prometheus=prometheus)
    for remark in conversion.remarks:
        say(str(remark), err=True)
    if not (conversion.manifests or conversion.remarks or unreadable):
        complain(
            "convert",
            "nothing to convert was found: docs/reference/conversion.md names the kinds that are read; CronHPAs, and "
            "objects that scale nothing, are passed over"
            if documents
            else "there is no document in what was given: YAML or JSON objects belong there; kubectl prints none if it "
            "does not know one of the kinds, and -n NAMESPACE reads those that there are",
        )
    is_written = True
    if output is not None:
        is_written = _write(output, conversion.manifests)
    elif conversion.manifests:
        typer.echo(_as_yaml(conversion.manifests), nl=False)
    _write_sources(sources, conversion.sources)
    is_whole = not conversion.remarks and (sources is not None or not conversion.sources)
    raise typer.Exit(2 if unreadable or not is_written else int(not conversion.manifests or (strict and not is_whole)))


def _write_sources(file: Path | None, sources: Mapping[str, Any]) -> None:
    """Writes the chart values that define the metric sources of the manifests, or says that they are needed."""
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


def _of_cluster(namespace: str | None, kubeconfig: str | None, context: str | None) -> list[dict[str, Any]]:
    """The autoscalers of a cluster; ends the command if the cluster does not answer."""
    from cronhpa.cli.objects.live_autoscalers import read_autoscalers
    from cronhpa.kube.errors import ClusterError

    async def read() -> tuple[list[dict[str, Any]], list[str]]:
        async with connected(kubeconfig, context, namespace) as cluster:
            return await read_autoscalers(cluster.client, namespace)

    try:
        bodies, missing = asyncio.run(read())
    except ClusterError as error:
        fail("convert", error, code=2)
    if missing:
        say(f"not in this cluster: {', '.join(missing)}", err=True)
    return bodies


def _as_yaml(manifests: tuple[dict[str, Any], ...]) -> str:
    """The manifests as YAML, with a comment above each schedule that is always open."""
    return _ALWAYS.sub(r"\1# Always open: a window of two days begins every day.\n\g<0>", as_yaml(manifests))


def _write(folder: Path, manifests: tuple[dict[str, Any], ...]) -> bool:
    """
    Writes a file for each object, named after namespace and name; an existing file is not overwritten.

    Returns whether all were written. One that cannot be is named, and the others are.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail("convert", error, code=2)
    is_whole = True
    for manifest in manifests:
        try:
            file = folder / f"{_file_name(manifest['metadata'])}.yaml"
            with file.open("x", encoding="utf-8") as out:
                out.write(_as_yaml((manifest,)))
            say(str(file))
        except FileExistsError:
            complain("convert", f"{file}: it exists, and is left as it is: this CronHPA is not written")
            is_whole = False
        except OSError as error:
            complain("convert", str(error))
            is_whole = False
    return is_whole


# As cronhpa.migration.documents.manifest.ALWAYS is written.
_ALWAYS = re.compile(r"^( *)- name: .*\n\1  start: '@daily'\n\1  durationMinutes: 2880\n", re.MULTILINE)
_TOLD_MAX = 300
# Names of these objects and of namespaces that the API server accepts.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def _file_name(metadata: dict[str, Any]) -> str:
    """The name of a file, without suffix. Raises OSError for a text that is no object's name: it may be a path."""
    parts = [part for part in (metadata.get("namespace"), metadata["name"]) if part]
    for part in parts:
        if not isinstance(part, str) or _NAME.fullmatch(part) is None:
            raise OSError(
                f"{shortened(str(part), _TOLD_MAX)!r} is no name of a Kubernetes object: "
                "lower-case letters, digits, - and . are accepted, and no file is made of it"
            )
    return ".".join(parts)
