"""
What may be told of an error of a request.

aiohttp's parser quotes the line that it cannot read, and with it whatever the server repeats of the request: a token, a
query. Its other errors hold the whole URL, or the answer's headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import aiohttp

from cronhpa.core.model.printable import without_secrets, without_url_secrets

# What is quoted stands behind a colon, a quote or a bracket. The texts of some errors are nothing but a URL.
_OWN_WORDS = re.compile(r"[A-Z][\w ,-]*", re.ASCII)


def error_text(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """
    The text of an error without passwords of URLs, quoted answers and these secrets; its type if it has no text.

    The words of the operating system, the resolver and OpenSSL are told as they are.
    """
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientError) and not isinstance(error, aiohttp.ClientOSError):
        words = _OWN_WORDS.match(error.message if isinstance(error, aiohttp.ClientResponseError) else str(error))
        return f"{kind}: {words[0]}" if words else kind
    text = without_url_secrets(str(error))
    return without_secrets(text.encode(errors="backslashreplace"), secrets).decode() or kind
