"""
CEL rules of the CRD (`x-kubernetes-validations`), as the models carry them in `json_schema_extra`.

`BY_RULE` keeps a bound that a rule checks out of the schema: an API server runs no rules after a failed `required`,
`enum`, `maxLength` or `maxItems`.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

BY_RULE = "x-checked-by-rule"
"""Marks a field whose bounds, values and pattern stay out of the CRD: a rule of the enclosing object checks them."""

BEFORE_1_34 = "x-before-1.34"
"""
Marks what differs in the CRD for Kubernetes 1.30 to 1.33: a rule with None is left out, a field gets further keywords.
Those servers ignore the length of an int-or-string, and refuse rules on quantities for their estimated cost.
"""

REQUIRED, FORBIDDEN = "FieldValueRequired", "FieldValueForbidden"


def rule(check: str, message: str, *, finding: tuple[str, ...] = (), at: str = "", reason: str = "") -> Json:
    """
    One CEL rule: `check` must hold, else `message` is what the user reads, on field `at` (a path below this one).

    finding: a text before the message that states what was found, with %s, and the CEL expressions that fill it.
    """
    out = {"rule": check, "message": message}
    if finding:
        text, *values = finding
        # `format`, because `+` is charged for the largest size its parts could have: string(int) has no bound.
        template = quoted(f"{text}: {message.replace('%', '%%')}")
        out["messageExpression"] = f"{template}.format([{', '.join(values)}])"
    if at:
        out["fieldPath"] = at
    if reason:
        out["reason"] = reason
    return out


def rules(*checks: Json) -> Json:
    """The `json_schema_extra` that carries these rules into the CRD."""
    return {"x-kubernetes-validations": list(checks)}


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


POSITIVE = r"^\s*[+]?(0*[1-9][0-9]*[.]?[0-9]*|0*[.]0*[1-9][0-9]*)([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?\s*$"
"""The texts of QUANTITY that are above 0, for servers on which no rule can compare quantities."""

QUANTITY = r"^\s*[+-]?[0-9.]*([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?\s*$"
"""
Every quantity of the upstream but those with an exponent of three or more digits: an API server (and this process)
would take seconds for the nine bytes of `1e999999`.
"""

SEGMENT = "self != '' && self != '.' && self != '..' && !self.contains('/') && !self.contains('%')"


def is_segment(path: str) -> str:
    """CEL: whether the text at `path` can be part of a URL path; the upstream requires no more of its names."""
    return SEGMENT.replace("self", path)


def is_quantity(text: str) -> str:
    """CEL: whether the int-or-string `text` is a quantity. The pattern stands first, so that nothing huge is parsed."""
    return f"string({text}).matches({quoted(QUANTITY)}) && isQuantity(string({text}).trim())"


def sign(text: str) -> str:
    """CEL: -1, 0 or 1 of an int-or-string that is a quantity."""
    return f"sign(quantity(string({text}).trim()))"
