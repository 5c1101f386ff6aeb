"""
.github/workflows/release.yaml: the shell steps of its jobs `publish` and `site`, run as they are written.

The quick tests have empty artifacts and programs that only note what they are asked. The long ones rehearse a release:
what it builds, the real crane, helm, cosign and uv, a registry and a package index on this machine; instead of GitHub's
identity cosign has a key.
"""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import hashlib
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import packaged_chart
import plugin
import pytest
import release
import yaml

from testbed import build
from testbed.wait import wait_until

PROJECT = Path(__file__).parents[2]
WORKFLOW = yaml.safe_load((PROJECT / ".github" / "workflows" / "release.yaml").read_text("utf-8"))
(VERSION,) = release.stated_versions()
PLUGINS = [f"kubectl-cronhpa-{system}-{architecture}.tar.gz" for system, architecture in plugin.PLATFORMS]
# Notes its name and arguments, a line a call. `gh run download` brings the artifacts; what else is named must be there.
NOTED = """#!/bin/bash
echo "${0##*/} $*" >> "$CALLS"
case "${0##*/} $1 $2" in
  "gh run download") cp -r "$BUILT" artifacts ;;
  "gh release create") shift 8; for each in "$@"; do test -e "$each" || exit 9; done ;;
  "crane push "*) test -d "$2" && echo "$3@sha256:0" ;;
  "crane digest"*) echo sha256:1 ;;
  "cosign attest"*) test -f "$6" ;;
  "helm push"*) test -f "$2" ;;
esac
"""
SHIMS = ("gh", "go", "uv", "python", "crane", "cosign", "helm")
# What a registry on this machine needs beside what the workflow says.
REAL = {
    "helm": '#!/bin/bash\nexec {helm} "$@" --plain-http\n',
    "crane": '#!/bin/bash\nexec {crane} "$@"\n',
    "cosign": (
        '#!/bin/bash\nexec {cosign} "$1" --key "$KEY" --tlog-upload=false --use-signing-config=false "${{@:2}}"\n'
    ),
}


