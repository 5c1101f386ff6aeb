"""Why a source has no answer. The texts fit into a condition: they are the same each time, and name no address."""

from __future__ import annotations

from http import HTTPStatus


class NoAnswerError(Exception):
    """There is no usable answer. reason: a word for machines. cause: a text for the log alone."""

    def __init__(self, reason: str, message: str, cause: str = "") -> None:
        self.reason, self.message, self.cause = reason, message, cause
        super().__init__(message)


UNTRUSTED = "TLS: its certificate, or ours, is not trusted or cannot be read"
BROKEN = "the connection broke before the answer was whole"
FILE_UNREADABLE = "a file that its login or its TLS needs cannot be read"


def unreachable(why: str) -> str:
    """The message where no connection was made."""
    return f"it cannot be reached: {why}"


def no_answer_within(seconds: float) -> str:
    """The message of a request that its deadline ended."""
    return f"it gave no answer within {seconds:g} s"


def refuse_status(status: int) -> None:
    """Raises NoAnswerError for a status of HTTP other than 200."""
    if status == HTTPStatus.OK:
        return
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        raise NoAnswerError("Redirected", f"it answered {status}, which points elsewhere and is not followed")
    raise NoAnswerError(f"HTTP{status}", f"it answered {status}")
