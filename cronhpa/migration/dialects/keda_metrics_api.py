"""
KEDA's metrics-api trigger as a source that asks the same URL, by pkg/scalers/metrics_api_scaler.go of KEDA 2.20.

`sources/value_path` owns the paths that a source reads in an answer; this file owns how KEDA's formats differ.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from cronhpa.migration.dialects.keda_servers import CREDENTIALS, TIMEOUT, UNTRUSTED, address
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.sources.url_template import UrlTemplate
from cronhpa.sources.value_path import ValuePath, ValuePathError

_MOUNTED = "/var/run/secrets/sources"  # where the chart mounts the Secret that sourcesSecret names
_ORIGIN = re.compile(r"^([^/]*//[^/?#]*)(.*)", re.DOTALL)
_SELECTOR = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s*", re.DOTALL)
_MATCHER = re.compile(r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*(?:,|$)""")
_MEANS_SOMETHING = re.compile(r"([\\*?|#@!\[\]{}()])")


def url_source(trigger: FieldReader, metadata: FieldReader) -> Json | None:
    """
    The definition of the source, with a remark for each difference to KEDA's requests.

    None, with the reason as a remark, if no URL has the number. Raises Unconvertible if KEDA refuses the trigger, too.
    """
    for key in ("url", "valueLocation"):
        if not metadata.text(key).strip():
            raise metadata.unconvertible(key, f"there is no {key}", "KEDA refuses it too: say what is asked, and where")
    if _is_true(metadata.text("aggregateFromKubeServiceEndpoints")):
        metadata.remark(
            "aggregateFromKubeServiceEndpoints",
            "found true",
            "KEDA asks each pod of the Service, a URL one of them: a source of pods asks each, where they serve the "
            "text format of Prometheus",
        )
        return None
    metadata.ignore("aggregateFromKubeServiceEndpoints", "aggregationType")
    place = _place(metadata)
    if place is None:
        return None
    url = _url(metadata)
    if metadata.text("timeout"):
        metadata.remark("timeout", f"found {metadata.text('timeout')}", TIMEOUT)
    if _is_true(metadata.text("unsafeSsl")):
        metadata.remark("unsafeSsl", "found true", UNTRUSTED)
    return {"url": {"url": url} | place | _login(trigger, metadata)}


def _url(metadata: FieldReader) -> str:
    """The URL, percent-encoded as Go's client does it, with each dollar sign doubled, as a source wants it."""
    origin, behind = _ORIGIN.findall(address(metadata, "url"))[0]
    path, mark, query = behind.partition("#")[0].partition("?")
    path, query = quote(path, safe="/:$&'()*+,;=@%~!"), quote(query, safe="/?:$&'()*+,;=@%~!")
    url = f"{origin}{path}{mark}{query}".replace("$", "$$")
    try:
        UrlTemplate(url)
    except ValueError as problem:
        raise metadata.unconvertible("url", "it is no URL of a fixed host", str(problem)) from None
    return url


def _place(metadata: FieldReader) -> Json | None:
    """The fields of the source that say where the number stands."""
    kind, location = metadata.text("format") or "json", metadata.text("valueLocation")
    match kind:
        case "json":
            place = location
        case "yaml":
            # For KEDA every character but the dot stands for itself in a YAML location.
            place = _MEANS_SOMETHING.sub(r"\\\1", location)
        case "prometheus":
            return _sample(metadata, location)
        case _:
            # Go's encoding/xml fills no map: KEDA's xml ends in "unknown type map[string]interface {}" for each answer.
            metadata.remark("format", f'found "{kind}"', "KEDA 2.20 reads no number of it: serve JSON")
            return None
    try:
        ValuePath(place)
    except ValuePathError as problem:
        metadata.remark("valueLocation", f'found "{location}"', f"a source computes nothing of an answer: {problem}")
        return None
    return {"value": place} if kind == "json" else {"format": kind, "value": place}


def _sample(metadata: FieldReader, location: str) -> Json | None:
    selector = _SELECTOR.fullmatch(location)
    inside = (selector[2] or "").strip() if selector else ""
    labels: Json = {}
    at = 0
    while at < len(inside) and (matcher := _MATCHER.match(inside, at)) is not None:
        labels[matcher[1]] = matcher[2] if matcher[2] is not None else matcher[3]
        at = matcher.end()
    if selector is None or at < len(inside):
        metadata.remark("valueLocation", f'found "{location}"', 'a source takes name{label="value",...} alone')
        return None
    metadata.remark(
        "format",
        "found prometheus",
        "KEDA takes the first sample that matches, and a counter as it stands: here one sample must match, or combine "
        "says how several count, and a counter is no value",
    )
    return {"format": "prometheus", "metric": selector[1]} | ({"labels": labels} if labels else {})


def _login(trigger: FieldReader, metadata: FieldReader) -> Json:
    """The files of the login, and what to put into them."""
    reference = trigger.mapping("authenticationRef")
    name = reference.text("name")
    reference.ignore("kind")
    field = "authModes" if "authModes" in metadata else "authMode"
    modes = re.findall(r"[^\s,]+", metadata.text(field))
    if not modes:
        if name:
            trigger.remark("authenticationRef", f'found "{name}"', CREDENTIALS)
        return {}
    login: Json = {}

    def mounted(part: str) -> str:
        return f"{_MOUNTED}/{name or 'metrics-api'}-{part}"

    def say(finding: str, files: str) -> None:
        metadata.remark(
            field, f"found {finding}", f"put it into the Secret that sourcesSecret of the chart names, for {files}"
        )

    if "bearer" in modes:
        login["tokenFile"] = mounted("token")
        say("bearer", mounted("token"))
    if "basic" in modes:
        say("basic", f"passwordFile: {mounted('password')}, and write it and username into the source")
    if "apiKey" in modes:
        login |= _key(metadata, field, mounted("key"))
    if "tls" in modes:
        login |= {"certFile": mounted("cert"), "keyFile": mounted("tls-key")}
        say("tls", f"{mounted('cert')} and {mounted('tls-key')}; and caFile, where it has a ca")
    return login


def _key(metadata: FieldReader, field: str, file: str) -> Json:
    """The file of an API key. A key in the trigger itself is not copied: chart values are no place for it."""
    metadata.ignore("apiKey")
    header = metadata.text("keyParamName") or "X-API-KEY"
    if metadata.text("method") == "query":
        metadata.remark(
            "method",
            "found query",
            "a source sends no key in a URL: let the server take a header, and name headerFiles",
        )
        return {}
    metadata.remark(
        field,
        "found apiKey",
        f"put the key into the Secret that sourcesSecret of the chart names, for {file}; where the "
        f"TriggerAuthentication has keyParamName or method, it is not the header {header} that it is sent as",
    )
    return {"headerFiles": {header: file}}


def _is_true(text: str) -> bool:
    return text.lower() in {"true", "1", "t"}
