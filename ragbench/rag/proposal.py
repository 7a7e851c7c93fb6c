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
"""Keys and lists on the way to a value that is looked at: hostile responses nest without end."""
_SHOWN_LEAVES = 40
"""Lines of a response that are shown."""
_LONGEST_ERROR = 200
"""Characters of a service's error that are shown."""
_LONGEST_SAMPLE = 60
"""Characters of a value that are shown."""

_LISTED_LEAVES = 12
"""Values that a message lists where no options fit: as many as a line or two hold."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""The words of a name: ``sourceURL`` has two, as has ``source_url``."""


@cache
def _proposal_table(name: str) -> dict[str, str]:
    """A table of ``proposal.toml``: words and names by which a response's fields are recognised.

    The words are data: a service with other names needs an entry there, and no code.
    """
    content = (get_data("ragbench.rag", "proposal.toml") or b"").decode()
    tables = cast("dict[str, dict[str, str]]", tomllib.loads(content))
    return tables[name]


@cache
def _words(kind: str) -> tuple[str, ...]:
    """Words of one kind, such as those in the names of answers, the most telling first.

    The order of the words is that of ``proposal.toml``.
    """
    words = _proposal_table("words")[kind]
    return tuple(words.split())


def question_fields() -> tuple[str, ...]:
    """The usual names of the field with the question, in the order in which they are tried.

    A service whose fields are unknown is asked by one after the other.
    """
    return tuple(_proposal_table("request")["question"].split())


class Leaf(Record):
    """A value of a response that is neither a list nor an object, with its path."""

    steps: tuple[Step, ...]
    value: object

    @property
    def text(self) -> str:
        """The path of this value as users write it for ``--take``.

        Lines of a proposal and of the shown tree hold it.
        """
        return text_of(self.steps)

    @property
    def name(self) -> str:
        """The name of this value: the last key of its path; empty without one.

        Answers, contexts, ids and scores are recognised by it.
        """
        for step in reversed(self.steps):
            if isinstance(step, str):
                return step
        return ""

    @property
    def words(self) -> list[str]:
        """The words of this value's name in lower case: ``sourceURL`` has two.

        A field is recognised by its words, however its name joins them.
        """
        return _words_in(self.name)

    @property
    def first_list(self) -> tuple[Step, ...]:
        """The path up to the first list that this value is in; empty where it is in none.

        A value in the same list as the contexts belongs to one of them.
        """
        if EACH not in self.steps:
            return ()
        return self.steps[: self.steps.index(EACH) + 1]

    @property
    def list_steps(self) -> tuple[Step, ...]:
        """The path up to the last list that this value is in; empty where it is in none.

        The text of a context and its id have this path in common: the ids that fit the contexts are
        those with the same one.
        """
        for length in range(len(self.steps), 0, -1):
            if self.steps[length - 1] is EACH:
                return self.steps[:length]
        return ()


def _words_in(name: str) -> list[str]:
    """The words of a name in lower case, however the name joins them.

    ``sourceURL`` and ``source_url`` give the same words.
    """
    return [word.lower() for word in _WORDS.findall(name)]


def leaves_of(body: Body) -> list[Leaf]:
    """The values of a response by path, each path once: a proposal chooses from these.

    A stream may have several documents, whose paths are joined here.
    """
    leaves: dict[tuple[Step, ...], Leaf] = {}
    for document in body.documents:
        _add_leaves_below(document, (), leaves)
    return list(leaves.values())


def _add_leaves_below(
    value: object, steps: tuple[Step, ...], leaves: dict[tuple[Step, ...], Leaf]
) -> None:
    """Adds the values below one of a response; an empty list or object is a value itself.

    At most 400 values and ten levels are looked at: a response may hold a whole corpus, and a
    hostile one nests without end.

    Args:
        value: what is at the path; a text may hold JSON of its own.
        steps: the path from the response to the value.
        leaves: takes the values by their paths.
    """
    if len(leaves) >= _MOST_LEAVES or len(steps) > _DEEPEST:
        return
    container = as_json(value)
    if is_object(container) and container:
        for key, entry in container.items():
            _add_leaves_below(entry, (*steps, key), leaves)
    elif is_list(container) and container:
        # Only in a list of lists: a single list of texts is no row.
        is_in_list = steps[-1:] == (EACH,)
        if is_in_list and _is_row(container):
            for position, entry in enumerate(container):
                _add_leaves_below(entry, (*steps, position), leaves)
        else:
            for element in container[:_MOST_ELEMENTS]:
                _add_leaves_below(element, (*steps, EACH), leaves)
    else:
        # All elements of a list have the same path, and the first that shows its kind counts: null
        # shows no kind of value, and an empty text little.
        present = leaves.get(steps)
        if present is None or present.value in (None, ""):
            leaves[steps] = Leaf(steps=steps, value=value)


