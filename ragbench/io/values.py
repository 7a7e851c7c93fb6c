"""One JSON value, or one cell of a table, to one field of a record."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice, product
from typing import Any, TypeGuard, cast

import orjson

from ragbench.core.case import Evidence, Expectation, ExpectationKind, Turn
from ragbench.core.cited_sources import as_citations
from ragbench.core.in_words import ValueInWordsError
from ragbench.core.patterns import PatternProblem, checked_pattern
from ragbench.io.fields import field_names, squash

MAX_DEPTH = 200
"""How deep lists and objects may be nested; the JSON writer's own limit is 254."""

_NO_ERROR = frozenset({"", "none", "null", "nan", "false", "0"})
"""How programs write into a column of errors that there was none."""
_WHOLE_NUMBER = re.compile(r"\s*-?[0-9]{1,18}\s*")
"""A whole number as text; 18 digits always fit into 64 bits, and the JSON writer takes no more."""
_EXACT_INTEGERS = 2.0**53
"""From here on a float no longer tells neighbouring whole numbers apart: two ids may be one."""
_CONTAINERS = frozenset({list, dict})
"""The plain types alone, as JSON gives them: a set of types is quicker than an abstract check."""
_EVIDENCE_KEYS = frozenset({"text", "document_id", "start", "end"})
_HIGHEST_GRADE = 4
"""The highest relevance that `as_label` takes for a grade: a greater number is a score."""
_MOST_WORDINGS = 50
"""At most as many answers are made of parts: their number is a product, and has no bound."""


class ValueProblem(ValueInWordsError):
    """A value that its field cannot hold; the message says what was expected."""


def _wrong_kind(what: str, value: object) -> ValueProblem:
    """The problem of a value that is of the wrong kind, worded alike for all fields.

    The caller raises it, and the reader of the row adds the place.

    Args:
        what: the end of "expected ...", such as ``a number``.
    """
    return ValueProblem(f"expected {what}, found {describe(value)}")