def run_steps(folder, image, programs, job="publish", **environment):
    """Runs each shell step of a job as GitHub does; what they have put into $GITHUB_OUTPUT."""
    for name in ("bootstrap.lock", "CHANGELOG.md"):
        shutil.copy(PROJECT / name, folder)
    (folder / "output").touch()
    stated = {
        "PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "GITHUB_RUN_ID": "7", "GITHUB_REPOSITORY": "a/b",
        "GITHUB_REF_NAME": f"v{VERSION}", "GITHUB_ACTOR": "somebody", "GH_TOKEN": "token", "IMAGE": image,
        "GITHUB_OUTPUT": str(folder / "output"), "CALLS": str(folder / "calls"), **environment,
    }  # fmt: skip
    for step in WORKFLOW["jobs"][job]["steps"]:
        if "run" in step:
            ended = subprocess.run(
                ["bash", "-e", "-c", step["run"]],
                cwd=folder, env=stated, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert 0 == ended.returncode, f"{step['run']}\n{ended.stdout}{ended.stderr}"
    return dict(line.split("=", 1) for line in (folder / "output").read_text().splitlines())


def written(programs, texts):
    programs.mkdir(exist_ok=True)
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return programs


def test_each_step_finds_what_a_release_has_built(tmp_path):
    folder, built = tmp_path / "checkout", tmp_path / "built"
    folder.mkdir()
    for name in (f"cronhpa-{VERSION}", f"cronhpa-{VERSION}-slim", "artifacthub"):
        (built / name).mkdir(parents=True)
    files = (
        f"cronhpa-{VERSION}-py3-none-any.whl", f"cronhpa-{VERSION}.tar.gz", f"cronhpa-{VERSION}.tgz", "sbom.json",
        *PLUGINS, "krew.yaml", "cronhpa.rb", "cronhpa-crd.yaml", f"debian-{VERSION}.tar",
        "cronhpa-crd-kubernetes-1.30.yaml", "sbom-slim.json",
    )  # fmt: skip
    for name in files:
        (built / name).touch()
    empty = hashlib.sha256(b"").hexdigest()
    (built / "SHA256SUMS").write_text("".join(f"{empty}  {name}\n" for name in files))
    programs = written(tmp_path / "bin", dict.fromkeys(SHIMS, NOTED))

    outputs = run_steps(folder, "ghcr.io/cronhpa/cronhpa", programs, BUILT=str(built))

    assert {"image": "sha256:0", "image-slim": "sha256:0"} == outputs
    calls = (folder / "calls").read_text()
    assert f"cosign sign --yes --recursive ghcr.io/cronhpa/cronhpa:{VERSION}@sha256:0\n" in calls
    assert "cosign sign --yes ghcr.io/cronhpa/charts/cronhpa@sha256:1\n" in calls
    page = next(line for line in calls.splitlines() if line.startswith("gh release create"))
    assert [] == [name for name in (*files, "SHA256SUMS") if name not in page]
    assert (folder / "notes.md").read_text().startswith("## ")


def test_the_site_of_a_release_joins_those_of_former_ones_on_the_branch_that_is_served(tmp_path):
    """GitHub is a repository on this machine, which has no such branch at first."""
    hub, built = tmp_path / "github" / "a" / "b", tmp_path / "built"
    git = ["git", "-C", str(hub)]
    hub.mkdir(parents=True)
    subprocess.run([*git, "init", "--quiet", "--bare"], check=True)
    redirected = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{hub.parents[1]}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://x-access-token:token@github.com/",
    }
    programs = written(tmp_path / "bin", {"gh": '#!/bin/bash\ncp -r "$BUILT" site\n'})
    (programs / "python3").symlink_to(sys.executable)
    for version, minor in (("0.1.0", "0.1"), ("0.2.0", "0.2")):
        checkout = tmp_path / version
        checkout.mkdir()
        (checkout / "deploy").symlink_to(PROJECT / "deploy")
        shutil.rmtree(built, ignore_errors=True)
        built.mkdir()
        (built / "index.html").write_text(version)
        run_steps(checkout, "", programs, "site", BUILT=str(built), GITHUB_REF_NAME=f"v{version}", **redirected)
        assert version == subprocess.check_output([*git, "show", f"gh-pages:{minor}/index.html"], text=True)

    names = subprocess.check_output([*git, "ls-tree", "--name-only", "gh-pages"], text=True).split()
    assert {".nojekyll", "0.1", "0.2", "index.html", "latest", "versions.json"} == set(names)
    assert "0.2.0" == subprocess.check_output([*git, "show", "gh-pages:latest/index.html"], text=True)


def test_nothing_is_published_that_was_not_tested_and_what_follows_is_of_what_was_published():
    jobs = WORKFLOW["jobs"]

    assert "./.github/workflows/ci.yaml" == jobs["test"]["uses"]
    assert {"test", "build"} == set(jobs["publish"]["needs"])
    assert {"publish"} == {jobs["install"]["needs"], jobs["mac"]["needs"]}
    assert "install" == jobs["site"]["needs"]
    assert {"install", "mac"} == set(jobs["krew"]["needs"])


def test_provenance_is_attested_for_what_was_pushed():
    steps = WORKFLOW["jobs"]["publish"]["steps"]
    attested = [step["with"] for step in steps if "attest-build-provenance" in step.get("uses", "")]

    assert {"${{ steps.publish.outputs.image }}", "${{ steps.publish.outputs.image-slim }}"} == {
        step["subject-digest"] for step in attested if step.get("push-to-registry")
    }
    assert ["artifacts/*"] == [step["subject-path"] for step in attested if "subject-path" in step]


