"""deploy/debian.py: which packages the base is made of, where they are looked for, and what of them is believed."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import debian
import pytest

CONTENT = b"a package"
SHA256, SHA1 = hashlib.sha256(CONTENT).hexdigest(), hashlib.sha1(CONTENT).hexdigest()
PACKAGE = debian.Package("libc6", "2.36", "amd64", SHA256, SHA1, "debian/pool/main/g/glibc/libc6_2.36_amd64.deb")


@pytest.fixture
def archive():
    """A web server, and what it has by path."""
    held = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = held.get(self.path)
            self.send_response(200 if content else 404)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", held
        server.shutdown()


def fetched(archive, cache):
    url, _ = archive
    return debian.fetch(PACKAGE, cache, archive=url, snapshot=f"{url}/file")


def test_the_base_is_locked_by_hash_for_both_architectures():
    rows = debian.locked()

    assert {(name, architecture) for name in debian.PACKAGES for architecture in debian.ARCHITECTURES} == {
        (row.name, row.architecture) for row in rows
    }


def test_a_place_is_below_every_mirror_and_names_none():
    assert {"debian/pool", "debian-security/pool"} >= {"/".join(row.place.split("/")[:2]) for row in debian.locked()}


@pytest.mark.parametrize(
    "line", ["libc6 2.36 amd64 abc", f"libc6 2.36 amd64 {SHA256}", f"libc6 2.36 amd64 {SHA256} {SHA256} place"]
)
def test_a_line_of_the_lock_without_both_hashes_is_refused(tmp_path, line):
    (tmp_path / "base.lock").write_text(f"{line}\n")

    with pytest.raises(SystemExit, match="package version architecture sha256 sha1 place"):
        debian.locked(tmp_path / "base.lock")


def test_a_package_comes_from_the_archive_once(archive, tmp_path):
    archive[1][f"/{PACKAGE.place}"] = CONTENT
    first = fetched(archive, tmp_path)
    archive[1].clear()

    assert CONTENT == first.read_bytes() == fetched(archive, tmp_path).read_bytes()


def test_a_package_that_the_archive_has_replaced_comes_from_the_snapshots(archive, tmp_path):
    """Debian's archive keeps the newest version alone: a tag is built again after years."""
    archive[1][f"/file/{SHA1}"] = CONTENT

    assert CONTENT == fetched(archive, tmp_path).read_bytes()


def test_another_package_under_the_same_name_is_passed_over(archive, tmp_path):
    archive[1][f"/{PACKAGE.place}"] = b"of somebody else"
    archive[1][f"/file/{SHA1}"] = CONTENT

    assert CONTENT == fetched(archive, tmp_path).read_bytes()


def test_a_package_that_nobody_has_is_named_with_where_it_was_looked_for_and_where_to_put_it(archive, tmp_path):
    archive[1][f"/file/{SHA1}"] = b"of somebody else"

    with pytest.raises(SystemExit) as ended:
        fetched(archive, tmp_path)
    said = str(ended.value)
    assert f"libc6 2.36 for amd64 is not to be had; put it into {tmp_path}/{SHA256}.deb" in said
    assert f"/{PACKAGE.place}: HTTP Error 404" in said
    assert f"/file/{SHA1}: its SHA-256 is not {SHA256}" in said
    assert [] == list(tmp_path.iterdir())


def test_a_file_of_the_cache_that_was_changed_is_refused(archive, tmp_path):
    (tmp_path / f"{SHA256}.deb").write_bytes(b"of somebody else")

    with pytest.raises(SystemExit, match=r"is not libc6 2\.36 for amd64 any more"):
        fetched(archive, tmp_path)


def deb(*members):
    """A .deb of (TarInfo, content) as deb(5) describes it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as file:
        for info, content in members:
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    parts = [("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", data.getvalue())]
    written = b"!<arch>\n"
    for name, content in parts:
        written += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        written += b"\n" * (len(content) % 2)
    return written


def member(name, kind=tarfile.REGTYPE, mode=0o644, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    return info


def test_a_base_has_the_files_of_its_packages_in_the_merged_usr_and_one_file_of_certificates(tmp_path, monkeypatch):
    content = deb(
        (member("./lib/", tarfile.DIRTYPE, 0o755), b""),
        (member("./lib/libc.so.6", mode=0o755), b"library"),
        (member("./usr/bin/python3.11", mode=0o755), b"program"),
        (member("./usr/bin/pydoc", tarfile.LNKTYPE, link="./usr/bin/python3.11"), b""),
        (member("./usr/share/ca-certificates/a.crt"), b"A\n"),
        (member("./usr/share/ca-certificates/b.crt"), b"B\n"),
    )
    digest = hashlib.sha256(content).hexdigest()
    cache, root = tmp_path / "cache", tmp_path / "root"
    cache.mkdir()
    (cache / f"{digest}.deb").write_bytes(content)
    package = PACKAGE._replace(sha256=digest)
    monkeypatch.setattr(debian, "locked", lambda: [package, package._replace(architecture="arm64", sha256="none")])

    debian.unpack(root, "amd64", cache)

    assert b"library" == (root / "usr/lib/libc.so.6").read_bytes()
    assert 0o755 == (root / "usr/bin/python3.11").stat().st_mode & 0o777
    assert b"program" == (root / "usr/bin/pydoc").read_bytes()
    assert "A\nB\n" == (root / "etc/ssl/certs/ca-certificates.crt").read_text()
    assert "usr/lib" == str((root / "lib").readlink())
    assert f"cronhpa:x:{debian.USER}:" in (root / "etc/passwd").read_text()