def describe(value: object) -> str:
    """A value as the end of a sentence that begins with "expected text, found".

    It is short, since messages are lines in a list of many.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"
    if isinstance(value, str):
        # 40 characters show which value it is, and leave the message on one line.
        shown = value if len(value) <= 40 else f"{value[:37]}..."
        return f"'{shown}'"
    if is_list(value):
        return "a list"
    if is_object(value):
        return "an object"
    return f"a {type(value).__name__}"


def is_missing(value: object) -> bool:
    """Whether a value of a row says that nothing is known: null, NaN, or a blank text.

    NaN is how pandas writes an empty cell. Such a value must not become an empty answer.
    """
    if type(value) is str:
        return not value or value.isspace()
    if type(value) is float:
        return math.isnan(value)
    return value is None


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a value is a JSON object: any mapping is, since a RAG may return others than dict.

    It runs for every value of large files, so the commonest type is asked for first.
    """
    # The plain type first: an abstract check takes ten times as long.
    return type(value) is dict or isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a JSON list: text is none, though Python calls it a sequence, too.

    A tuple is one, since records hold their lists as tuples.
    """
    return isinstance(value, (list, tuple))


def as_list(value: object) -> list[object]:
    """The list that a value of a file is; an empty one for anything else, which a loop passes over.

    For files of other tools, of which a part that is missing or wrong is passed over.
    """
    return cast("list[object]", value) if is_list(value) else []


def as_object(value: object) -> Mapping[str, object]:
    """The object that a value of a file is; an empty one for anything else, without any name.

    For files of other tools, of which a part that is missing or wrong is passed over.
    """
    return value if is_object(value) else {}


# --- line ends


def line_feeds(text: str) -> str:
    """A text whose lines end in a line feed, so that a checkout on Windows is the same text.

    Ids and digests are made of texts, and would differ with the line ends.
    """
    # The pair first: its carriage return alone would become a line of its own.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def has_carriage_return(value: object) -> bool:
    """Whether a text, or any text in lists and objects, has a carriage return.

    Few have one: the look saves building the same value again for each record.
    """
    # Without recursion, which a value that is nested deep would exhaust.
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            if "\r" in item:
                return True
        elif type(item) is dict:
            waiting += cast("dict[str, object]", item).values()
        elif type(item) is list:
            waiting += cast("list[object]", item)
    return False


def with_line_feeds(value: object, depth: int = 0) -> object:
    """A value as it came, with line feeds for all line ends in each of its texts.

    Args:
        depth: how many lists and objects the value is in.
    """
    if type(value) is str:
        return line_feeds(value)
    if depth > MAX_DEPTH:  # `check_depth` refuses it when the record is converted
        return value
    if type(value) is dict:
        items = cast("dict[str, object]", value).items()
        return {name: with_line_feeds(item, depth + 1) for name, item in items}
    if type(value) is list:
        return [with_line_feeds(item, depth + 1) for item in cast("list[object]", value)]
    return value


# --- texts and ids


HOLDS_NUL = "the text holds a NUL character"
"""A message of its own, by which a record with several such fields is reported once."""


def as_text(value: object) -> str:
    """A text as it came; a number is no text, and a NUL character is refused.

    Databases and other programs end a text at a NUL. A field's value is checked here before any
    other code sees it.

    Raises:
        ValueProblem: it is no text, or holds a NUL character.
    """
    if type(value) is not str:
        raise _wrong_kind("text", value)
    if "\x00" in value:
        raise ValueProblem(HOLDS_NUL)
    return value


def as_id(value: object) -> str:
    """The id of a record or a document as text; 1 and 1.0 both become ``"1"``.

    pandas makes floats of whole numbers as soon as one cell of their column is empty: without this,
    the same id would not match itself. A float too large to be exact is refused, since two ids may
    be one.

    Raises:
        ValueProblem: it is neither text nor an exact number.
    """
    # Exact types: a flag is also an int in Python, and is no id.
    if type(value) is str:
        return as_text(value)
    if type(value) is int:
        return str(value)
    if type(value) is float and math.isfinite(value):
        if abs(value) >= _EXACT_INTEGERS:
            raise ValueProblem(f"the number {value!r} is too large to be exact: write it as text")
        if value.is_integer():
            return str(int(value))
        return repr(value)
    raise _wrong_kind("an id (text or a number)", value)


def as_texts(value: object, convert: Callable[[object], str] | None = None) -> tuple[str, ...]:
    """The texts of a field that takes several: a list, or one text as a list of one.

    Numbers become text, nulls are left out. It runs for each row of large files.

    Args:
        convert: makes text of what is no sound text; by default numbers become text.
    """
    if convert is None:
        convert = _text_or_number
    if not isinstance(value, (list, tuple)):
        return (convert(value),)
    texts: list[str] = []
    for item in cast("Sequence[object]", value):
        # Nearly every item is a sound text: seeing that first saves a call for each of them.
        if type(item) is str and "\x00" not in item:
            texts.append(item)
        elif item is not None:
            texts.append(convert(item))
    return tuple(texts)


as_ids = partial(as_texts, convert=as_id)
"""A list of ids; one id is a list of one, and nulls are left out."""


def as_ranked_ids(value: object) -> tuple[str, ...]:
    """The ids of retrieved chunks by rank; a missing one is empty.

    If it were left out, the ids behind it would move up a rank.
    """
    items = value if is_list(value) else [value]
    ids: list[str] = []
    for item in items:
        if is_missing(item):
            ids.append("")
        else:
            ids.append(as_id(item))
    return tuple(ids)


def _is_list_of_sound_texts(value: object) -> TypeGuard[list[str]]:
    """Whether a value is a list of texts without NUL: nearly all contexts are.

    Such a list needs no conversion, which saves time for each row.
    """
    if type(value) is not list:
        return False
    for item in cast("list[object]", value):
        if type(item) is not str or "\x00" in item:
            return False
    return True


def _text_or_number(value: object) -> str:
    """A text as it came, or a number as JSON writes it; anything else is refused.

    JSON files have numbers for answers such as ``42``, which are compared as text.
    """
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return json.dumps(value)
    return as_text(value)


def as_answers(value: object) -> tuple[str, ...]:
    """The right answers in a field, each once: a text or number, a list, or SQuAD's objects.

    Answers of several parts, each with its wordings, as RGB has them, become one text for each
    combination, at most `_MOST_WORDINGS`.
    """
    if type(value) is str:
        return (as_text(value),)
    if is_object(value):
        # The columns of SQuAD in Hugging Face's form: {"text": [...], "answer_start": [...]}.
        if value.get("text") is None:
            raise ValueProblem("expected a list of answers, or an object with them under 'text'")
        value = value["text"]
    items = as_list(value)
    if items and all(_is_list_of_sound_texts(item) and item for item in items):
        # The right answer has several parts, each with several wordings, as in RGB: each text holds
        # one wording of every part.
        combinations = islice(product(*map(as_texts, items)), _MOST_WORDINGS)
        answers = [", ".join(wordings) for wordings in combinations]
    elif not items:
        answers = [*as_texts(value)]
    else:
        texts: list[object] = []
        for item in items:
            if is_object(item):  # SQuAD's: {"text": ..., "answer_start": ...}
                texts.append(item.get("text", item))
            else:
                texts.append(item)
        answers = [*as_texts(texts)]
    return tuple(dict.fromkeys(answers))


def as_response(value: object) -> str:
    """The text that a system answered, as it came, also when it is empty; a number as text.

    An empty answer counts as an answer, and is scored.
    """
    if type(value) in (str, int, float):
        return _text_or_number(value)
    raise _wrong_kind("the response as text", value)


def as_contexts(value: object) -> object:
    """The retrieved chunks in a field: texts as a tuple; anything with objects in it as it came.

    What objects of chunks mean is found out later, over many records: see `ragbench.io.dumps`. No
    element may be null: the places of ids and scores would shift.
    """
    if _is_list_of_sound_texts(value):
        return tuple(value)
    if type(value) is str:
        return _keyed_chunks(value) or (as_text(value),)
    if is_object(value):
        return value
    if not is_list(value):
        raise _wrong_kind("a list of texts or objects", value)
    items = as_list(value)
    if any(is_object(item) or is_list(item) for item in items):
        return items
    return tuple([_text_or_number(item) for item in items])


def _keyed_chunks(text: str) -> list[object] | None:
    """The chunks in JSON text that holds each under its id, as results of Azure's RAG samples do.

    None for any other text: a passage may begin with a brace, too.
    """
    if text.lstrip()[:1] != "{":
        return None
    try:
        chunk_of_id = json.loads(text)
    except ValueError:
        return None
    chunks: list[object] = []
    text_names = field_names("hit")["text"]
    for id, chunk in chunk_of_id.items():
        if not is_object(chunk):
            return None
        # An object without a text is a field with a value of its own, and no chunk.
        if not any(chunk.get(name) for name in text_names):
            return None
        chunks.append({**chunk, "id": id})
    return chunks or None


def as_error(value: object) -> str:
    """The message of a field for errors, as text; empty where the value says that there was none.

    A case with an error counts as failed, so an empty column of errors must not become one.
    """
    if type(value) is str:
        text = value.strip()
        return "" if text.casefold() in _NO_ERROR else text
    # Null, false, 0 and an empty list: as programs say that nothing went wrong.
    if not value:
        return ""
    message = as_object(value).get("message")
    if type(message) is str:
        return message
    if type(value) in _CONTAINERS:
        return json.dumps(value, default=str)
    return str(value)


# --- numbers and flags


def _float_of(value: object) -> float | None:
    """A value as a float, NaN and the infinities too; None for what is no number.

    True and false are none, although Python counts with them, and neither is a whole number beyond
    the range of floats.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def as_score(value: object) -> float | None:
    """A score as a finite number, also when it is written as text; None when it is none.

    The caller decides whether a missing score is an error.
    """
    number = _float_of(value)
    if number is None or not math.isfinite(number):
        return None
    return number


