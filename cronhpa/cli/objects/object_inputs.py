"""The objects that a command is given: files, folders, standard input, names in a cluster, or all of a namespace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cronhpa.cli.objects.cluster import connected, read_all
from cronhpa.cli.objects.manifests import ManifestError, read_specs
from cronhpa.cli.objects.named import label_of, parse_name, read_named
from cronhpa.cli.objects.yaml_documents import STANDARD_INPUT
from cronhpa.core.model.spec import ControllerOptions, Spec

if TYPE_CHECKING:
    from cronhpa.core.model.memory import Memory

_SUFFIXES = (".yaml", ".yml", ".json")
# NAMESPACE/NAME or KIND/NAME, and not ./shop, deploy/ or a/b/c.
_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9.-]*", re.ASCII)


class ObjectLocation(Struct, frozen=True):
    """Where to look for objects: the options of a command."""

    namespace: str | None = None
    """None: the namespace of the context."""
    everywhere: bool = False
    """Whether to look in all namespaces."""
    recursive: bool = False
    """Whether to look in the folders below a folder, too."""
    kubeconfig: str | None = None
    context: str | None = None
    options: ControllerOptions = ControllerOptions()
    """What decides where their specs leave it open."""


class ObjectInput(Struct, frozen=True):
    """An object and its spec."""

    body: Mapping[str, Any]
    spec: Spec
    is_live: bool
    """Whether it was read from a cluster, and its status with it."""

    @property
    def label(self) -> str:
        """Namespace and name, its name alone where no namespace is known."""
        return "/".join(part for part in (self.spec.namespace, self.name) if part)

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def memory(self) -> Memory:
        """The memory in the status; an empty one for a file without a status."""
        from cronhpa.api.status_memory import parse_memory

        status = self.body.get("status")
        return parse_memory(status if isinstance(status, Mapping) else {})


class ObjectInputError(Exception):
    """The objects cannot be read. problems: all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def is_file(what: str, where: ObjectLocation) -> bool:
    """
    Whether a file or folder is meant, and no object's name.

    A word with a suffix of _SUFFIXES means a file; one with a slash if there is such a file, or if it can be no
    NAMESPACE/NAME. Any other word means a file if there is one and no option names a cluster.
    """
    if "/" in what and Path(what).exists():
        return True
    if what == str(STANDARD_INPUT) or what.endswith(_SUFFIXES) or ("/" in what and not _NAMES.fullmatch(what)):
        return True
    return not (where.namespace or where.kubeconfig or where.context) and Path(what).exists()


def find(what: Sequence[str], where: ObjectLocation) -> list[ObjectInput]:
    """
    The objects that are named, files before names; without any all of the namespace, or of all namespaces.

    Raises ObjectInputError with every problem of all of them.
    """
    files = [Path(word) for word in what if is_file(word, where)]
    names = [word for word in what if not is_file(word, where)]
    if names and where.everywhere:
        raise ObjectInputError([f"{names[0]}: -A shows the objects of all namespaces, without names"])
    given, problems = _from_files(files, where) if files else ([], [])
    if names or not files:
        live, unread = _from_cluster(names, where)
        if unread and not live and names and not (where.namespace or where.context):
            unread = [f"there is no file {names[0]}, and from the cluster: {unread[0]}", *unread[1:]]
        given, problems = [*given, *live], [*problems, *unread]
    if problems:
        raise ObjectInputError(problems)
    return given


def objects_in(files: Sequence[Path], where: ObjectLocation) -> list[ObjectInput]:
    """The CronHPA objects of those of the files that hold any. Raises ObjectInputError."""
    from cronhpa.cli.objects.manifests import holds_objects

    holding = [file for file in files if holds_objects([file])]
    given, problems = _from_files(holding, where) if holding else ([], [])
    if problems:
        raise ObjectInputError(problems)
    return given


def find_named(target: str, where: ObjectLocation) -> list[ObjectInput]:
    """
    The object of a cluster that a name means: NAME, NAMESPACE/NAME, chpa/NAME or deploy/NAME.

    Raises ObjectInputError.
    """
    given, problems = _from_cluster([target], where)
    if problems:
        raise ObjectInputError(problems)
    return given


def _from_files(files: Sequence[Path], where: ObjectLocation) -> tuple[list[ObjectInput], list[str]]:
    from msgspec.structs import replace

    try:
        read = read_specs(files, where.options, recursive=where.recursive)
    except ManifestError as error:
        return [], list(error.problems)
    # As with `kubectl apply -n`, the option is the namespace of objects that state none.
    return [
        ObjectInput(
            manifest.body, spec if spec.namespace else replace(spec, namespace=where.namespace or ""), is_live=False
        )
        for manifest, spec in read
    ], []


def _from_cluster(names: Sequence[str], where: ObjectLocation) -> tuple[list[ObjectInput], list[str]]:
    import asyncio

    from cronhpa.api.parse import SpecError, parse_spec
    from cronhpa.kube.errors import ClusterError

    parsed = [parse_name(name, where.namespace) for name in names]

    async def read() -> list[Mapping[str, Any]]:
        async with connected(where.kubeconfig, where.context, where.namespace) as cluster:
            if not names:
                bodies = await read_all(cluster.client, None if where.everywhere else cluster.namespace)
                if not bodies:
                    of = "any namespace" if where.everywhere else f"namespace {cluster.namespace}"
                    raise ObjectInputError(
                        [f"there is no CronHPA in {of}: name a file, or another namespace with -n or -A"]
                    )
                return list(bodies)
            return [await read_named(cluster, name) for name in parsed]

    try:
        bodies = asyncio.run(read())
    except ClusterError as error:
        return [], [str(error)]
    given: list[ObjectInput] = []
    problems: list[str] = []
    for body in bodies:
        try:
            spec = parse_spec(body["spec"], body["metadata"]["namespace"], where.options)
        except SpecError as error:
            problems += [f"{label_of(body)}: {problem}" for problem in error.problems]
        else:
            given.append(ObjectInput(body, spec, is_live=True))
    return given, problems
