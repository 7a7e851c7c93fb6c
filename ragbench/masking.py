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

MASK = "***"

# The words of a name: of camelCase, snake_case and kebab-case.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+")


@cache
def _credentials_table(name: str) -> dict[str, str]:
    """A table of ``credentials.toml``, which says how credentials look and what they are called.

    Read once. Names and forms are data there, so that a new one needs no code.
    """
    tables = tomllib.loads((get_data("ragbench", "credentials.toml") or b"").decode())
    return cast("dict[str, dict[str, str]]", tables)[name]


@cache
def _name_words(kind: str) -> frozenset[str]:
    """Words that the name of a credential contains, such as "token": a line of the table ``names``.

    `is_secret` decides by them, for settings and headers alike.

    Args:
        kind: the name of the line, which says where in a name they count.
    """
    return frozenset(_credentials_table("names")[kind].split())


@cache
def _shape_of_credential(name: str) -> re.Pattern[str]:
    """The pattern of one form of credential, with the secret as its group, or as a whole.

    Such forms are known by their look alone, as ``Authorization: Bearer ...``.

    Args:
        name: in the table ``shapes`` of ``credentials.toml``.
    """
    return re.compile(_credentials_table("shapes")[name])


def is_secret(name: str) -> bool:
    """Whether a setting or header of this name holds a credential.

    The values of such settings are masked wherever they occur. A name too many hides an ordinary
    value from a report; one too few publishes a key.

    Example:
        >>> [is_secret(name) for name in ("api_key", "X-Auth-Token", "max_tokens", "sort_key")]
        [True, True, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    # api_key_file says where the key is, and is none.
    if not words or words[-1] in _name_words("place"):
        return False
    if not _name_words("secret").isdisjoint(words) or words[-1] in _name_words("secret_at_end"):
        return True
    # A key is a credential behind some words only: api_key, and not sort_key.
    for word, next_word in pairwise(words):
        if next_word == "key" and word in _name_words("key_of"):
            return True
    return False


def mask_url(url: str) -> str:
    """A URL without user, password and the values of secret query parameters.

    Addresses of services are stored and shown, and many carry their credentials.

    Example:
        >>> mask_url("https://bob:pw@host/rag?api_key=1&lang=en")
        'https://***@host/rag?api_key=***&lang=en'
    """
    from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    # From the right: a password may hold an "@" itself.
    if "@" in parts.netloc:
        host = parts.netloc.rpartition("@")[2]
        parts = parts._replace(netloc=f"{MASK}@{host}")
    # A query without secrets stays as it is written, letter by letter.
    has_secrets = False
    parameters: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if is_secret(name):
            has_secrets = True
            parameters.append((name, MASK))
        else:
            parameters.append((name, value))
    # Written anew only with a secret, as that changes how letters are escaped.
    if has_secrets:
        parts = parts._replace(query=urlencode(parameters, safe="*"))
    return urlunsplit(parts)


def mask_text(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without these secrets, all that `hidden` masks, and what looks like a credential.

    For messages, settings and descriptions. A user's data are masked by `hidden` alone: a document
    may explain where a key goes, as in ``Authorization: Bearer TOKEN``.

    Args:
        secrets: further values that are masked.
    """
    # The longest first: one secret may be part of another.
    longest_first = sorted(secrets, key=len, reverse=True)
    for secret in longest_first:
        if secret:
            text = text.replace(secret, MASK)
    text = hidden(text)
    if "://" in text:
        text = _URL.sub(lambda url: mask_url(url[0]), text)
    return _masked(text, _spans_of_secrets(text))


