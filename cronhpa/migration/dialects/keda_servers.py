"""The addresses and logins of KEDA's triggers for HTTP servers, and what a source of the operator needs instead."""

from __future__ import annotations

import re

from cronhpa.migration.documents.document import FieldReader

CREDENTIALS = (
    "KEDA read credentials from a TriggerAuthentication: name tokenFile, headerFiles, or username and passwordFile, in "
    "the source"
)
UNTRUSTED = "name the authority of the server in the source: caFile"
TIMEOUT = "timeoutSeconds of the source is 5 unless set"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_PARTS = re.compile(r"([^/?#]*)(.*)", re.DOTALL)


def address(metadata: FieldReader, key: str) -> str:
    """The URL at a field, without a user and with a scheme; each difference is a remark."""
    text = metadata.text(key).strip()
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1], match[2]) if match else ("", text)
    parts = _PARTS.fullmatch(rest)
    authority, behind = (parts[1], parts[2]) if parts else (rest, "")
    user, _, host = authority.rpartition("@")
    if user:
        metadata.remark(key, "found a user in the URL", "name username and passwordFile in the source")
    if not scheme:
        metadata.remark(key, f'found "{host}{behind}"', "KEDA cannot ask it without http:// or https://: took http://")
    name = host.partition(":")[0]
    if name and not {".", "["} & set(name) and name != "localhost":
        metadata.remark(
            key,
            f'found the host "{name}"',
            f"a name without a namespace is a Service beside KEDA for KEDA, and beside the operator here: write "
            f"{name}.NAMESPACE in the source",
        )
    return f"{scheme or 'http'}://{host}{behind}"