def _is_row(elements: Sequence[object]) -> bool:
    """Whether a list within a list is a row, such as an id and a text, and no list of texts.

    The elements of a row mean different things: one of them is prose, and another one is not. So
    each element has a path of its own, by position.
    """
    prose_count = 0
    for element in elements:
        container = as_json(element)
        if is_object(container) or is_list(container):
            return False
        if isinstance(element, str) and " " in element.strip():
            prose_count += 1
    # A single text alone is no row: there is nothing that it could belong to.
    return prose_count == 1 and len(elements) > 1


def tree_of(body: Body) -> list[tuple[str, str]]:
    """The values of a response, each as its path for ``--take`` and a sample.

    Shown to whoever maps a service by hand: the path can be copied.
    """
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
    # A last line says how many leaves are not shown, lest the shown ones are taken for all.
    if len(leaves) > _SHOWN_LEAVES:
        lines.append(("...", f"and {len(leaves) - _SHOWN_LEAVES} more"))
    return lines


# --- what to take


def take_lines(body: Body, question: str = "") -> list[str]:
    """Values of ``--take`` that fit a response; none where nothing in it looks like an answer.

    A user copies them to evaluate the service.

    Args:
        question: what was asked, which some services repeat.
    """
    leaves = leaves_of(body)
    # Contexts first: a text in the same list as they are is no answer.
    contexts = _contexts_leaf(body, leaves)
    lines: list[str] = []
    answer = _answer_path(body, leaves, contexts, question)
    if answer is not None:
        lines.append(f"answer={answer.text}")
    if contexts is not None:
        lines.append(f"contexts={contexts.text}")
        lines += _ids_and_scores_beside(body, leaves, contexts)
    return lines


def proposed_take(body: Body) -> str:
    """A sentence with the options of ``--take`` that fit a response, or with what it holds.

    The error about a response that the mapping does not fit ends with this sentence.
    """
    lines = take_lines(body)
    if lines:
        return f"Try: {options_of('--take', lines)}"
    if not body.is_json:
        return "It is a text and no JSON: --take answer=. takes it as the answer"
    paths = [leaf.text for leaf in leaves_of(body)[:_LISTED_LEAVES]]
    listed = ", ".join(paths) or "nothing"
    return f"It holds {listed}"


def options_of(option: str, values: Sequence[str]) -> str:
    """An option of the command with each of its values, quoted as a shell takes them.

    Users copy it from an error into their command.
    """
    return " ".join(f"{option} {shlex.quote(value)}" for value in values)


def _json_path_of(steps: Sequence[Step]) -> JsonPath:
    """The path with these steps, and with its text as ``--take`` has it.

    A body is searched with it, and a proposal shows its text.
    """
    return JsonPath(text=text_of(steps), steps=tuple(steps))


def _answer_path(
    body: Body, leaves: Sequence[Leaf], contexts: Leaf | None, question: str
) -> JsonPath | None:
    """The path of the text that looks most like the answer; None where none does.

    The text's name decides and, of several texts with a name for answers, the length.

    Args:
        contexts: where the contexts are; their titles and summaries are no answers.
        question: what was asked, which some services repeat.
    """
    best: JsonPath | None = None
    best_rank: tuple[int, int] = (0, 0)
    for leaf in leaves:
        if not isinstance(leaf.value, str):
            continue
        if contexts is not None and _is_among_contexts(leaf, contexts):
            continue
        # Of a list such as "choices" the first element has the answer.
        path = _json_path_of([0 if step is EACH else step for step in leaf.steps])
        value = body.find(path, in_pieces=True)
        if not isinstance(value, str):
            continue
        text = value.strip()
        if not text or text == question.strip():
            continue
        name_rank = _answer_rank(leaf)
        if name_rank is None:
            continue
        # A text without a telling name must at least be of several words.
        is_answer = name_rank > 0 or " " in text
        rank = (name_rank, len(value))
        if is_answer and rank > best_rank:
            best = path
            best_rank = rank
    if best is None and not body.is_json:
        return _json_path_of(())  # the whole text
    return best


