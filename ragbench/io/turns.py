"""Conversations: what was said in turn, in the forms of other tools, and one case per answer.

Facts of the forms, as the tools write them: OpenAI's ``messages`` have a role and a content, a text
or a list of parts; RAGAS' ``MultiTurnSample`` a type and a content under ``user_input``; DeepEval's
``ConversationalTestCase`` ``turns`` with role, content and retrieval context; MTRAG a speaker and a
text. Histories are also written as pairs of a speaker and a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ragbench.core.case import Turn
from ragbench.io.detect import container_rows
from ragbench.io.fields import FieldMap, named
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import (
    ASSISTANT,
    SYSTEM,
    USER,
    ValueProblem,
    as_list,
    as_turns,
    is_list,
    is_object,
)

_OF_ALL = frozenset({"cluster", "tags", "language", "metadata"})
"""What a record says of each question of its conversation; the rest is of the last one."""


_SAID_BY = (
    "a case an answer, with what was said before; the assistant's messages are read as a system's "
    "answers: where they are the right ones, add --field reference=response"
)


def turn_object(turn: Turn) -> dict[str, Any]:
    contexts = {} if turn.contexts is None else {"contexts": list(turn.contexts)}
    return {"role": turn.role, "text": turn.text, **contexts}


def in_turn(
    history: Sequence[Turn], cluster: str, tags: object = (), *, number: object = None
) -> dict[str, object]:
    """What a case has of its place in a conversation.

    Args:
        number: of its turn; counted when not given.
    """
    number = number or 1 + sum(turn.role == USER for turn in history)
    known = as_list(tags) if is_list(tags) else [] if tags is None else [tags]
    said = [turn_object(turn) for turn in history]
    return {"history": said, "cluster": cluster, "tags": [*known, f"turn-{number}"]}


def exchanges(turns: Sequence[Turn]) -> Iterator[tuple[int, int | None]]:
    """Where each question stands, and its answer: the last text before the next question.

    The last question of a conversation may have none.
    """
    asked = [at for at, turn in enumerate(turns) if turn.role == USER]
    for at, behind in zip(asked, [*asked, len(turns)][1:], strict=True):
        said = [n for n in range(at, behind) if turns[n].role == ASSISTANT and turns[n].text]
        if said or behind == len(turns):
            yield at, said[-1] if said else None


def before(turns: Sequence[Turn], question: int) -> list[Turn]:
    """What a question is read with: whatever was said, but for orders to the system."""
    return [turn for turn in turns[:question] if turn.role != SYSTEM and turn.text]


def conversation_of(value: object) -> bool:
    items = as_list(value)
    return bool(items) and all(
        is_object(item) and any(name in item for name in named("turn")["role"]) for item in items
    )


def conversation_rows(row: Row, field: str, problems: Problems) -> Iterator[Row]:
    """A row per answer of a conversation, with what was said before.

    One that ends with a question, of a record that says what is right or was answered, is one case.
    """
    record = {name: value for name, value in row.values.items() if name != field}
    bound = {source: target for target, source in FieldMap("cases", {})[tuple(record)].bindings}
    try:
        turns = as_turns(row.values[field])
    except ValueProblem as problem:
        problems.add(str(problem), path=row.path, line=row.line, field=field)
        return
    asked = [*exchanges(turns)]
    if not asked:
        message = "expected a conversation in which a user asks something"
        problems.add(message, path=row.path, line=row.line, field=field)
        return
    is_told = any(target not in (*_OF_ALL, "id", "query") for target in bound.values())
    if asked[-1][1] is None and is_told:
        asked = asked[-1:]
    rules = "\n".join(turn.text for turn in turns if turn.role == SYSTEM)
    names = named("turn")["name"]
    found = (str(record[name]) for name in names if record.get(name) not in (None, ""))
    name = next(found, f"conversation-{row.line}")
    rest = {n: v for n, v in record.items() if n not in names}
    rest |= {"system": rules} if rules else {}
    shared = {n: v for n, v in rest.items() if bound.get(n, "metadata") in _OF_ALL}
    for at, answer in asked:
        place = in_turn(before(turns, at), name, record.get("tags"))
        values = {**(rest if at == asked[-1][0] else shared), **place}
        values["id"] = f"{name}/{cast('list[str]', place['tags'])[-1]}"
        values["query"] = turns[at].text
        if "cluster" in record:
            values["cluster"] = record["cluster"]
        if answer is not None:
            values["response"] = turns[answer].text
            if (contexts := turns[answer].contexts) is not None:
                values["retrieved_contexts"] = list(contexts)
        yield row._replace(values=values)


def read_conversations(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per answer of each record's ``messages``, ``turns`` or ``conversation``."""
    del kind
    for row in container_rows(source, problems, named("array")["conversations"]):
        names = named("turn")["conversation"]
        field = next((name for name in names if conversation_of(row.values.get(name))), None)
        if field is None:
            yield row
        else:
            source.notes[_SAID_BY] = None
            yield from conversation_rows(row, field, problems)
