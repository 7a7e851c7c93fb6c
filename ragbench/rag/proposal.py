"""Proposals of a mapping: from a service's response, or its refusal, to the options that fit.

Nothing here is used to measure: whoever reads a proposal decides whether it is right.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pkgutil import get_data
from typing import cast

import orjson

from ragbench.core.record import Record
from ragbench.io.fields import case_fields, field_names
from ragbench.io.values import is_list, is_object
from ragbench.rag.json_path import EACH, JsonPath, Step, as_json, described_value, text_of
from ragbench.rag.response_body import Body
from ragbench.safe_text import shown_line

_MOST_LEAVES = 400
"""Values that are looked at; a response may hold a whole corpus."""
_MOST_ELEMENTS = 5
"""Elements of a list whose values are looked at; the others have the same keys as a rule."""
_DEEPEST = 10
_SHOWN_LEAVES = 40
"""Lines of a response that are shown."""
_LONGEST_ERROR = 200
"""Characters of a service's error that are shown."""
_LONGEST_SAMPLE = 60
"""Characters of a value that are shown."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@cache
def _table(name: str) -> dict[str, str]:
    """A table of ``proposal.toml``."""
    content = (get_data("ragbench.rag", "proposal.toml") or b"").decode()
    return cast("dict[str, dict[str, str]]", tomllib.loads(content))[name]


@cache
def _words(kind: str) -> tuple[str, ...]:
    """Words of a kind, in their order."""
    return tuple(_table("words")[kind].split())


def question_fields() -> tuple[str, ...]:
    """The usual names of the field with the question, in the order in which they are tried."""
    return tuple(_table("request")["question"].split())


class Leaf(Record):
    """A value of a response that is neither a list nor an object, with its path."""

    steps: tuple[Step, ...]
    value: object

    @property
    def text(self) -> str:
        """The path as it is written."""
        return text_of(self.steps)

    @property
    def name(self) -> str:
        """The last key of the path; empty without one."""
        for step in reversed(self.steps):
            if isinstance(step, str):
                return step
        return ""

    @property
    def words(self) -> list[str]:
        """The words of its name."""
        return [word.lower() for word in _WORDS.findall(self.name)]

    @property
    def first_list(self) -> tuple[Step, ...]:
        """The path up to its first list; empty where it is in none."""
        if EACH not in self.steps:
            return ()
        return self.steps[: self.steps.index(EACH) + 1]

    @property
    def list_steps(self) -> tuple[Step, ...]:
        """The path up to its last list; empty where it is in none."""
        for place in range(len(self.steps), 0, -1):
            if self.steps[place - 1] is EACH:
                return self.steps[:place]
        return ()


def leaves_of(body: Body) -> list[Leaf]:
    """The values of a response by path, each path once."""
    leaves: dict[tuple[Step, ...], Leaf] = {}
    for document in body.documents:
        _walk(document, (), leaves)
    return list(leaves.values())


def _walk(value: object, steps: tuple[Step, ...], leaves: dict[tuple[Step, ...], Leaf]) -> None:
    """Adds the values below one; an empty list and an empty object are values themselves."""
    if len(leaves) >= _MOST_LEAVES or len(steps) > _DEEPEST:
        return
    container = as_json(value)
    if is_object(container) and container:
        for key, entry in container.items():
            _walk(entry, (*steps, key), leaves)
    elif is_list(container) and steps[-1:] == (EACH,) and _is_row(container):
        for position, entry in enumerate(container):
            _walk(entry, (*steps, position), leaves)
    elif is_list(container) and container:
        for element in container[:_MOST_ELEMENTS]:
            _walk(element, (*steps, EACH), leaves)
    else:
        present = leaves.get(steps)
        # A null says nothing of the kind of a value, and an empty text little.
        if present is None or present.value in (None, ""):
            leaves[steps] = Leaf(steps=steps, value=value)


def _is_row(elements: Sequence[object]) -> bool:
    """Whether a list within a list is a row, such as an id and a text, and no list of texts.

    Its elements then mean different things: one of them is prose, and another one is not.
    """
    prose = 0
    for element in elements:
        if is_object(as_json(element)) or is_list(as_json(element)):
            return False
        prose += isinstance(element, str) and " " in element.strip()
    return prose == 1 and len(elements) > 1


def tree_of(body: Body) -> list[tuple[str, str]]:
    """The values of a response, each as its path for ``--take`` and a sample."""
    leaves = leaves_of(body)
    lines: list[tuple[str, str]] = []
    for leaf in leaves[:_SHOWN_LEAVES]:
        if isinstance(leaf.value, str):
            sample = f'"{shown_line(leaf.value, longest=_LONGEST_SAMPLE)}"'
        elif isinstance(leaf.value, (bool, int, float)):
            sample = orjson.dumps(leaf.value).decode()
        else:
            sample = described_value(leaf.value)
        lines.append((leaf.text, sample))
    if len(leaves) > _SHOWN_LEAVES:
        lines.append(("...", f"and {len(leaves) - _SHOWN_LEAVES} more"))
    return lines


# --- what to take


def take_lines(body: Body, question: str = "") -> list[str]:
    """Values of ``--take`` that fit a response; none where nothing in it looks like an answer.

    Args:
        question: what was asked, which some services repeat.
    """
    leaves = leaves_of(body)
    contexts = _contexts_leaf(body, leaves)
    lines: list[str] = []
    answer = _answer_path(body, leaves, contexts, question)
    if answer is not None:
        lines.append(f"answer={answer.text}")
    if contexts is not None:
        lines.append(f"contexts={contexts.text}")
        lines += _beside(body, leaves, contexts)
    return lines


def proposed_take(body: Body) -> str:
    """A sentence with the options that fit a response, or with what it holds."""
    lines = take_lines(body)
    if lines:
        return f"Try: {options_of('--take', lines)}"
    leaves = [leaf.text for leaf in leaves_of(body)[:12]]
    if not body.is_json:
        return "It is a text and no JSON: --take answer=. takes it as the answer"
    return f"It holds {', '.join(leaves) or 'nothing'}"


def options_of(option: str, lines: Sequence[str]) -> str:
    """Options as a shell takes them."""
    return " ".join(f"{option} {shlex.quote(line)}" for line in lines)


def _path(steps: Sequence[Step]) -> JsonPath:
    """A path of steps."""
    return JsonPath(text=text_of(steps), steps=tuple(steps))


def _answer_path(
    body: Body, leaves: Sequence[Leaf], contexts: Leaf | None, question: str
) -> JsonPath | None:
    """The path of the answer: by its name and, of several with such a name, by its length."""
    best: JsonPath | None = None
    best_rank: tuple[int, int] = (0, 0)
    for leaf in leaves:
        if not isinstance(leaf.value, str):
            continue
        if contexts is not None and _is_of_contexts(leaf, contexts):
            continue
        # Of a list such as "choices" the first element has the answer.
        path = _path([0 if step is EACH else step for step in leaf.steps])
        value = body.find(path, in_pieces=True)
        if not isinstance(value, str) or not value.strip() or value.strip() == question.strip():
            continue
        name_rank = _answer_rank(leaf)
        is_answer = name_rank is not None and (name_rank or " " in value.strip())
        rank = (name_rank or 0, len(value))
        if is_answer and rank > best_rank:
            best = path
            best_rank = rank
    if best is None and not body.is_json:
        return _path(())
    return best


def _answer_rank(leaf: Leaf) -> int | None:
    """How much a name is that of an answer; None where it is that of a fact, such as an id."""
    words = leaf.words
    if not set(words).isdisjoint(_words("facts")):
        return None
    for rank, word in enumerate(reversed(_words("answer")), start=1):
        if word in words:
            return rank
    return 0


def _contexts_leaf(body: Body, leaves: Sequence[Leaf]) -> Leaf | None:
    """The texts in a list that look most like what was retrieved."""
    best: Leaf | None = None
    best_rank = _NO_CONTEXTS
    for leaf in leaves:
        rank = _context_rank(body, leaf)
        if rank > best_rank:
            best = leaf
            best_rank = rank
    return best


_NO_CONTEXTS = (0, 0, 0)


def _context_rank(body: Body, leaf: Leaf) -> tuple[int, int, int]:
    """How much the texts at a path look like contexts: by the names, and by their length."""
    names = field_names("hit")["text"]
    keys = [step for step in leaf.steps if isinstance(step, str)]
    if not (leaf.list_steps or body.is_stream) or not set(keys).isdisjoint(_words("chat")):
        return _NO_CONTEXTS
    values = body.find(_path(leaf.steps), as_list=True)
    texts: list[str] = []
    for value in values if is_list(values) else ():
        if not isinstance(value, str):
            return _NO_CONTEXTS
        texts.append(value.strip())
    if not texts:
        return _NO_CONTEXTS
    has_name = leaf.name in names
    is_fact = not set(leaf.words).isdisjoint(_words("facts"))
    # "sources[]" with texts has the name of the list, and no other.
    if is_fact and not has_name and leaf.steps[-1] is not EACH:
        return _NO_CONTEXTS
    words = {word.lower() for key in keys for word in _WORDS.findall(key)}
    is_context = not words.isdisjoint(_words("contexts"))
    is_prose = any(" " in text for text in texts)
    if not has_name and not (is_context and is_prose):
        return _NO_CONTEXTS
    # A text per event is a piece of the answer, unless its name says that it was retrieved.
    if not leaf.list_steps and not is_context:
        return _NO_CONTEXTS
    name_rank = len(names) - names.index(leaf.name) if has_name else 0
    return is_context + has_name, name_rank, max(map(len, texts))


def _beside(body: Body, leaves: Sequence[Leaf], contexts: Leaf) -> list[str]:
    """The ids and scores of contexts, where all of them have one."""
    values = body.find(_path(contexts.steps), as_list=True)
    count = len(values) if is_list(values) else 0
    siblings: list[Leaf] = []
    for leaf in leaves:
        is_in_list = leaf.list_steps == contexts.list_steps != ()
        if leaf.steps != contexts.steps and (is_in_list or _are_beside(leaf, contexts)):
            column = body.find(_path(leaf.steps), as_list=True)
            if is_list(column) and len(column) == count:
                siblings.append(leaf)
    lines: list[str] = []
    id_leaf = _best_id(siblings)
    if id_leaf is not None:
        lines.append(f"ids={id_leaf.text}")
    distances = field_names("hit")["distance"]
    for name in field_names("hit")["score"]:
        for leaf in siblings:
            is_number = isinstance(leaf.value, (int, float)) and not isinstance(leaf.value, bool)
            if leaf.name == name and is_number and name not in distances:
                return [*lines, f"scores={leaf.text}"]
    return lines


def _is_of_contexts(leaf: Leaf, contexts: Leaf) -> bool:
    """Whether a value is in the list of the contexts, or beside a context in its event."""
    if _are_beside(leaf, contexts):
        return True
    return contexts.first_list != () and leaf.first_list == contexts.first_list


def _are_beside(leaf: Leaf, contexts: Leaf) -> bool:
    """Whether a value is in the same object as the text of an event with one context each."""
    return not contexts.list_steps and leaf.steps[:-1] == contexts.steps[:-1] != ()


def _best_id(leaves: Sequence[Leaf]) -> Leaf | None:
    """The leaf that is named most like an id; short names are nearer than those of metadata."""
    best: Leaf | None = None
    best_rank = (0, 0)
    for leaf in leaves:
        if isinstance(leaf.value, bool) or not isinstance(leaf.value, (str, int)):
            continue
        if isinstance(leaf.steps[-1], int):  # in a row, the first that is no prose
            if best is None and not (isinstance(leaf.value, str) and " " in leaf.value.strip()):
                best = leaf
            continue
        for rank, word in enumerate(reversed(_words("id")), start=1):
            if word in leaf.words or leaf.name.lower() == word:
                candidate = (rank, -len(leaf.steps))
                if candidate > best_rank:
                    best = leaf
                    best_rank = candidate
    return best


def error_in(body: Body) -> str:
    """The error that a service reports in a successful response, for the end of a message."""
    for document in body.documents:
        for name in ("error", "errors", "detail", "message"):
            error = document.get(name) if is_object(document) else None
            if error:
                text = (
                    error if isinstance(error, str) else orjson.dumps(error, default=str).decode()
                )
                return f". Its {name}: {shown_line(text, longest=_LONGEST_ERROR)}"
    return ""


# --- what to send

_NAME = r"[\"'`]?(?P<name>[A-Za-z_][\w.\[\]-]*)[\"'`]?"
_SAYS_MISSING = (
    re.compile(rf"{_NAME}\s+(?:is|are)?\s*(?:a\s+)?(?:required|missing|mandatory)\b", re.I),
    re.compile(
        rf"{_NAME}\s+(?:must|should|has to|needs to) be (?:provided|set|given|present|specified)\b",
        re.I,
    ),
    re.compile(
        rf"{_NAME}\s+(?:was not|is not|not) (?:provided|set|given|present|specified)\b", re.I
    ),
    re.compile(
        rf"{_NAME}\s+(?:must not|cannot|can't|may not|should not) be (?:empty|blank|null)\b",
        re.I,
    ),
    re.compile(rf"field\s+(?:is\s+)?(?:required|missing)\s*:\s*{_NAME}", re.I),
    re.compile(
        r"(?:missing|required|requires|expect(?:s|ed)?|must (?:have|contain|provide))\s*"
        r"(?:required\s+)?(?:the\s+)?(?:an?\s+)?(?:body\s+|query\s+)?"
        r"(?:fields?|parameters?|propert(?:y|ies)|keys?|arguments?|params?)\s*:?\s*" + _NAME,
        re.I,
    ),
    re.compile(r"(?:missing|required)\s*:?\s*[\"'`](?P<name>[A-Za-z_][\w.-]*)[\"'`]", re.I),
    re.compile(r"KeyError:?\s*\(?[\"'](?P<name>[A-Za-z_][\w.-]*)[\"']"),
)
"""How services say in words that a field is missing."""


_SAYS_GRAPHQL = re.compile(
    r"GraphQL|Syntax Error: (?:Unexpected|Expected)|must provide query string", re.I
)
"""How servers of GraphQL refuse what is no query of its language."""


class MissingField(Record):
    """A field that a service asks for."""

    name: str
    """With dots where it is in another."""
    is_parameter: bool = False
    """Whether it is one of the address, and not of the body."""


def missing_fields(text: str) -> list[MissingField]:
    """The fields that a refusal names: FastAPI's form, objects of messages, or words."""
    try:
        document = cast("object", orjson.loads(text))
    except orjson.JSONDecodeError:
        document = None
    fields = _of_fastapi(document)
    if not fields:
        fields = [*_of_messages(document)]
    if fields:
        return fields
    names: dict[str, None] = {}
    words = text.replace('\\"', '"')  # a quoted name within JSON
    for pattern in _SAYS_MISSING:
        for match in pattern.finditer(words):
            name = match["name"].strip(".-[]")
            if name and name.lower() not in _words("no_field"):
                names[name] = None
    return [MissingField(name=name) for name in names]


