"""What can go wrong with a request to the API, as one exception."""

from __future__ import annotations

from http import HTTPStatus

from msgspec import Struct

# Errors of decoding somebody else's answer: msgspec's own, and those of text that is not UTF-8, are ValueErrors; deeply
# nested lists end in a RecursionError.
UNREADABLE = (ValueError, RecursionError)


class FieldCause(Struct, frozen=True):
    """One field that the API server refused, and why."""

    field: str = ""
    message: str = ""


class ClusterError(Exception):
    """
    The API refused a request, or could not be reached.

    status: the HTTP status, 0 without an answer. causes: the refused fields of an object. retry_after: in how many
    seconds the server wants to be asked again, None if it does not want a pause.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        causes: tuple[FieldCause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after
        super().__init__(message)


# What an API server says of an unknown resource, with the reason of an object that is missing.
# Of an unknown group its 404 has another reason.
UNKNOWN_RESOURCE = "the server could not find the requested resource"


def is_missing(error: ClusterError) -> bool:
    """Whether the object is not there; not where its kind is not served, such as by an API server that starts."""
    return error.status == HTTPStatus.NOT_FOUND and error.reason == "NotFound" and error.message != UNKNOWN_RESOURCE


def is_ambiguous(error: ClusterError) -> bool:
    """Whether a write that ended in this error may have been done: no answer, or an internal error of the server."""
    return error.status == 0 or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