def _answer_rank(leaf: Leaf) -> int | None:
    """How much a value's name is that of an answer: 0 where it does not show, more if it does.

    None where it is that of a fact, such as an id.
    """
    words = leaf.words
    if not set(words).isdisjoint(_words("facts")):
        return None
    # From the end, so that the most telling word has the highest rank.
    least_telling_first = reversed(_words("answer"))
    for rank, word in enumerate(least_telling_first, start=1):
        if word in words:
            return rank
    return 0


def _contexts_leaf(body: Body, leaves: Sequence[Leaf]) -> Leaf | None:
    """The texts in a list that look most like retrieved contexts; None where none do.

    The names of the text and of the list around it decide, then the length of the texts.
    """
    best: Leaf | None = None
    best_rank = _NO_CONTEXTS
    for leaf in leaves:
        rank = _context_rank(body, leaf)
        # Of equal ranks the first in the response, whose order is the service's.
        if rank > best_rank:
            best = leaf
            best_rank = rank
    return best


_NO_CONTEXTS = (0, 0, 0)
"""The rank of what does not look like contexts, below that of all that does."""


def _context_rank(body: Body, leaf: Leaf) -> tuple[int, int, int]:
    """How much the texts at a path look like contexts.

    Tuples compare from the left, so a sign in the names outweighs any length.

    Returns:
        How many signs the names give, at most two: the text's own name and that of a list around
        it; how usual the text's own name is; and the length of the longest text.
    """
    text_names = field_names("hit")["text"]
    keys = [step for step in leaf.steps if isinstance(step, str)]
    is_of_chat = not set(keys).isdisjoint(_words("chat"))
    is_one_of_many = leaf.list_steps != () or body.is_stream
    if not is_one_of_many or is_of_chat:
        return _NO_CONTEXTS
    values = body.find(_json_path_of(leaf.steps), as_list=True)
    if not is_list(values) or not values:
        return _NO_CONTEXTS
    texts: list[str] = []
    for value in values:
        if not isinstance(value, str):
            return _NO_CONTEXTS
        texts.append(value.strip())
    has_name = leaf.name in text_names
    is_fact = not set(leaf.words).isdisjoint(_words("facts"))
    # "sources[]" with texts has the name of the list, and no other.
    has_own_name = leaf.steps[-1] is not EACH
    if is_fact and has_own_name and not has_name:
        return _NO_CONTEXTS
    words: set[str] = set()
    for key in keys:
        words.update(_words_in(key))
    is_in_contexts = not words.isdisjoint(_words("contexts"))
    is_prose = any(" " in text for text in texts)
    if not has_name and not (is_in_contexts and is_prose):
        return _NO_CONTEXTS
    # A text per event is a piece of the answer, unless its name says that it was retrieved.
    if not leaf.list_steps and not is_in_contexts:
        return _NO_CONTEXTS
    name_rank = 0
    if has_name:
        name_rank = len(text_names) - text_names.index(leaf.name)
    # Flags count as numbers: 1 for each sign in the names.
    return is_in_contexts + has_name, name_rank, max(map(len, texts))