def as_number(value: object) -> float:
    """A finite number of a field for numbers, also when it is written as text.

    Raises:
        ValueProblem: it is none: NaN would make every mean NaN.
    """
    number = as_score(value)
    if number is None:
        raise _wrong_kind("a number", value)
    return number


def as_share(value: object) -> float:
    """A number from 0 to 1, such as a confidence: calibration compares it with a share of answers.

    Raises:
        ValueProblem: it is no number, or a percentage from 0 to 100.
    """
    number = as_number(value)
    if not 0 <= number <= 1:
        raise _wrong_kind("a number from 0 to 1", value)
    return number


def as_numbers(value: object) -> tuple[float, ...]:
    """A list of numbers; ``"NaN"`` and the infinities, which JSON lacks, are spelled out.

    Scores of stores may be any of these, and go back into exports as they came.
    """
    if not is_list(value):
        raise _wrong_kind("a list of numbers", value)
    numbers: list[float] = []
    for item in value:
        number = _float_of(item)
        if number is None:
            raise ValueProblem(f"expected a list of numbers, found {describe(item)} in it")
        numbers.append(number)
    return tuple(numbers)


def as_flag(value: object) -> bool:
    """True or false of a field, also written as 1 and 0 or as a word such as ``yes``.

    Raises:
        ValueProblem: it is none of these; ``fields.toml`` lists the words.
    """
    if type(value) is bool:
        return value
    if type(value) in (int, float) and value in (0, 1):
        return bool(value)
    word = value.strip().lower() if type(value) is str else ""
    # The table has the words under "true" and under "false".
    for meaning, words in field_names("flag").items():
        if word in words:
            return meaning == "true"
    raise _wrong_kind("true or false", value)


