"""The files of the page: read once, served from memory. Their paths hold a digest of all files, so none goes stale."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from msgspec import Struct

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(Struct, frozen=True):
    content_type: str
    body: bytes


class Assets(Struct, frozen=True):
    index: bytes
    """The one document."""
    items: dict[str, Asset]
    """The other files by name."""
    digest: str
    """Digest of all files."""


def load_assets(mode: str) -> Assets:
    """mode: how callers prove who they are; the page's sign-in form depends on it."""
    folder = files("cronhpa.page").joinpath("static")
    contents = sorted((file.name, file.read_bytes()) for file in folder.iterdir() if file.is_file())
    digest = hashlib.blake2b(digest_size=8)
    for name, body in contents:
        digest.update(name.encode() + b"\0" + body)
    items = {name: Asset(_TYPES[name[name.rindex(".") :]], body) for name, body in contents}
    templates = Environment(
        loader=PackageLoader("cronhpa.page"), autoescape=select_autoescape(), undefined=StrictUndefined
    )
    index = templates.get_template("index.html").render(digest=digest.hexdigest(), mode=mode)
    return Assets(index.encode(), items, digest.hexdigest())
