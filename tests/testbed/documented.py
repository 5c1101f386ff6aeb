"""What the documentation tells people to run and to write: commands and YAML, page by page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "RELEASING.md",
    *(PROJECT / "deploy" / name for name in ("README.md", "argocd/README.md", "chart/README.md")),
    *sorted(page for page in DOCS.rglob("*.md") if "reference" not in page.parts),
]
"""Those that people follow; docs/reference is written from the code."""

_PROGRAMS = "kubectl|cronhpa|helm|make|git|pip|crane|kind|docker|python3|mkdir"
_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"(?:^    [^\n]*\n)(?:^(?:    [^\n]*)?\n)*", re.MULTILINE)
# `cronhpa preview: shop.yaml:9: ...` is what a command says.
_COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{_PROGRAMS}) (?!\S+: ).+")
# In a sentence: a command with something behind its verb. `kubectl patch` and `cronhpa explain --at` name, and tell
# nobody what to type.
_INLINE = re.compile(r"`((?:kubectl|cronhpa|helm) [a-z-]+ [^`]*?)`", re.DOTALL)
_NO_SENTENCE = re.compile(r"kubectl cronhpa [a-z-]+$|cronhpa history import$|.* --[a-z-]+$")

# Commands that test_pages_followed.py does not run on its control plane, and who does, or why nobody can there.
NOT_FOLLOWED = (
    (r"make .*|mkdir .* && make image", "test_documented.py asks make whether it can; CI runs it"),
    (r"kind .*|kubectl apply -f https://.*|kubectl patch deployment metrics-server .*|kubectl top nodes",
     "containers and a kubelet's own metrics are needed, which a machine without an engine has not"),
    (r"git clone .*|python3 -m venv .*|pip install .*", "the network is needed; `make setup` does it from the lock"),
    (r"kubectl cronhpa page.*", "it runs until Ctrl-C: tests/cluster/test_port_forward.py opens it and ends it"),
    (r"helm test .*", "tests/cluster/test_helm_test.py is the kubelet that its pod needs"),
    (r"kubectl apply -k .*", "tests/cluster/test_kustomization_applied.py does, without a trace, beside the release"),
    (r"kubectl delete crd .*", "it takes every object with it, those of the other pages too"),
    (r"crane push .*", "tests/deploy/test_publishing.py pushes to a registry and pulls back"),
    (r"cronhpa history import .* --prometheus .*", "tests/history/imports/test_prometheus.py has a Prometheus to ask"),
    (r"cronhpa run .*", "tests/testbed/operator.py is how each cluster test runs it"),
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A line that a page gives to a shell. page: its path in the project."""

    page: str
    text: str


def commands(page: Path) -> Iterator[Command]:
    """In their order; those within sentences last. Comments behind a command are left out, lines joined."""
    name = str(page.relative_to(PROJECT))
    plain = _FENCE.sub("", page.read_text("utf-8"))
    for block in _BLOCK.findall(plain):
        lines = [line[4:] for line in re.sub(r"\\\n\s*", "", block).splitlines()]
        is_session = any(line.startswith("$ ") for line in lines)
        for line in lines:
            if is_session and not line.startswith("$ "):
                continue
            text = re.split(r"\s{2,}#|\s+# ", line.removeprefix("$ "))[0].strip()
            if _COMMAND.fullmatch(text):
                yield Command(name, text)
    for inline in _INLINE.findall(_BLOCK.sub("", plain)):
        text = " ".join(inline.split())
        if not _NO_SENTENCE.fullmatch(text):
            yield Command(name, text)


@dataclass(frozen=True)
class Block:
    """YAML on a page, fenced or indented."""

    page: str
    text: str


def yaml_blocks(page: Path) -> Iterator[Block]:
    """Whole manifests, and the parts of files that pages show."""
    name, text = str(page.relative_to(PROJECT)), page.read_text("utf-8")
    for fence in _FENCE.finditer(text):
        if fence["language"] == "yaml":
            yield Block(name, fence["text"])
    for block in _BLOCK.findall(_FENCE.sub("", text)):
        lines = [line[4:] for line in block.splitlines()]
        if re.match(r"(- \{)?[a-z][A-Za-z_]*:( |$)", lines[0]):
            yield Block(name, "\n".join(lines) + "\n")


def is_followed(command: Command) -> bool:
    """Whether test_pages_followed.py, and of the tutorial test_tutorial.py, runs it on a real API server."""
    return not any(re.fullmatch(pattern, command.text) for pattern, _ in NOT_FOLLOWED)