def as_label(value: object) -> bool | None:
    """A person's judgement of a chunk or a query: yes and no, or a grade from 0 to 4.

    None for what is no label, such as a score; grades above 0 are yes.
    """
    # Only whole grades: 2.5 is a score, whose scale is not known.
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        is_grade = value in range(_HIGHEST_GRADE + 1)
        return value > 0 if is_grade else None
    try:
        return as_flag(value)
    except ValueProblem:
        return None


def _whole_number(value: object, what: str) -> int:
    """A whole number, also as 2.0 or "2": a column with gaps holds floats, a cell of a table text.

    Args:
        what: what the number is, such as ``grade``, for the message.
    """
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str and _WHOLE_NUMBER.fullmatch(value):
        return int(value)
    raise _wrong_kind(f"a whole number as {what}", value)


# --- objects


def as_grades(value: object) -> dict[str, int]:
    """Relevance of documents by their ids: whole numbers, 0 for judged and not relevant.

    Nulls are left out: Arrow gives every row the keys of all rows.
    """
    if not is_object(value):
        raise _wrong_kind("an object of id and grade", value)
    grades: dict[str, int] = {}
    for id, grade in value.items():
        # Arrow gives every row the keys of all rows, null where a row has none.
        if grade is not None:
            grades[as_id(id)] = _whole_number(grade, "grade")
    return grades


def as_evidence(value: object) -> tuple[Evidence, ...]:
    """The passages that support an answer: texts, or objects of text, document_id, start and end.

    A chunk that holds such a passage counts as relevant.
    """
    items = value if is_list(value) else [value]
    return tuple(map(_as_span, items))


def _as_span(item: object) -> Evidence:
    """A passage that supports an answer: a text, or an object with its place in a document.

    Keys that are not known are refused: a misspelled ``start`` would be lost in silence.
    """
    if not is_object(item):
        return Evidence(text=as_text(item))
    unknown = sorted(map(str, item.keys() - _EVIDENCE_KEYS))
    if unknown:
        raise ValueProblem(
            f"expected text, document_id, start and end, found unknown key '{unknown[0]}'"
        )
    if item.get("text") is None:
        raise ValueProblem("expected text, document_id, start and end, found no text")
    start = end = document_id = None
    if item.get("start") is not None:
        start = _whole_number(item["start"], "start")
    if item.get("end") is not None:
        end = _whole_number(item["end"], "end")
    # Where only the end is given, the passage may begin anywhere from 0 on.
    begins_before_text = start is not None and start < 0
    ends_before_start = end is not None and end < (start or 0)
    if begins_before_text or ends_before_start:
        raise ValueProblem(f"expected 0 <= start <= end, found start {start} and end {end}")
    text = as_text(item["text"])
    if item.get("document_id") is not None:
        document_id = as_id(item["document_id"])
    return Evidence(text=text, document_id=document_id, start=start, end=end)


def as_expected_texts(value: object) -> tuple[str, ...]:
    """Texts that an answer has to contain, or must not: one or a list.

    Raises:
        ValueProblem: one is blank: every answer would contain it.
    """
    texts = as_texts(value)
    if any(is_missing(text) for text in texts):
        raise ValueProblem("an expected text is blank: every answer would contain it")
    return texts


def as_expected_ids(value: object) -> tuple[str, ...]:
    """Names of documents that an answer must cite, or must not: one or a list.

    Each is a text, a number, or an object with a name under one of `_SOURCE_NAMES`.
    """
    items = value if is_list(value) else [value]
    names: list[object] = []
    for item in items:
        fields = as_object(item)
        for key in _SOURCE_NAMES:
            if key in fields:
                names.append(fields[key])
                break
        else:  # the name itself; of an object without a name `as_ids` says what is wrong
            names.append(item)
    return tuple([name for name in as_ids(names) if not is_missing(name)])


