"""Label selectors as the text that queries and the scale subresource carry."""

from __future__ import annotations

from collections.abc import Iterable

FORMS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}", "DoesNotExist": "!{key}"}


def selector_text(labels: Iterable[tuple[str, str]], expressions: Iterable[tuple[str, str, Iterable[str]]]) -> str:
    """
    The requirements, sorted by label and joined by commas: `app=shop,tier in (api,web)`.

    labels: label and value. expressions: label, operator, values; an unknown operator leaves an empty requirement.
    """
    requirements = [(key, f"{key}={value}") for key, value in labels]
    for key, operator, values in expressions:
        requirements.append((key, FORMS.get(operator, "").format(key=key, values=",".join(sorted(values)))))
    return ",".join(text for _, text in sorted(requirements))