def _of_fastapi(document: object) -> list[MissingField]:
    """The fields of ``{"detail": [{"loc": ["body", "question"], "msg": ...}]}``."""
    details = document.get("detail") if is_object(document) else None
    fields: list[MissingField] = []
    for detail in details if is_list(details) else ():
        place = detail.get("loc") if is_object(detail) else None
        if not is_list(place) or len(place) < 2 or not is_object(detail):
            continue
        # A value of the wrong type is named as well; what is asked for is a field to send.
        names = [str(part) for part in place[1:] if not isinstance(part, int)]
        field = MissingField(name=".".join(names), is_parameter=place[0] == "query")
        if names and field not in fields:
            fields.append(field)
    return fields


def _of_messages(document: object) -> list[MissingField]:
    """The fields of ``{"question": ["This field is required."]}``, also below ``errors``."""
    if not is_object(document):
        return []
    inner = document.get("errors")
    fields: list[MissingField] = []
    for name, messages in (inner if is_object(inner) else document).items():
        texts = messages if is_list(messages) else [messages]
        has_text = any(isinstance(text, str) and "require" in text.lower() for text in texts)
        is_name = name.lower() not in _words("no_field") and name not in ("message", "msg", "title")
        if has_text and is_name and (is_list(messages) or inner is not None):
            fields.append(MissingField(name=name))
    return fields