def _ids_and_scores_beside(body: Body, leaves: Sequence[Leaf], contexts: Leaf) -> list[str]:
    """Lines of ``--take`` for the ids and scores beside the contexts in a response.

    A column counts only where it has a value for each context: else ids would be of other ones.
    """
    values = body.find(_json_path_of(contexts.steps), as_list=True)
    count = len(values) if is_list(values) else 0
    siblings: list[Leaf] = []
    for leaf in leaves:
        # In the same list as the texts, and in a list at all.
        is_in_list = leaf.list_steps == contexts.list_steps != ()
        if leaf.steps != contexts.steps and (is_in_list or _are_beside(leaf, contexts)):
            column = body.find(_json_path_of(leaf.steps), as_list=True)
            if is_list(column) and len(column) == count:
                siblings.append(leaf)
    lines: list[str] = []
    id_leaf = _best_id(siblings)
    if id_leaf is not None:
        lines.append(f"ids={id_leaf.text}")
    score_leaf = _best_score(siblings)
    if score_leaf is not None:
        lines.append(f"scores={score_leaf.text}")
    return lines


def _best_score(leaves: Sequence[Leaf]) -> Leaf | None:
    """The number beside the contexts that is named most like a score; None where none is.

    Names of distances are left out: as scores they would turn the order around.
    """
    numbers: dict[str, Leaf] = {}
    for leaf in leaves:
        if isinstance(leaf.value, (int, float)) and not isinstance(leaf.value, bool):
            numbers.setdefault(leaf.name, leaf)
    distances = field_names("hit")["distance"]
    for name in field_names("hit")["score"]:
        # Of distances the lower ones are better: as scores they would turn the order around.
        if name in numbers and name not in distances:
            return numbers[name]
    return None


def _is_among_contexts(leaf: Leaf, contexts: Leaf) -> bool:
    """Whether a value is in the list of the contexts, or beside a context in its event.

    A text in that place is a title or a summary, and no answer.
    """
    if _are_beside(leaf, contexts):
        return True
    return contexts.first_list != () and leaf.first_list == contexts.first_list


def _are_beside(leaf: Leaf, contexts: Leaf) -> bool:
    """Whether a value is in the same object as the text of an event with one context each.

    In a stream, contexts may come one per event and in no list: their ids are then beside them.
    """
    # In the same object, and not at the top, where everything is beside everything.
    return not contexts.list_steps and leaf.steps[:-1] == contexts.steps[:-1] != ()


def _best_id(leaves: Sequence[Leaf]) -> Leaf | None:
    """The value beside the contexts that is named most like an id; None where none is.

    Of equal names, the one nearer to the top wins over one in the metadata.
    """
    best: Leaf | None = None
    best_rank = (0, 0)
    for leaf in leaves:
        if isinstance(leaf.value, bool) or not isinstance(leaf.value, (str, int)):
            continue
        if isinstance(leaf.steps[-1], int):  # in a row, the first that is no prose
            is_prose = isinstance(leaf.value, str) and " " in leaf.value.strip()
            if best is None and not is_prose:
                best = leaf
            continue
        least_telling_first = reversed(_words("id"))
        for word_rank, word in enumerate(least_telling_first, start=1):
            # The whole name, too: "fileName" has the words "file" and "name".
            if word in leaf.words or leaf.name.lower() == word:
                rank = (word_rank, -len(leaf.steps))
                if rank > best_rank:
                    best = leaf
                    best_rank = rank
    return best


def error_in(body: Body) -> str:
    """The error that a service reports in a successful response, for the end of a message.

    Some services answer 200 and report in the body that something failed.
    """
    for document in body.documents:
        if not is_object(document):
            continue
        # In this order: a message beside an error is only its text.
        for name in ("error", "errors", "detail", "message"):
            error = document.get(name)
            if not error:
                continue
            if isinstance(error, str):
                text = error
            else:
                text = orjson.dumps(error, default=str).decode()
            return f". Its {name}: {shown_line(text, longest=_LONGEST_ERROR)}"
    return ""


# --- what to send

_NAME = r"[\"'`]?(?P<name>[A-Za-z_][\w.\[\]-]*)[\"'`]?"
"""The name of a field in a sentence, in quotes or without."""
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
    """The fields that a service's refusal names as missing.

    Read as FastAPI's form, as objects of messages by field, or out of a sentence.
    """
    try:
        document = cast("object", orjson.loads(text))
    except orjson.JSONDecodeError:
        document = None
    if is_object(document):
        fields = _fields_in_fastapi_errors(document) or _fields_in_messages(document)
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


