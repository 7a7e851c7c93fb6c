"""Credentials, and texts without them.

They are known by where they stand (environment variables and settings whose names say so, key
files, users and passwords in URLs) and by their shape (`_found`). `hidden` masks their values
wherever they turn up, in every form that a writer may give them. It is called where text leaves the
process, and nowhere else needs to think of it: by `ragbench.io.atomic`, by what the ledger stores,
by the command line's streams.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pkgutil import get_data
from typing import cast

MASK = "***"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+")


@cache
def _known(part: str) -> dict[str, str]:
    """A part of ``credentials.toml``."""
    table = tomllib.loads((get_data("ragbench", "credentials.toml") or b"").decode())
    return cast("dict[str, dict[str, str]]", table)[part]


@cache
def _words(what: str) -> frozenset[str]:
    return frozenset(_known("names")[what].split())


@cache
def _shapes() -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, _known("shapes").values()))


def is_secret(name: str) -> bool:
    """Whether a setting or header of this name holds a credential.

    Example:
        >>> [is_secret(name) for name in ("api_key", "X-Auth-Token", "max_tokens", "sort_key")]
        [True, True, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if words and words[-1] in _words("place"):
        return False
    if not _words("secret").isdisjoint(words) or (words and words[-1] in _words("secret_at_end")):
        return True
    return any(first in _words("key_of") and second == "key" for first, second in pairwise(words))


def mask_url(url: str) -> str:
    """A URL without user, password and the values of secret query parameters.

    Example:
        >>> mask_url("https://bob:pw@host/rag?api_key=1&lang=en")
        'https://***@host/rag?api_key=***&lang=en'
    """
    from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

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
    """A text without the given secrets, those that are known, and what looks like a credential.

    For messages, settings and descriptions. What a user's data hold is masked by `hidden` alone: a
    document may explain what a key looks like.
    """
    # The longest first: one secret may be part of another.
    for secret in sorted((s for s in secrets if s), key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = hidden(text)
    if "://" in text:
        text = _URL.sub(lambda match: mask_url(match.group()), text)
    parts, at = list[str](), 0
    for start, end in sorted(_found(text)):
        if start >= at:
            parts += (text[at:start], MASK)
        at = max(at, end)
    return "".join([*parts, text[at:]])


_NAME = re.compile(r"(?<![\w.-])([A-Za-z_][\w.-]{0,63})\\*[\"']?\s{0,3}([:=])\s{0,3}")
_VALUE = re.compile(
    r"(\\*[\"'])((?:(?!\1)(?:\\.|[^\\\n]))*)|"
    r"(?:(?![,&)\]}]+\s{0,3}(?:[\w.-]{1,64}\\*[\"']?\s?[:=]|$))[^\s\"'<>;\\])+"
)
"""``password=x``, ``"api_key": "x"``, ``x-api-key: x``, in JSON and in JSON within JSON."""
_LONGEST_PROSE = 1024
_NOTHING = re.compile(
    rf"none|null|true|false|undefined|bearer|basic|[\d.,:%+-]+|{re.escape(MASK)}", re.IGNORECASE
)


def _found(text: str) -> Iterator[tuple[int, int]]:
    for shape in _shapes():
        for match in shape.finditer(text):
            yield match.span(match.lastindex or 0)
    at = 0
    while (name := _NAME.search(text, at)) is not None:
        at = name.end()
        if is_secret(name[1]) and (value := _VALUE.match(text, at)):
            group = 0 if value[2] is None else 2
            if _is_given(name[1], name[2], value[group], is_quoted=group == 2):
                yield value.span(group)
                at = value.end()
            elif value.end() - at > _LONGEST_PROSE:  # "token:token:token:..."
                at = value.end()


def _is_given(name: str, sign: str, value: str, *, is_quoted: bool) -> bool:
    """Whether behind a name that says so there is a credential, and no word or number."""
    if len(value) < 4 or _NOTHING.fullmatch(value):  # eos_token=50256
        return len(value) >= 4 and value.isdecimal() and "pass" in name.lower()
    # "token: unexpected" is prose; "x-api-key: abcdef" and "password=abcdef" are not.
    if sign == "=" or is_quoted or not name.isalpha():
        return True
    return len(value) >= _SHORTEST and any(map(str.isdecimal, value))


_SAYS_SECRET = re.compile(
    r"(?:APIKEY|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE|"
    r"(?:^|_)(?:KEYS?|KEY_BASE|PWD|PW|PASS|PAT|AUTH|DSN|CREDS?|PRIVATE|SIGNING|SIG|SIGNATURE))$"
)
_NO_SECRETS = frozenset({"PWD", "OLDPWD"})
"""Variables of the shell that are called so for another reason."""
_MARKED = re.compile(r"[\\`*_{}\[\]<>|~]|:(?=[\w/])")
"""What `ragbench.safe_text.markdown_text` puts a backslash before."""
_SHORTEST = 6
_WORD = re.compile(r"[a-z]+|[A-Z]+|[A-Z][a-z]+|[\d.,:-]+|true|false|none", re.IGNORECASE)
_LONG = 12
"""From so many letters on, a value without digits and signs is no word of a text, either."""
_IN_FULL = 16
"""A shorter value is masked only where it stands by itself."""
_LOOK_AGAIN = 0.5
"""Seconds after which the environment is looked at again: a RAG may load a file of variables."""


def _is_worth_hiding(value: str) -> bool:
    """Whether a value says so little else that it can be masked anywhere.

    ``postgres``, ``8080`` and ``true`` would take every such word out of every report. Numbers are
    never masked: they stand in all files as numbers.
    """
    if len(value) < _SHORTEST or not any(map(str.isalpha, value)):
        return False
    return len(value) >= _LONG or _WORD.fullmatch(value) is None


class _Secrets:
    """The secrets that this process knows of, in every form that a writer may give them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: set[str] = set()
        self._environment: set[str] = set()
        self._size = -1
        self._until = 0.0
        self._forms: tuple[tuple[str, bool], ...] = ()

    def add(self, values: Iterable[str]) -> None:
        with self._lock:
            fresh = {value for value in values if _is_worth_hiding(value)} - self._given
            if fresh:
                self._given |= fresh
                self._make()

    def forms(self) -> tuple[tuple[str, bool], ...]:
        """Each form, the longest first, and whether it is masked inside of words, too."""
        now, size = time.monotonic(), len(os.environ)
        if size == self._size and now < self._until:
            return self._forms
        with self._lock:
            self._size, self._until = size, now + _LOOK_AGAIN
            # Values of variables that hold credentials, and the credentials in URLs of others.
            found: set[str] = set()
            for name, text in os.environ.items():
                value = text.strip()
                if name not in _NO_SECRETS and _SAYS_SECRET.search(name.upper()):
                    found.update(_lines(value))
                found.update(_of_text(value))
            found = {value for value in found if _is_worth_hiding(value)}
            if found - self._environment:
                # What was a secret stays one.
                self._environment |= found
                self._make()
        return self._forms

    def _make(self) -> None:
        forms: dict[str, bool] = {}
        for value in self._given | self._environment:
            for form in _forms(value):
                forms[form] = forms.get(form, False) or len(value) >= _IN_FULL
        self._forms = tuple(sorted(forms.items(), key=lambda item: (-len(item[0]), item[0])))


_SECRETS = _Secrets()


@lru_cache(maxsize=512)
def _of_text(text: str) -> tuple[str, ...]:
    """What a text holds that looks like a credential, and the passwords of its URLs."""
    from urllib.parse import parse_qsl, unquote, urlsplit

    found = [text[start:end] for start, end in _found(text)]
    for match in _URL.finditer(text):
        try:
            parts = urlsplit(match.group())
            found += [parts.password or ""] if "@" in parts.netloc else []
            found += [value for key, value in parse_qsl(parts.query) if is_secret(key)]
        except ValueError:
            continue
    return tuple(line for one in (*found, *map(unquote, found)) for line in _lines(one))


def _lines(value: str) -> list[str]:
    """A value and its lines: a key of several may be written line by line."""
    return [value.strip(), *(line.strip() for line in re.split(r"[\r\n]+|\\+[nr]", value))]


def _forms(value: str) -> set[str]:
    """A value as JSON, Python, URLs, HTML, Markdown, CSV and shells write it."""
    from urllib.parse import quote, quote_plus

    plain = {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
        _MARKED.sub(r"\\\g<0>", value),
        value.replace('"', '""'),
        value.replace("'", "'\"'\"'"),
    }
    # A JSON text that stands in JSON again, as in a command line in a manifest.
    return plain | {json.dumps(form)[1:-1] for form in plain}


def hide(*values: str | None) -> None:
    """Makes values known as secrets: from now on `hidden` masks them."""
    _SECRETS.add(value.strip() for value in values if value)


def hide_arguments(value: object) -> None:
    """Makes those of nested settings known whose names say that they hold a credential.

    Also the credentials in URLs, wherever they stand.
    """
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[object, object]", value).items():
            if isinstance(inner, str) and "${" not in inner and is_secret(str(name)):
                _SECRETS.add((inner.strip(),))
            hide_arguments(inner)
    elif isinstance(value, (list, tuple)):
        for inner in cast("Sequence[object]", value):
            hide_arguments(inner)
    elif isinstance(value, str):
        _SECRETS.add(_of_text(value))


def hidden(text: str) -> str:
    """A text without the secrets that this process knows of."""
    for form, anywhere in _SECRETS.forms():
        if form in text:
            text = text.replace(form, MASK) if anywhere else _alone(form).sub(MASK, text)
    return text


def hidden_bytes(data: bytes) -> bytes:
    """The same for UTF-8, such as JSON, CSV or Markdown. Never for a format with lengths in it."""
    if not _SECRETS.forms():
        return data
    return hidden(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


_BEFORE = (
    r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\[abfnrtv])|"
    r"(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2}))"
)
"""No letter and no digit, but where they are the end of what an escape stands for."""


def _alone(form: str) -> re.Pattern[str]:
    return re.compile(rf"{_BEFORE}{re.escape(form)}(?![A-Za-z0-9])")
