"""What must not reach an error message, a fingerprint or a report: credentials."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ["MASK", "is_secret", "mask_text", "mask_url", "mask_urls"]

MASK = "***"

_SECRET = frozenset(
    {
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
        "token",
    }
)
# "key" alone may be a sort key; after one of these words it opens something.
_KEY_OF = frozenset({"access", "account", "api", "auth", "encryption", "private", "secret"})
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{4,}", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a setting or header of this name holds a credential.

    Example:
        >>> [is_secret(name) for name in ("api_key", "X-Auth-Token", "max_tokens", "sort_key")]
        [True, True, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if not _SECRET.isdisjoint(words):
        return True
    return any(first in _KEY_OF and second == "key" for first, second in pairwise(words))


def mask_url(url: str) -> str:
    """A URL without user, password and the values of secret query parameters.

    Example:
        >>> mask_url("https://bob:pw@host/rag?api_key=1&lang=en")
        'https://***@host/rag?api_key=***&lang=en'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{MASK}@{host}" if "@" in parts.netloc else host
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    if any(is_secret(key) for key, _ in pairs):
        masked = [(key, MASK if is_secret(key) else value) for key, value in pairs]
        parts = parts._replace(query=urlencode(masked, safe="*"))
    return urlunsplit(parts._replace(netloc=netloc))


def mask_text(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without the given secrets, credentials in URLs and authorization values."""
    # The longest first: one secret may be part of another.
    for secret in sorted((s for s in secrets if s), key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = mask_urls(text)
    return _BEARER.sub(lambda match: f"{match.group(1)} {MASK}", text)


def mask_urls(text: str) -> str:
    """A text whose URLs hold no credentials; nothing else is changed."""
    return _URL.sub(lambda match: mask_url(match.group()), text)