_SOURCE_NAMES = ("source", "document_id", "doc_id", "id", "file", "filename", "file_name", "name")
"""Keys of an object that name a document, the more telling ones first: the first one counts."""


def as_patterns(value: object) -> tuple[str, ...]:
    """Regular expressions that an answer has to match; a wrong one is a problem of its record.

    Each is compiled once here, so that none fails while answers are scored.
    """
    patterns = as_expected_texts(value)
    for pattern in patterns:
        try:
            checked_pattern(pattern)
        except PatternProblem as problem:
            raise ValueProblem(str(problem)) from problem
    return patterns


_EXPECTATION_KEYS = frozenset({"kind", "texts", "negated"})
_WITHOUT_TEXTS = (ExpectationKind.JSON, ExpectationKind.HOLDS_JSON)
"""Kinds that ask for the form of an answer, and need no text to compare it with."""


def as_expectations(value: object) -> tuple[Expectation, ...]:
    """What is expected of an answer, as ragbench writes it: objects of kind, texts and negated.

    So exported cases are read back with what their answers have to contain.
    """
    items = value if is_list(value) else [value]
    return tuple(map(_as_expectation, items))


def _as_expectation(item: object) -> Expectation:
    """An expectation of an answer, checked as strictly as one from a field such as `must_match`.

    A field of this name may also be the user's own: the message then says how to keep it.
    """
    if not is_object(item) or "kind" not in item or not item.keys() <= _EXPECTATION_KEYS:
        raise ValueProblem(
            "expected objects of kind, texts and negated, as ragbench writes them. Texts that an "
            "answer has to contain go under must_contain; --field expectations= keeps this field "
            "as metadata"
        )
    written = item["kind"]
    # A list, because the value may be of any type: not every one can be looked up in a set.
    if written not in list(ExpectationKind):
        known = ", ".join(ExpectationKind)
        raise ValueProblem(f"no kind of expectation {describe(written)}; known are {known}")
    kind = ExpectationKind(str(written))
    if kind is ExpectationKind.PATTERN:
        texts = as_patterns(item.get("texts"))
    elif kind in _WITHOUT_TEXTS:
        texts = ()
    else:
        texts = as_expected_texts(item.get("texts"))
    if not texts and kind not in _WITHOUT_TEXTS:
        raise ValueProblem(f"the expectation of kind '{kind}' has no texts")
    negated = item.get("negated")
    is_negated = negated is not None and as_flag(negated)
    return Expectation(kind=kind, texts=texts, negated=is_negated)


def as_behavior(value: object) -> tuple[object, bool | None]:
    """The value of `expected_behavior` as it came, and whether it says that the system answers.

    The second is None for words that say neither. The value comes along, since the record's
    metadata keeps it: it may hold more than that. ``fields.toml`` lists the words.
    """
    word = squash(value).replace("'", "") if isinstance(value, str) else ""
    for meaning, words in field_names("behavior").items():
        if word in map(squash, words):
            return value, meaning == "answers"
    return value, None


def as_metadata(value: object) -> dict[str, Any]:
    """An object of metadata, which may be nested `MAX_DEPTH` deep.

    Raises:
        ValueProblem: it is no object, or deeper: it could not be written again.
    """
    if not is_object(value):
        raise _wrong_kind("an object", value)
    metadata = dict(value)
    check_depth(metadata)
    return metadata


def check_depth(value: object) -> None:
    """Refuses a value that is nested too deep to be written again.

    It goes down level by level, without recursion, which such a value would exhaust.
    """
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for container in level:
            items: Iterable[object] = cast("list[object]", container)
            if type(container) is dict:
                items = cast("dict[str, object]", container).values()
            below += [item for item in items if type(item) in _CONTAINERS]
        if not below:
            return
        level = below
    raise ValueProblem(f"nested more than {MAX_DEPTH} levels deep")


# --- what was said

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
_EXPECTED_TURNS = (
    "expected turns of a conversation, each with who said it and what, such as "
    '{"role": "user", "content": "..."}'
)