def _masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text in which `MASK` is in the place of each span; overlapping ones get one mask.

    A text without spans is returned as it is: nearly all are.

    Args:
        spans: start and end of each, in any order.
    """
    ordered_spans = sorted(spans)
    if not ordered_spans:  # nearly all texts: none of them is copied
        return text
    parts: list[str] = []
    masked_to = 0  # all before this position is in the parts
    for start, end in ordered_spans:
        if start >= masked_to:  # else the span overlaps with the one before
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
"""Characters of a value that is no credential, up to which it is searched once more."""
_SHORTEST_VALUE = 4
"""Characters of a value behind a telling name that is masked."""
# Values that are no credential, whatever the name before them: words of programs, numbers, and an
# environment variable by its name, ${API_KEY}. `_VALUE` may end before the closing brace.
_NO_CREDENTIAL = re.compile(
    rf"none|null|true|false|undefined|bearer|basic|[\d.,:%+-]+|\$\{{\w+\}}?|{re.escape(MASK)}",
    re.IGNORECASE,
)


def _spans_of_secrets(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each part of a text that looks like a credential; they may overlap.

    For messages and settings. In a user's data so much would be masked that is only about
    credentials.
    """
    yield from _spans_of_issued_keys(text, is_message=True)
    for kind in _credentials_table("shapes"):
        for match in _shape_of_credential(kind).finditer(text):
            # The group of the pattern is the secret; without a group all of it is.
            group = match.lastindex or 0
            # "Bearer ${API_KEY}" names a variable.
            if not match[group].startswith("${"):
                yield match.span(group)

    # Values behind a telling name. The search goes on behind a value that is a credential, and else
    # behind the name: the value may be a name itself, as in "authorization: api_key=abc".
    position = 0
    while True:
        name = _NAME.search(text, position)
        if name is None:
            return
        position = name.end()
        if not is_secret(name[1]):
            continue
        value = _VALUE.match(text, position)
        if value is None:
            continue
        is_quoted = value[2] is not None
        group = 2 if is_quoted else 0  # within the quotes
        if _is_credential(name[1], name[2], value[group], is_quoted=is_quoted):
            yield value.span(group)
            position = value.end()
        elif value.end() - position > _LONGEST_PROSE:
            # "token:token:token:...": to look at the same long value behind each name would take
            # time that grows with its square.
            position = value.end()


def _is_credential(name: str, sign: str, value: str, *, is_quoted: bool) -> bool:
    """Whether the value behind a telling name is a credential, and not a word or a number.

    "token: unexpected" is prose, and "eos_token=50256" a setting of a model.

    Args:
        name: such as ``token``.
        sign: ``=`` or ``:``, which is between name and value.
    """
    if len(value) < _SHORTEST_VALUE:
        return False
    # The number of "eos_token=50256" is none; but a password may be a number.
    if _NO_CREDENTIAL.fullmatch(value):
        return value.isdecimal() and "pass" in name.lower()
    # "token: unexpected" is prose; "x-api-key: abcdef" and "password=abcdef" are not.
    may_be_prose = sign == ":" and not is_quoted and name.isalpha()
    if not may_be_prose:
        return True
    has_digits = any(character.isdecimal() for character in value)
    return has_digits and len(value) >= _SHORTEST_SECRET


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
"""Characters of the shortest value that is masked wherever it occurs."""
_ORDINARY_WORD = re.compile(r"[a-z]+|[A-Z]+|[A-Z][a-z]+|[\d.,:-]+|true|false|none", re.IGNORECASE)
_LONGER_THAN_WORDS = 12
"""A value of at least this length is not an ordinary word, even if it is of letters alone."""
_MASKED_WITHIN_WORDS = 16
"""A shorter value is masked only as a word of its own, and not within a longer word."""
_SECONDS_VALID = 0.5
"""Seconds after which the environment is read again: a RAG may load a file of variables."""


