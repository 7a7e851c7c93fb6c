"""Credentials, and texts without them.

A credential is recognised by its place (an environment variable or a setting with a telling name,
a key file, user and password of a URL) or by its shape (`credentials.toml`, and for what issuers
give out `ragbench.issuers`). `hidden` masks the values that were recognised wherever they occur, in
every form in which a writer may escape them, and the issuers' keys. It is called in the few places
where text leaves the process: `ragbench.io.atomic`, the ledger, the streams of the command line.
Code that makes the texts need not think of it.

An id is not a text: cases are joined by it, and two that are masked would be the same. So a key's
form alone masks nothing in an id.
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

from ragbench.issuers import may_hold_key, spans_of_keys

MASK = "***"

# The words of a name: of camelCase, snake_case and kebab-case.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+")


@cache
def _table(name: str) -> dict[str, str]:
    """A table of ``credentials.toml``."""
    tables = tomllib.loads((get_data("ragbench", "credentials.toml") or b"").decode())
    return cast("dict[str, dict[str, str]]", tables)[name]


@cache
def _words(kind: str) -> frozenset[str]:
    """Words that the name of a credential contains: a line of the table ``names``."""
    return frozenset(_table("names")[kind].split())


@cache
def _shape(name: str) -> re.Pattern[str]:
    """A pattern of credentials with the secret as its group, or as a whole."""
    return re.compile(_table("shapes")[name])


def is_secret(name: str) -> bool:
    """Whether a setting or header of this name holds a credential.

    Example:
        >>> [is_secret(name) for name in ("api_key", "X-Auth-Token", "max_tokens", "sort_key")]
        [True, True, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _words("place"):  # api_key_file is where it is, and not the key
        return False
    if not _words("secret").isdisjoint(words) or words[-1] in _words("secret_at_end"):
        return True
    return any(word in _words("key_of") and next_ == "key" for word, next_ in pairwise(words))


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
    if "@" in parts.netloc:
        host = parts.netloc.rpartition("@")[2]
        parts = parts._replace(netloc=f"{MASK}@{host}")
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    if any(is_secret(name) for name, _ in parameters):
        masked = [(name, MASK if is_secret(name) else value) for name, value in parameters]
        parts = parts._replace(query=urlencode(masked, safe="*"))
    return urlunsplit(parts)


def mask_text(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without these secrets, all that `hidden` masks, and what looks like a credential.

    For messages, settings and descriptions. A user's data are masked by `hidden` alone: a document
    may explain where a key goes, as in ``Authorization: Bearer TOKEN``.
    """
    # The longest first: one secret may be part of another.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = hidden(text)
    if "://" in text:
        text = _URL.sub(lambda match: mask_url(match.group()), text)

    return _masked(text, _spans_of_secrets(text))


def _masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text in which a mask is in place of each span."""
    ordered_spans = sorted(spans)
    if not ordered_spans:  # nearly all texts: none of them is copied
        return text
    parts: list[str] = []
    masked_to = 0  # all before this position is in the parts
    for start, end in ordered_spans:
        if start >= masked_to:  # else it overlaps with the one before
            parts.append(text[masked_to:start])
            parts.append(MASK)
        masked_to = max(masked_to, end)
    parts.append(text[masked_to:])
    return "".join(parts)


# A name with the sign behind it, and then a value in quotes or without: ``password=x``,
# ``"api_key": "x"``, ``x-api-key: x``, in JSON and in JSON within JSON.
_NAME = re.compile(r"(?<![\w.-])([A-Za-z_][\w.-]{0,63})\\*[\"']?\s{0,3}([:=])\s{0,3}")
_VALUE = re.compile(
    r"(\\*[\"'])((?:(?!\1)(?:\\.|[^\\\n]))*)|"
    r"(?:(?![,&)\]}]+\s{0,3}(?:[\w.-]{1,64}\\*[\"']?\s?[:=]|$))[^\s\"'<>;\\])+"
)
_LONGEST_PROSE = 1024
# Values that are no credential, whatever the name before them: words of programs, and numbers.
_NO_CREDENTIAL = re.compile(
    rf"none|null|true|false|undefined|bearer|basic|[\d.,:%+-]+|{re.escape(MASK)}", re.IGNORECASE
)


def _spans_of_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each part of a text that looks like a credential; they may overlap."""
    yield from _spans_of_keys(text, is_message=True)
    for kind in _table("shapes"):
        for match in _shape(kind).finditer(text):
            # "Bearer ${API_KEY}" names a variable.
            if not match[match.lastindex or 0].startswith("${"):
                yield match.span(match.lastindex or 0)

    # Values behind a telling name. The search goes on behind a value that is a credential, and else
    # behind the name: the value may be a name itself, as in "authorization: api_key=abc".
    position = 0
    while True:
        name = _NAME.search(text, position)
        if name is None:
            return
        position = name.end()
        value = _VALUE.match(text, position) if is_secret(name[1]) else None
        if value is None:
            continue
        is_quoted = value[2] is not None
        group = 2 if is_quoted else 0
        if _is_credential(name[1], name[2], value[group], is_quoted=is_quoted):
            yield value.span(group)
            position = value.end()
        elif value.end() - position > _LONGEST_PROSE:
            # "token:token:token:...": to look at the same long value behind each name would take
            # time that grows with its square.
            position = value.end()


def _is_credential(name: str, sign: str, value: str, *, is_quoted: bool) -> bool:
    """Whether the value behind a telling name is a credential, and not a word or a number."""
    if len(value) < 4:
        return False
    if _NO_CREDENTIAL.fullmatch(value):  # eos_token=50256; but a password may be a number
        return value.isdecimal() and "pass" in name.lower()
    # "token: unexpected" is prose; "x-api-key: abcdef" and "password=abcdef" are not.
    if sign == "=" or is_quoted or not name.isalpha():
        return True
    return len(value) >= _SHORTEST_SECRET and any(character.isdecimal() for character in value)


_SECRET_VARIABLE = re.compile(
    r"(?:APIKEY|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE|"
    r"(?:^|_)(?:KEYS?|KEY_BASE|PWD|PW|PASS|PAT|AUTH|DSN|CREDS?|PRIVATE|SIGNING|SIG|SIGNATURE))$"
)
"""Names of environment variables that hold a credential."""
_DIRECTORY_VARIABLES = frozenset({"PWD", "OLDPWD"})
"""The working directories of the shell, which have such a name."""
MARKDOWN_SIGNS = re.compile(r"[\\`*_{}\[\]<>|~]|:(?=[\w/])")
"""The characters before which `ragbench.safe_text.markdown_text` puts a backslash."""
_SHORTEST_SECRET = 6
_ORDINARY_WORD = re.compile(r"[a-z]+|[A-Z]+|[A-Z][a-z]+|[\d.,:-]+|true|false|none", re.IGNORECASE)
_LONGER_THAN_WORDS = 12
"""A value of at least this length is not an ordinary word, even if it is of letters alone."""
_MASKED_WITHIN_WORDS = 16
"""A shorter value is masked only as a word of its own, and not within a longer word."""
_SECONDS_VALID = 0.5
"""Seconds after which the environment is read again: a RAG may load a file of variables."""


def _is_worth_hiding(value: str) -> bool:
    """Whether a value is no ordinary word or number, so that masking it harms no other text.

    With ``postgres``, ``8080`` or ``true`` masked, every such word would vanish from every report.
    Numbers are never masked: scores and counts in all files would be hit.
    """
    has_letter = any(character.isalpha() for character in value)
    if len(value) < _SHORTEST_SECRET or not has_letter:
        return False
    return len(value) >= _LONGER_THAN_WORDS or _ORDINARY_WORD.fullmatch(value) is None


class _Secrets:
    """The secrets of this process, in every form in which a writer may escape them.

    They are those that were added, and those in its environment, which may change at any time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added: set[str] = set()
        self._environment: set[str] = set()
        self._variables = -1
        """Number of environment variables when they were last read."""
        self._valid_until = 0.0
        """Time after which they are read again."""
        self._forms: tuple[tuple[str, bool], ...] = ()

    def add(self, values: Iterable[str]) -> None:
        """Adds values; ordinary words and numbers among them are ignored."""
        with self._lock:
            new_values = {value for value in values if _is_worth_hiding(value)} - self._added
            if new_values:
                self._added |= new_values
                self._make_forms()

    def forms(self) -> tuple[tuple[str, bool], ...]:
        """Each form, the longest first, and whether it is masked inside of words, too."""
        now = time.monotonic()
        variables = len(os.environ)
        if variables == self._variables and now < self._valid_until:
            return self._forms
        with self._lock:
            self._variables = variables
            self._valid_until = now + _SECONDS_VALID
            secrets = _secrets_of_environment()
            if secrets - self._environment:
                # A secret stays one when its variable is gone.
                self._environment |= secrets
                self._make_forms()
        return self._forms

    def _make_forms(self) -> None:
        """Makes the forms anew of all secrets; the longest first, as one may contain another."""
        forms: dict[str, bool] = {}
        for value in self._added | self._environment:
            for form in _forms(value):
                forms[form] = forms.get(form, False) or len(value) >= _MASKED_WITHIN_WORDS
        self._forms = tuple(sorted(forms.items(), key=lambda item: (-len(item[0]), item[0])))


def _secrets_of_environment() -> set[str]:
    """Values of variables with a telling name, and credentials in the texts and URLs of others."""
    values: set[str] = set()
    for name, text in os.environ.items():
        value = text.strip()
        if name not in _DIRECTORY_VARIABLES and _SECRET_VARIABLE.search(name.upper()):
            values.update(_lines(value))
        values.update(_secrets_in_text(value))
    return {value for value in values if _is_worth_hiding(value)}


_SECRETS = _Secrets()


@lru_cache(maxsize=512)
def _secrets_in_text(text: str) -> tuple[str, ...]:
    """The parts of a text that look like a credential, and the secrets of its URLs."""
    from urllib.parse import parse_qsl, unquote, urlsplit

    secrets = [text[start:end] for start, end in _spans_of_secrets(text)]
    for match in _URL.finditer(text):
        try:
            parts = urlsplit(match.group())
            if "@" in parts.netloc:
                secrets.append(parts.password or "")
            secrets += [value for name, value in parse_qsl(parts.query) if is_secret(name)]
        except ValueError:  # no URL after all
            continue
    secrets += [unquote(secret) for secret in secrets]
    lines: list[str] = []
    for secret in secrets:
        lines += _lines(secret)
    return tuple(lines)


def _lines(value: str) -> list[str]:
    """A value, and each of its lines: a key of several lines may be written line by line."""
    lines = [value.strip()]
    for line in re.split(r"[\r\n]+|\\+[nr]", value):  # line ends as they are, or escaped
        lines.append(line.strip())
    return lines


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
        MARKDOWN_SIGNS.sub(r"\\\g<0>", value),
        value.replace('"', '""'),
        value.replace("'", "'\"'\"'"),
    }
    # And each within JSON again, as in a command line in a manifest.
    return plain | {json.dumps(form)[1:-1] for form in plain}


def hide(*values: str | None) -> None:
    """Declares values to be secrets: from now on `hidden` masks them."""
    _SECRETS.add(value.strip() for value in values if value)


def hide_arguments(value: object) -> None:
    """Declares the credentials among nested settings to be secrets, so that `hidden` masks them.

    These are settings with a telling name, and the credentials in any text or URL.
    """
    if isinstance(value, Mapping):
        for name, setting in cast("Mapping[object, object]", value).items():
            # "${OPENAI_API_KEY}" is the name of a variable, and no secret.
            if isinstance(setting, str) and "${" not in setting and is_secret(str(name)):
                _SECRETS.add((setting.strip(),))
            hide_arguments(setting)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[object]", value):
            hide_arguments(item)
    elif isinstance(value, str):
        _SECRETS.add(_secrets_in_text(value))


def hidden(text: str) -> str:
    """A text without all secrets of this process, see `hide`, and without the keys of any issuer.

    The values of environment variables whose names say that they are secret are among them.
    """
    text = hidden_in_id(text)
    if not may_hold_key(text.encode("utf-8", "surrogatepass")):
        return text
    return _masked(text, _spans_of_keys(text))


def hidden_in_id(text: str) -> str:
    """An id, or anything else that is joined on, with all secrets of this process masked."""
    for form, is_masked_in_words in _SECRETS.forms():
        if form not in text:
            continue
        if is_masked_in_words:
            text = text.replace(form, MASK)
        else:
            text = _as_word(form).sub(MASK, text)
    return text


def hidden_in_document(text: str, *, ids: Iterable[str] = ()) -> str:
    """JSON or any other text with all masked that `hidden` masks.

    In JSON, ids keep their form, by the names of their fields.

    Args:
        ids: those of JSON whose fields have no names.
    """
    text = hidden_in_id(text)
    if not any(_spans_of_keys(text)):
        return text
    return _without_keys(text, frozenset(ids))


def hidden_bytes(data: bytes, *, ids: Iterable[str] = ()) -> bytes:
    """A text in UTF-8 as `hidden_in_document` gives it.

    Not for a format that holds lengths or offsets: the text becomes shorter.
    """
    # Most texts hold nothing to mask: they are not decoded.
    if not _SECRETS.forms() and not may_hold_key(data):
        return data
    text = data.decode("utf-8", "surrogateescape")
    return hidden_in_document(text, ids=ids).encode("utf-8", "surrogateescape")


def hidden_in_table(data: bytes) -> bytes:
    """A file in UTF-8 whose texts its writer has masked, and whose ids keep their form."""
    if not _SECRETS.forms():
        return data
    return hidden_in_id(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


_LEAST_OF_PRIVATE_KEY = 64
"""Characters of the body of a private key; a shorter one is an example in a document."""


def _spans_of_keys(text: str, *, is_message: bool = False) -> Iterator[tuple[int, int]]:
    """Start and end of each key in a text that is one by its form alone; they may overlap."""
    if not may_hold_key(text.encode("utf-8", "surrogatepass")):
        return
    yield from spans_of_keys(text, is_message=is_message)
    if "PRIVATE KEY" in text:
        for match in _shape("private_key").finditer(text):
            if len(match[1]) >= _LEAST_OF_PRIVATE_KEY:
                yield match.span(1)


_ID_NAME = re.compile(
    r"(?:.*[_ .-])?ids?|.*[a-z]I[Dd]s?|cases?|examples|clusters?|tags?|"
    r"(?:.*_)?sources?|documents?|file|file_?name|(?:file_)?path",
    re.DOTALL,
)
"""Fields whose values are joined on. A URL is none of them: it may carry a key."""


def _without_keys(text: str, ids: frozenset[str]) -> str:
    """JSON, a piece of it, or a line of it after the other, without the keys in its texts.

    Any other text has none of its keys either.
    """
    strings = _strings_of_json(text) or _strings_of_json(text.lstrip(_BEFORE_ENTRY))
    if not strings:
        lines = text.split("\n")
        if len(lines) > 1 and text[:1] in ("{", "["):
            return "\n".join([_without_keys(line, ids) for line in lines])
        return _masked(text, _spans_of_keys(text))
    ids_of_document = set(ids)
    keys: set[str] = set()
    for string, is_id in strings:
        if is_id:
            ids_of_document.add(string)
        else:
            keys.update(string[start:end] for start, end in _spans_of_keys(string))
    for key in sorted(keys, key=len, reverse=True):
        # Where an id has a key's form, the text that repeats it is left as it is, too.
        if not any(key in id_ for id_ in ids_of_document):
            text = text.replace(json.dumps(key)[1:-1], MASK)
    return text


_BEFORE_ENTRY = " \n,["
"""What stands before an entry of a list where JSON is written entry by entry."""


def _strings_of_json(text: str) -> list[tuple[str, bool]]:
    """Each string of JSON, and whether it is an id; none of what is no JSON."""
    try:
        return [*_strings(json.loads(text))]
    except (ValueError, RecursionError):
        return []


def _strings(value: object, *, is_id: bool = False) -> Iterator[tuple[str, bool]]:
    """Each string of a JSON value, and whether it is an id: a field's name says it, or is one."""
    if isinstance(value, str):
        yield value, is_id
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _strings(item, is_id=is_id)
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            yield name, True
            yield from _strings(item, is_id=_ID_NAME.fullmatch(name) is not None)


_BEFORE = (
    r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\[abfnrtv])|"
    r"(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2}))"
)
"""Before a word: no letter or digit, unless an escape such as ``%20`` ends with it."""


def _as_word(form: str) -> re.Pattern[str]:
    """A pattern of the form as a word of its own, with no letter or digit beside it."""
    return re.compile(rf"{_BEFORE}{re.escape(form)}(?![A-Za-z0-9])")