def as_turns(value: object) -> tuple[Turn, ...]:
    """The turns of a conversation, the oldest first: the history of a question.

    Raises:
        ValueProblem: it is no list of turns, each with a role and a text.
    """
    if not is_list(value):
        raise ValueProblem(
            f"{_EXPECTED_TURNS}; found {describe(value)}. --field history= keeps it as metadata"
        )
    return tuple(map(_turn_of, value))


def _turn_of(value: object) -> Turn:
    """A turn of a conversation: an object of role and content, or a pair of them.

    Frameworks name role, text and contexts differently; ``fields.toml`` lists the names, and the
    words for the three roles.
    """
    contexts: object = None
    role: object = None
    content: object = None
    if is_object(value):
        # Of several names the first counts: for a role with a text, for contexts with any value.
        names = field_names("turn")
        roles = [value[name] for name in names["role"] if isinstance(value.get(name), str)]
        contents = [value[name] for name in names["text"] if name in value]
        context_lists = [value[name] for name in names["contexts"] if value.get(name) is not None]
        role = next(iter(roles), None)
        content = next(iter(contents), None)
        contexts = next(iter(context_lists), None)
    elif len(as_list(value)) == 2:
        role, content = as_list(value)
    if not isinstance(role, str) or not role.strip():
        raise ValueProblem(f"{_EXPECTED_TURNS}; found {describe(value)} in it")
    word = role.strip().casefold()
    # A role that no list knows stays as it is written.
    for name, words in field_names("role").items():
        if word in words:
            role = name
            break
    texts: tuple[str, ...] | None = None
    if contexts is not None:
        texts = _context_texts(contexts)
    return Turn(role=role, text=_content_text(content), contexts=texts)


def _content_text(content: object) -> str:
    """The text of a message's content, which may be a list of parts.

    Parts that are no text, such as images or calls of tools, are left out.
    """
    if content is None:
        return ""
    if not is_list(content):
        return as_text(content)
    texts: list[str] = []
    for part in content:
        text = part.get("text") if is_object(part) else part
        if text is not None:
            texts.append(as_text(text))
    return "\n".join(texts)


def _context_texts(contexts: object) -> tuple[str, ...]:
    """The texts of the contexts that an assistant's turn was given to answer from.

    A context without a text is left out: these only accompany the turn, so nothing is refused.
    """
    names = field_names("turn")["context_text"]
    texts: list[str] = []
    for context in as_list(contexts):
        text = context
        if is_object(context):
            values = [context[name] for name in names if name in context]
            text = values[0] if values else ""
        if isinstance(text, str):
            texts.append(text)
    return tuple(texts)


@cache
def converters() -> Mapping[str, Callable[[object], Any]]:
    """The function that checks and converts the value of each field of a case or a document.

    It is the function ``as_KIND`` of this module. The table ``values`` of ``fields.toml`` names the
    kind of a field: a new kind needs a function of that name here, and a renamed one would not be
    found.
    """
    functions: dict[str, Callable[[object], Any]] = {}
    for kind, fields in field_names("values").items():
        convert: Callable[[object], Any] = globals()[f"as_{kind}"]
        for field in fields:
            functions[field] = convert
    return functions


# --- cells of tables


class NumberText(str):
    """A cell that shows a number in a form of its own, such as ``25%``."""

    __slots__ = ("number",)
    number: str
    """The number that the cell holds, as a field for numbers reads it."""

    @classmethod
    def of(cls, text: str, number: str) -> NumberText:
        """A cell with the text that a person sees in it, and the number behind that text.

        ``str`` takes no second argument, so the number is set here.
        """
        cell = cls(text)
        cell.number = number
        return cell


_LISTS = (as_answers, as_texts, as_contexts, as_numbers, as_evidence)
"""Converters for which a cell in brackets is a list; `parse_cell` treats ids and texts earlier."""
_SPELLED_LISTS = (
    as_ids,
    as_ranked_ids,
    as_expected_texts,
    as_expected_ids,
    as_citations,
    as_texts,
    as_contexts,
    as_numbers,
    as_evidence,
)
"""Converters for which a text in brackets is a list outside of tables, too.

Answers are not among them: in JSON, "[citation needed]" is text that somebody meant so.
"""
_PRINTED_ITEM = re.compile(
    r"""\s*,?\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?[0-9]{1,18}(?:\.[0-9]*)?|None|nan)""",
    re.DOTALL,
)
"""A value of a printed list, with the comma before it, if there is one."""


