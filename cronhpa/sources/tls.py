"""Whom connections to sources trust, and the certificate that they show."""

from __future__ import annotations

import ssl
from pathlib import Path


def client_context(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """Without a ca_file the system's authorities. Raises OSError, of which SSLError is one, for unusable files."""
    context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file)
    return context