def send_line(name: str, *, is_only: bool = False) -> str:
    """A value of ``--send`` for a field, by its name.

    Args:
        is_only: no other field is asked for, so that it takes the question whatever its name is.
    """
    last = name.rpartition(".")[2]
    placeholder = _table("placeholders").get(last)
    questions = {*question_fields(), *case_fields()["query"]}
    if placeholder is None and (is_only or last.lower() in questions):
        placeholder = "{query}"
    return f"{name}={placeholder or 'VALUE'}"


_HEADER = re.compile(r"\b(?:x-[a-z0-9-]*[a-z0-9]|(?:[a-z]+-)+(?:key|token))\b", re.I)
"""A header of its own that a refusal names, such as ``X-API-Key``."""


def asks_for_credentials(text: str = "", variable: str = "API_KEY") -> str:
    """What to do about a refusal by 401 or 403.

    Args:
        text: the refusal, which may name the header that it takes.
        variable: the environment variable that the key is usually in. In single quotes, the shell
            leaves it to ragbench.
    """
    header = _HEADER.search(text)
    if header is not None:
        return f"It asks for credentials: --header '{header[0]}=${{{variable}}}'"
    return f"It asks for credentials: --header 'Authorization=Bearer ${{{variable}}}'"


def proposed_send(status: int, text: str, method: str, sent: Mapping[str, object]) -> str:
    """A sentence that says how to ask a service that refused.

    Args:
        text: the body of its response.
        sent: the fields that it was sent.
    """
    if status in (401, 403):
        return asks_for_credentials(text)
    if status in (301, 302, 303):
        return "Give the address that it redirects to"
    if status in (404, 410):
        return "Nothing is at this address: give the whole one, such as POST:https://host/api/ask"
    if status == 405:
        untried = "POST" if method == "GET" else "GET"
        return f"It takes no {method}: try {untried}:URL"
    form = "--header Content-Type=application/x-www-form-urlencoded"
    if status == 415:
        return f"It takes no JSON: {form} sends a form"
    if _SAYS_GRAPHQL.search(text):
        return (
            "It speaks GraphQL. Send your query, with the question as a variable: --send "
            "'query=query($q: String!) { FIELD(question: $q) { answer } }' --send "
            "'variables.q={query}'"
        )
    fields = missing_fields(text)
    if any(field.name in sent for field in fields if not field.is_parameter) and method != "GET":
        return f"It may take a form: {form}"
    parameters = [field.name for field in fields if field.is_parameter]
    if parameters and method != "GET":
        query = "&".join(send_line(name, is_only=len(parameters) == 1) for name in parameters)
        return f"It takes parameters of the address: '{method}:URL?{query}'"
    if fields:
        names = ", ".join(field.name for field in fields)
        lines = [send_line(field.name, is_only=len(fields) == 1) for field in fields]
        return f"It asks for {names}. Try: {options_of('--send', lines)}"
    return "Say what it is sent with --send FIELD={query}"