def parse_cell(target: str, cell: str) -> object:
    """The JSON value that a cell of a table spells for a field, read on as one of a JSON file.

    A list is written as a JSON list, as Python prints one (pandas does), or as NumPy prints one.
    Ids and tags may also be separated by ``;`` or ``|``.

    Args:
        target: the field of a case or a document.
    """
    convert = converters()[target]
    if isinstance(cell, NumberText):
        is_number = convert in (as_number, as_share, as_numbers)
        cell = cell.number if is_number else str(cell)
    text = cell.strip()
    in_brackets = text.startswith("[") and text.endswith("]")
    if convert in (as_grades, as_metadata, as_turns):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            expected = "list" if convert is as_turns else "object"
            raise ValueProblem(f"expected a JSON {expected}: {error.msg}") from error
    if convert is as_expectations:
        return _parse_list(text) if in_brackets else text
    if convert in (as_expected_texts, as_expected_ids, as_citations):
        return _parse_list(text) if in_brackets else _split_expected(text)
    if convert in (as_ids, as_ranked_ids):
        return _parse_list(text) if in_brackets else _split_ids(target, text)
    if convert not in _LISTS or not in_brackets:
        return cell
    try:
        return _parse_list(text)
    except ValueProblem:
        # An answer such as "[citation needed]" is text; contexts are a list in every row.
        if convert is as_answers:
            return cell
        raise


def spelled_list(target: str, text: str) -> object:
    """The list that a text of a field for lists spells, as pandas prints one; else the text.

    JSON made from a table with pandas has lists as text. An answer in brackets stays a text:
    "[citation needed]" is what somebody wrote.

    Args:
        target: the field of a case or a document.
    """
    if converters()[target] in _SPELLED_LISTS and text.endswith("]"):
        with suppress(ValueProblem):
            return _parse_list(text)
    return text


def _parse_list(text: str) -> object:
    """The list that a text in brackets spells: as JSON, or else as Python or NumPy prints it.

    Raises:
        ValueProblem: it is none of these.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parse_printed(text)


def _parse_printed(text: str) -> list[object]:
    """The values of a list in a cell, as Python or NumPy prints it.

    NumPy prints ``['a' 'b']`` without commas, which Python itself would read as the one text
    ``'ab'``: so each value is matched on its own.

    Raises:
        ValueProblem: the text is no such list.
    """
    items: list[object] = []
    position = 1  # behind the bracket
    # The items end before the closing bracket, and before a comma in front of the bracket.
    end = len(text[:-1].rstrip().rstrip(",").rstrip())
    while position < end:
        match = _PRINTED_ITEM.match(text, position, end)
        if match is None:
            raise ValueProblem("expected a list of texts as JSON or as Python prints it")
        literal = "None" if match[1] == "nan" else match[1]
        try:
            # Printed lists escape line breaks; NumPy does not, and a bare one ends a literal.
            escaped = literal.replace("\n", "\\n").replace("\r", "\\r")
            items.append(ast.literal_eval(escaped))
        except (ValueError, SyntaxError) as error:
            raise ValueProblem(f"not a value as Python prints it: {literal[:40]}") from error
        position = match.end()
    return items


def _split_expected(text: str) -> list[str]:
    """The expected texts of a cell, separated by ``;`` or ``|``: a number may have a comma.

    A cell cannot hold a list. A text with one of these signs is written as a JSON list.
    """
    return _parts_between(text, "[;|]")


def _split_ids(target: str, text: str) -> list[str]:
    """The ids, or tags, of a cell without brackets.

    A comma may separate two ids or be part of one, so it is refused; only in tags it separates.

    Args:
        target: the field, of which ``tags`` alone allows a comma.
    """
    if target != "tags" and "," in text:
        raise ValueProblem(
            "holds a comma: separate several ids by ';', or write a JSON list such as "
            '["a", "b"] (also for one id with a comma in it)'
        )
    return _parts_between(text, "[;|,]" if target == "tags" else "[;|]")


def _parts_between(text: str, separators: str) -> list[str]:
    """The parts of a cell between separators; blank ones are left out: one may end the cell.

    Args:
        separators: a regular expression for one character.
    """
    parts = [part.strip() for part in re.split(separators, text)]
    return [part for part in parts if part]