def _is_worth_hiding(value: str) -> bool:
    """Whether a secret value is no ordinary word or number, so that masking it harms no other text.

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
        """Begins without secrets; the environment is read when secrets are first asked for."""
        # Several threads ask models at once, and each may add a secret.
        self._lock = threading.Lock()
        # Secrets that code has added, and those that the environment has or had.
        self._added: set[str] = set()
        self._environment: set[str] = set()
        # No environment has -1 variables, so that the first look reads it.
        self._variables = -1
        """Number of environment variables when the environment was last read."""
        self._valid_until = 0.0
        """Time after which the environment is read again."""
        # Every spelling in which a secret may be in a text, and whether it is masked within words,
        # too.
        self._forms: tuple[tuple[str, bool], ...] = ()

    def add(self, values: Iterable[str]) -> None:
        """Adds values to the secrets of this process; ordinary words and numbers are ignored.

        They are added by whatever reads a key, from any thread.
        """
        secrets = {value for value in values if _is_worth_hiding(value)}
        with self._lock:
            # To make the forms takes time, and the same values are added for each case.
            if not secrets <= self._added:
                self._added |= secrets
                self._make_forms()

    def forms(self) -> tuple[tuple[str, bool], ...]:
        """Each form of each secret, the longest first, and whether it is masked within words.

        The environment is read again after `_SECONDS_VALID`, since a RAG may load a file of
        variables at any time.
        """
        now = time.monotonic()
        variables = len(os.environ)
        # A new variable changes their number; a changed value shows after the time is over.
        if variables == self._variables and now < self._valid_until:
            return self._forms
        with self._lock:
            self._variables = variables
            self._valid_until = now + _SECONDS_VALID
            secrets = _secrets_of_environment()
            if not secrets <= self._environment:
                # A secret stays one when its variable is gone.
                self._environment |= secrets
                self._make_forms()
        return self._forms

    def _make_forms(self) -> None:
        """Makes the forms of all secrets anew, the longest first, as one may contain another.

        A form is the secret as JSON, a URL or a shell writes it; a short form is masked as a whole
        word only.
        """
        masked_in_words: dict[str, bool] = {}
        for secret in self._added | self._environment:
            is_long = len(secret) >= _MASKED_WITHIN_WORDS
            for form in _escaped_forms(secret):
                # Two secrets may have a form in common, of which one is long.
                masked_in_words[form] = is_long or masked_in_words.get(form, False)
        self._forms = tuple(sorted(masked_in_words.items(), key=_longest_form_first))


def _longest_form_first(item: tuple[str, bool]) -> tuple[int, str]:
    """The sort key of a secret's form: longer ones first, equally long ones by their letters.

    A shorter form may be a part of a longer one, whose rest would stay if the short one came first.

    Args:
        item: the form, and whether it is masked inside of words.
    """
    form, _ = item
    return (-len(form), form)


def _secrets_of_environment() -> set[str]:
    """The secrets in the environment's variables: values of telling names, credentials in others.

    Libraries and a RAG read their keys there, and an error may repeat one.
    """
    values: set[str] = set()
    for name, text in os.environ.items():
        value = text.strip()
        if name not in _DIRECTORY_VARIABLES and _SECRET_VARIABLE.search(name.upper()):
            values.update(_value_and_lines(value))
        values.update(_secrets_in_text(value))
    # Short values are words of any text: to mask them would spoil it.
    return {value for value in values if _is_worth_hiding(value)}


_SECRETS = _Secrets()


@lru_cache(maxsize=512)
def _secrets_in_text(text: str) -> tuple[str, ...]:
    """The parts of a text that look like a credential, and the secrets of the URLs in it.

    Both as they are written and without a URL's percent signs, as a program has them that has read
    it.
    """
    from urllib.parse import parse_qsl, unquote, urlsplit

    secrets = [text[start:end] for start, end in _spans_of_secrets(text)]
    for url in _URL.finditer(text):
        try:
            parts = urlsplit(url[0])
            if parts.password:
                secrets.append(parts.password)
            for name, value in parse_qsl(parts.query):
                if is_secret(name):
                    secrets.append(value)
        except ValueError:  # no URL after all
            continue
    # Also without the percent signs, as a program has a secret that it has read from the URL.
    secrets += [unquote(secret) for secret in secrets]
    lines: list[str] = []
    for secret in secrets:
        lines += _value_and_lines(secret)
    return tuple(lines)


def _value_and_lines(value: str) -> list[str]:
    """A secret value, and each of its lines: a key of several lines may be written line by line.

    A private key has lines, and each of them alone gives a part of it away.
    """
    lines = [value.strip()]
    for line in re.split(r"[\r\n]+|\\+[nr]", value):  # line ends as they are, or escaped
        lines.append(line.strip())
    return lines


def _escaped_forms(value: str) -> set[str]:
    """A secret value as JSON, Python, URLs, HTML, Markdown, CSV and shells write it.

    A secret with a quote or a percent sign would else escape its mask in one of these files.
    """
    from urllib.parse import quote, quote_plus

    # One form for each kind of file and sign: the text that is masked may be of any kind.
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
    # And each within JSON again, as a command line in a manifest is a shell's text within JSON.
    in_json = {json.dumps(form)[1:-1] for form in plain}
    return plain | in_json


def hide(*values: str | None) -> None:
    """Declares values to be secrets of this process: from now on `hidden` masks them everywhere.

    Called where a key is read, so that no code that makes texts needs to think of it.
    """
    _SECRETS.add(value.strip() for value in values if value)


def hide_arguments(value: object) -> None:
    """Declares the credentials among nested settings to be secrets, so that `hidden` masks them.

    These are settings with a telling name, and the credentials in any text or URL. A user writes
    keys into files of settings, from which they would get into manifests and errors.
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

    The values of environment variables whose names say that they are secret are among them. Called
    in the few places where text leaves the process: files, reports, the terminal.
    """
    without_secrets = hidden_in_id(text)
    return _masked(without_secrets, _spans_of_issued_keys(without_secrets))


def hidden_in_id(text: str) -> str:
    """An id, or anything else that is joined on, with all secrets of this process masked.

    Without the keys of issuers: two ids that are masked by their form would become one, and their
    cases mixed up.
    """
    for form, is_masked_in_words in _SECRETS.forms():
        # The quick look first: most texts hold no secret.
        if form not in text:
            continue
        if is_masked_in_words:
            text = text.replace(form, MASK)
        else:
            # As a whole word: a short secret may be a part of a longer id.
            text = _word_pattern(form).sub(MASK, text)
    return text


def hidden_in_document(text: str, *, ids: Iterable[str] = ()) -> str:
    """JSON or any other text with everything masked that `hidden` masks.

    In JSON, ids keep their form, by the names of their fields: cases are joined by them.

    Args:
        ids: those of JSON whose fields have no names.
    """
    text = hidden_in_id(text)
    if not any(_spans_of_issued_keys(text)):
        return text
    return _without_keys(text, frozenset(ids))


def hidden_bytes(data: bytes, *, ids: Iterable[str] = ()) -> bytes:
    """A text in UTF-8, masked as `hidden_in_document` masks it; how files are made safe to share.

    Not for a format that holds lengths or offsets: the text becomes shorter.
    """
    from ragbench.issuers import may_hold_key  # as in `_spans_of_issued_keys`

    # Most texts hold nothing to mask: they are not decoded.
    if not _SECRETS.forms() and not may_hold_key(data):
        return data
    text = data.decode("utf-8", "surrogateescape")
    return hidden_in_document(text, ids=ids).encode("utf-8", "surrogateescape")


def hidden_in_table(data: bytes) -> bytes:
    """A file in UTF-8 with the secrets of this process masked, and nothing by its form alone.

    For a table whose texts its writer has masked already, and whose ids must keep their form.
    """
    if not _SECRETS.forms():  # the common case needs no copy of a large file
        return data
    text = data.decode("utf-8", "surrogateescape")
    return hidden_in_id(text).encode("utf-8", "surrogateescape")


_LEAST_OF_PRIVATE_KEY = 64
"""Characters of the body of a private key; a shorter one is an example in a document."""


def _spans_of_issued_keys(text: str, *, is_message: bool = False) -> Iterator[tuple[int, int]]:
    """The start and end of each key of an issuer or private key in a text; they may overlap.

    These are known by their form alone; the secrets that this process knows are masked by
    `hidden_in_id`.

    Args:
        is_message: no text of a user, but an error's or a setting's: more counts as a key there.
    """
    # Imported late: most commands mask nothing and need no table of issuers.
    from ragbench.issuers import may_hold_key, spans_of_keys

    if not may_hold_key(text.encode("utf-8", "surrogatepass")):
        return
    yield from spans_of_keys(text, is_message=is_message)
    if "PRIVATE KEY" in text:
        for match in _shape_of_credential("private_key").finditer(text):
            body = match[1]
            if len(body) >= _LEAST_OF_PRIVATE_KEY:
                yield match.span(1)


_ID_NAME = re.compile(
    r"(?:.*[_ .-])?ids?|.*[a-z]I[Dd]s?|cases?|examples|clusters?|tags?|"
    r"(?:.*_)?sources?|documents?|file|file_?name|(?:file_)?path",
    re.DOTALL,
)
"""Fields whose values are joined on. A URL is none of them: it may carry a key."""


def _without_keys(text: str, ids: frozenset[str]) -> str:
    """JSON, a piece of it, or JSON in lines, without the keys of issuers in its texts.

    Ids in it keep their form, since cases are joined by them. Any other text is masked as a whole.

    Args:
        ids: further texts that are ids.
    """
    strings = _strings_of_json(text) or _strings_of_json(text.lstrip(_BEFORE_ENTRY))
    if not strings:
        lines = text.split("\n")
        may_be_json_lines = len(lines) > 1 and text[:1] in ("{", "[")
        if may_be_json_lines:
            return "\n".join([_without_keys(line, ids) for line in lines])
        return _masked(text, _spans_of_issued_keys(text))
    ids_of_document = set(ids)
    keys: set[str] = set()
    for string, is_id in strings:
        if is_id:
            ids_of_document.add(string)
            continue
        for start, end in _spans_of_issued_keys(string):
            keys.add(string[start:end])
    # The longest first: one key may be part of another.
    for key in sorted(keys, key=len, reverse=True):
        # Where an id has a key's form, the text that repeats it is left as it is, too.
        if any(key in id_ for id_ in ids_of_document):
            continue
        key_in_json = json.dumps(key)[1:-1]
        text = text.replace(key_in_json, MASK)
    return text


_BEFORE_ENTRY = " \n,["
"""What stands before an entry of a list where JSON is written entry by entry."""


def _strings_of_json(text: str) -> list[tuple[str, bool]]:
    """Each string of a JSON text, and whether it is an id; empty where the text is no JSON.

    Only strings may hold a key, and ids among them keep their form.
    """
    try:
        return [*_strings_with_ids(json.loads(text))]
    except (ValueError, RecursionError):
        return []


def _strings_with_ids(value: object, *, is_id: bool = False) -> Iterator[tuple[str, bool]]:
    """Each string of a JSON value, and whether it is an id, by which cases are joined.

    A value is one by the name of its field; a field's name counts as one itself.

    Args:
        is_id: whether strings of this value are ids.
    """
    if isinstance(value, str):
        yield value, is_id
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _strings_with_ids(item, is_id=is_id)
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            # A field's name may be an id: results are often keyed by case.
            yield name, True
            names_id = _ID_NAME.fullmatch(name) is not None
            # By the name of this field alone: names within it decide anew, entries of a list do
            # not.
            yield from _strings_with_ids(item, is_id=names_id)


_BEFORE = (
    r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\[abfnrtv])|"
    r"(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2}))"
)
"""Before a word: no letter or digit, unless an escape such as ``%20`` ends with it."""


def _word_pattern(form: str) -> re.Pattern[str]:
    """A pattern of a secret's form as a word of its own, with no letter or digit beside it.

    A short secret is masked only so: "abcdef1" may be a part of many words.
    """
    return re.compile(rf"{_BEFORE}{re.escape(form)}(?![A-Za-z0-9])")