def _fields_in_fastapi_errors(document: Mapping[str, object]) -> list[MissingField]:
    """The fields that a refusal in FastAPI's form names.

    The form is ``{"detail": [{"loc": ["body", "question"], "msg": ...}]}``.
    """
    details = document.get("detail")
    if not is_list(details):
        return []
    fields: list[MissingField] = []
    for detail in details:
        if not is_object(detail):
            continue
        location = detail.get("loc")
        if not is_list(location) or len(location) < 2:
            continue
        part_of_request = location[0]
        # A value of the wrong type is named as well; what is asked for is a field to send.
        names = [str(step) for step in location[1:] if not isinstance(step, int)]
        field = MissingField(name=".".join(names), is_parameter=part_of_request == "query")
        if names and field not in fields:
            fields.append(field)
    return fields


_NOT_FIELDS = ("message", "msg", "title")
"""Keys of a refusal that hold its own text, and name no field."""


def _fields_in_messages(document: Mapping[str, object]) -> list[MissingField]:
    """The fields that a refusal names in the form ``{"question": ["This field is required."]}``.

    Also below ``errors``, as other frameworks have it.
    """
    errors = document.get("errors")
    messages_of_fields = errors if is_object(errors) else document
    fields: list[MissingField] = []
    for name, messages in messages_of_fields.items():
        if name in _NOT_FIELDS or name.lower() in _words("no_field"):
            continue
        # Without "errors" around them only lists are meant: a text may be about anything.
        if not is_list(messages) and errors is None:
            continue
        texts = messages if is_list(messages) else [messages]
        if any(isinstance(text, str) and "require" in text.lower() for text in texts):
            fields.append(MissingField(name=name))
    return fields


def send_line(name: str, *, is_only: bool = False) -> str:
    """A line of ``--send`` for a field that a service asks for, such as ``question={query}``.

    Args:
        is_only: no other field is asked for, so that it takes the question whatever its name is.
    """
    last_key = name.rpartition(".")[2]
    value = _proposal_table("placeholders").get(last_key)
    question_names = {*question_fields(), *case_fields()["query"]}
    if value is None and (is_only or last_key.lower() in question_names):
        value = "{query}"
    if value is None:
        value = "VALUE"  # for whoever copies the option to replace
    return f"{name}={value}"


_HEADER = re.compile(r"\b(?:x-[a-z0-9-]*[a-z0-9]|(?:[a-z]+-)+(?:key|token))\b", re.I)
"""A header of its own that a refusal names, such as ``X-API-Key``."""


def asks_for_credentials(text: str = "", variable: str = "API_KEY") -> str:
    """The advice for a refusal by 401 or 403: the option that sends a key.

    Args:
        text: the refusal, which may name the header that it takes.
        variable: the environment variable that the key is usually in. In single quotes, the shell
            leaves it to ragbench.
    """
    key = f"${{{variable}}}"
    header = _HEADER.search(text)
    if header is not None:
        return f"It asks for credentials: --header '{header[0]}={key}'"
    return f"It asks for credentials: --header 'Authorization=Bearer {key}'"


def proposed_send(status: int, text: str, method: str, sent: Mapping[str, object]) -> str:
    """The advice for a refusal: how to ask the service, in a sentence with the options.

    Args:
        text: the body of its response.
        sent: the fields that it was sent.
    """
    # By status first, which is certain; only then is the text of the refusal read.
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
    names = [field.name for field in fields]
    parameters = [field.name for field in fields if field.is_parameter]
    # What lacks a field that it was sent as JSON does not read JSON.
    unread = [field for field in fields if field.name in sent and not field.is_parameter]
    if unread and method != "GET":
        return f"It may take a form: {form}"
    if parameters and method != "GET":
        is_only = len(parameters) == 1
        query = "&".join(send_line(name, is_only=is_only) for name in parameters)
        return f"It takes parameters of the address: '{method}:URL?{query}'"
    if fields:
        is_only = len(fields) == 1
        lines = [send_line(name, is_only=is_only) for name in names]
        return f"It asks for {', '.join(names)}. Try: {options_of('--send', lines)}"
    return "Say what it is sent with --send FIELD={query}"