@contextlib.contextmanager
def registry(folder):
    """A registry on this machine; its host and port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    (folder / "registry").mkdir()
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [build.crane(), "registry", "serve", "--address", f"127.0.0.1:{port}", "--disk", folder / "registry"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:

        def answers():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True

        wait_until(answers, within_s=20)
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    """What a release builds, but for the plugin, which no registry takes."""
    built = tmp_path_factory.mktemp("release") / "artifacts"
    subprocess.run(["make", "sbom"], cwd=PROJECT, check=True)
    release.build(built, helm=str(build.binaries() / "helm"), skipped={"plugin"})
    for name in (*PLUGINS, "krew.yaml", "cronhpa.rb"):
        (built / name).touch()
    return built


class Publisher:
    """Publishes artifacts to a registry on this machine; what `real` does not name only takes notes."""

    def __init__(self, folder, artifacts, host, real):
        self.folder, self.image, self.chart = folder, f"{host}/cronhpa/cronhpa", f"{host}/cronhpa/charts/cronhpa"
        texts = {name: REAL[name].format(**{name: program}) for name, program in real.items()}
        programs = written(folder / "bin", dict.fromkeys(SHIMS, NOTED) | texts)
        self._keys = {"COSIGN_PASSWORD": "", "KEY": str(folder / "cosign.key"), "HOME": str(folder)}
        self._path = f"{programs}:/usr/bin:/bin"
        if "cosign" in real:
            self.told(real["cosign"], "generate-key-pair")
        (folder / "checkout").mkdir()
        self.outputs = run_steps(folder / "checkout", self.image, programs, BUILT=str(artifacts), **self._keys)

    def told(self, *command):
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env={"PATH": self._path, **self._keys},
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == ended.returncode, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def references(self):
        """Both images by digest, and the chart."""
        chart = self.told("crane", "digest", f"{self.chart}:{VERSION}").strip()
        return [*(f"{self.image}@{digest}" for digest in self.outputs.values()), f"{self.chart}@{chart}"]


@pytest.mark.long
@pytest.mark.cluster
def test_what_is_pulled_back_is_what_was_built(tmp_path, artifacts):
    """Takes minutes: both images for both architectures."""
    with registry(tmp_path) as host:
        publisher = Publisher(
            tmp_path, artifacts, host, {"helm": build.binaries() / "helm", "crane": build.crane()}
        )  # fmt: skip
        for variant in ("", "-slim"):
            tag, layout, pulled = f"{VERSION}{variant}", artifacts / f"cronhpa-{VERSION}{variant}", f"pulled{variant}"
            digest = index_digest(layout)
            assert digest == publisher.outputs[f"image{variant}"]
            assert digest == publisher.told("crane", "digest", f"{publisher.image}:{tag}").strip()
            publisher.told("crane", "validate", "--remote", f"{publisher.image}@{digest}")
            publisher.told("crane", "pull", "--format", "oci", f"{publisher.image}@{digest}", pulled)
            assert digest == index_digest(tmp_path / pulled)
        publisher.told("helm", "pull", f"oci://{publisher.chart}", "--version", VERSION)
        # What Artifact Hub asks for lies beside the chart.
        assert (
            index_digest(artifacts / "artifacthub")
            == publisher.told("crane", "digest", f"{publisher.chart}:artifacthub.io").strip()
        )

    package = f"cronhpa-{VERSION}.tgz"
    assert (artifacts / package).read_bytes() == (tmp_path / package).read_bytes()


@pytest.mark.long
@pytest.mark.cluster
def test_the_published_chart_runs_the_image_that_was_published(tmp_path, artifacts):
    """As `helm install oci://...` would, with a registry on this machine in place of ghcr.io."""
    with registry(tmp_path) as host:
        image = f"{host}/cronhpa/cronhpa"
        folder = tmp_path / "artifacts"
        shutil.copytree(artifacts, folder, copy_function=os.link)
        digest = index_digest(folder / f"cronhpa-{VERSION}")
        (folder / f"cronhpa-{VERSION}.tgz").unlink()
        packaged_chart.package(folder, helm=str(build.binaries() / "helm"), image=image, digest=digest)
        sums = subprocess.check_output(["sha256sum", *(each.name for each in release.published(folder))], cwd=folder)
        sums = b"".join(line for line in sums.splitlines(True) if b"SHA256SUMS" not in line)
        (folder / "SHA256SUMS").unlink()  # a link to the one of the other tests
        (folder / "SHA256SUMS").write_bytes(sums)
        publisher = Publisher(tmp_path, folder, host, {"helm": build.binaries() / "helm", "crane": build.crane()})
        rendered = publisher.told("helm", "template", "cronhpa", f"oci://{publisher.chart}", "--version", VERSION)
        (run,) = {line.split()[-1].strip('"') for line in rendered.splitlines() if re.match(r"\s+image: ", line)}

        assert f"{image}@{digest}" == run
        assert digest == publisher.told("crane", "digest", run).strip()
        platforms = json.loads(publisher.told("crane", "manifest", run))["manifests"]
        assert ["amd64", "arm64"] == sorted(each["platform"]["architecture"] for each in platforms)


class Index(http.server.BaseHTTPRequestHandler):
    """A package index: takes what `uv publish` uploads, and lists it as pip asks for it."""

    folder: Path

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        form = email.message_from_bytes(
            b"Content-Type: " + self.headers["Content-Type"].encode() + b"\r\n\r\n" + body, policy=email.policy.HTTP
        )
        for part in form.iter_parts():
            if name := part.get_filename():
                (self.folder / name).write_bytes(part.get_payload(decode=True))
        self.send_response(200)
        self.end_headers()

    def do_HEAD(self):
        self.do_GET(is_asked_for_more=False)

    def do_GET(self, *, is_asked_for_more=True):
        file = self.folder / Path(self.path).name
        links = "".join(
            f'<a href="/files/{each.name}">{each.name}</a>' for each in sorted(self.folder.iterdir())
        ).encode()
        content = file.read_bytes() if file.is_file() else links
        self.send_response(200 if file.is_file() or self.path.rstrip("/").endswith("/cronhpa") else 404)
        self.send_header("Content-Type", "application/octet-stream" if file.is_file() else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if is_asked_for_more:
            self.wfile.write(content)

    def log_message(self, *words):
        pass


@pytest.fixture
def index(tmp_path):
    """The address of a package index on this machine, and the folder of what was uploaded."""
    Index.folder = tmp_path / "index"
    Index.folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", Index.folder
        server.shutdown()


@pytest.mark.long
def test_the_commands_install_from_the_index_that_they_were_published_to_and_run(tmp_path, index):
    """The step of the workflow, by the real uv, with another address and identity. Dependencies are from PyPI."""
    address, uploaded = index
    built, checkout = tmp_path / "artifacts", tmp_path / "checkout"
    release.build(built, helm="helm", skipped={*release.STEPS} - {"wheel"})
    shutil.copytree(built, checkout / "artifacts")
    uv = Path(sys.executable).with_name("uv")
    # The last words of the step are the files.
    publish = f'#!/bin/bash\nexec {uv} publish --publish-url {address}/legacy/ --username a --password b "${{@: -2}}"\n'
    programs = written(tmp_path / "bin", {"uv": publish, "python": NOTED})
    (step,) = [each for each in WORKFLOW["jobs"]["publish"]["steps"] if "uv publish" in each.get("run", "")]
    subprocess.run(
        ["bash", "-ec", step["run"]], cwd=checkout, check=True,
        env={"PATH": f"{programs}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls"), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert {each.name for each in built.iterdir()} - {"SHA256SUMS"} == {each.name for each in uploaded.iterdir()}

    subprocess.run([sys.executable, "-m", "venv", tmp_path / "user"], check=True)
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", tmp_path / "user" / "bin" / "python",
         "--index", f"{address}/simple", f"cronhpa=={VERSION}"],
        check=True,
    )  # fmt: skip
    said = subprocess.check_output([tmp_path / "user" / "bin" / "cronhpa", "--version"], text=True)
    assert VERSION in said


@pytest.mark.long
@pytest.mark.cluster
def test_what_is_pushed_is_signed_and_says_what_is_in_it(tmp_path, artifacts):
    """The first run builds cosign, which takes minutes."""
    real = {"helm": build.binaries() / "helm", "crane": build.crane(), "cosign": build.cosign()}
    with registry(tmp_path) as host:
        publisher = Publisher(tmp_path, artifacts, host, real)
        cosign, offline = str(build.cosign()), "--insecure-ignore-tlog=true"
        image, slim, chart = publisher.references()
        for reference in (image, slim, chart):
            publisher.told(cosign, "verify", "--key", "cosign.pub", offline, reference)
        for reference, name in ((image, "sbom.json"), (slim, "sbom-slim.json")):
            sbom = json.loads((artifacts / name).read_text())
            attested = publisher.told(
                cosign, "verify-attestation", "--type", "cyclonedx", "--key", "cosign.pub", offline, reference
            )
            assert sbom == json.loads(base64.b64decode(json.loads(attested)["payload"]))["predicate"]
        publisher.told(cosign, "generate-key-pair", "--output-key-prefix", "other")
        with pytest.raises(AssertionError, match="signature"):
            publisher.told(cosign, "verify", "--key", "other.pub", offline, image)


def index_digest(layout):
    return json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
