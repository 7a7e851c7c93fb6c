"""Conversations: what was said in turn, in the forms of other tools, and one case per answer.

Facts of the forms, as the tools write them: OpenAI's ``messages`` have a role and a content, a text
or a list of parts; RAGAS' ``MultiTurnSample`` a type and a content under ``user_input``; DeepEval's
``ConversationalTestCase`` ``turns`` with role, content and retrieval context; MTRAG a speaker and a
text. Histories are also written as pairs of a speaker and a text.

MTRAG and MTRAG-UN (IBM/mt-rag-benchmark): conversations that people had with a RAG.

Facts of their forms:

- tasks, a line each: ``history`` (pairs) or ``input`` (speaker, text), the question last;
  ``contexts`` that people marked as relevant, ``targets``; of a system ``predictions``.
- analytics: JSON with ``tasks``, ``documents`` and the answers of several models.
- conversations: JSON, a list with ``retriever`` and ``messages``; passages with ``feedback``.
- retrieval tasks: BEIR's queries as ``lastturn``, ``questions`` and ``rewrite`` of the same ids,
  judgements beside them under ``qrels/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, cast

from ragbench.core.case import Turn
from ragbench.io.detect import container_rows
from ragbench.io.fields import QRELS_FOLDER, named
from ragbench.io.json_files import load, read_json_lines
from ragbench.io.read import FieldMap
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.trec import judged_queries
from ragbench.io.values import (
    ASSISTANT,
    SYSTEM,
    USER,
    ValueProblem,
    as_list,
    as_object,
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
    for row in container_rows(source, problems, named("array")["conversations"]):
        names = named("turn")["conversation"]
        field = next((name for name in names if conversation_of(row.values.get(name))), None)
        if field is None:
            yield row
        else:
            source.notes[_SAID_BY] = None
            yield from conversation_rows(row, field, problems)


# --- MTRAG

Values = Mapping[str, object]

_ANSWERABLE = {"ANSWERABLE": True, "PARTIAL": True, "UNANSWERABLE": False}
"""Of questions that are underspecified, or no questions, it is unknown what is right."""
_TAKEN = frozenset(
    {"task_id", "conversation_id", "history", "input", "contexts", "targets", "predictions"}
    | {"annotations", "task_type"}
)
_SEPARATOR = re.compile("<::>|::")
"""Between the id of a conversation and the number of a turn."""
_SAYS = re.compile(r"^\|(\w+)\|: ?", re.MULTILINE)


def read_mtrag(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a question, with what was said before it."""
    if source.suffix != ".json":
        rows = read_json_lines(source, kind=kind, problems=problems)
        first = [*islice(rows, 1)]
        is_query = any("text" in row.values for row in first)
        yield from (_queries if is_query else _tasks)(chain(first, rows), source, problems)
        return
    value = load(source, problems)
    for number, one in enumerate(as_list(value), start=1):
        if is_object(one):
            yield from _conversation(Row(source.name, number, one), problems)
    whole = as_object(value)
    documents = [one for one in as_list(whole.get("documents")) if is_object(one)]
    texts = {str(one.get("document_id")): one.get("text") for one in documents}
    answers = _answers(whole, source)
    for number, task in enumerate(as_list(whole.get("tasks")), start=1):
        if is_object(task):
            answer = answers.get(task.get("task_id"))
            yield from _task(Row(source.name, number, task), texts, answer, problems)


def _answers(whole: Values, source: Source) -> dict[object, object]:
    """The answers of one model, by task; of none unless it is named."""
    given = [one for one in as_list(whole.get("evaluations")) if is_object(one)]
    models = [*dict.fromkeys(str(one.get("model_id")) for one in given)]
    if source.split is None:
        if models:
            note = f"MTRAG: it holds {len(given):,} answers of {', '.join(models)}"
            source.notes[f"{note}; --split MODEL scores those of one"] = None
        return {}
    model = source.chosen(models, noun="model")
    own = (one for one in given if str(one.get("model_id")) == model)
    return {one.get("task_id"): one.get("model_response") for one in own}


def _queries(rows: Iterator[Row], source: Source, problems: Problems) -> Iterator[Row]:
    qrels = None if source.path is None else source.path.parent / QRELS_FOLDER / "dev.tsv"
    queries = map(_query, rows)
    if qrels is None or not qrels.is_file():
        yield from queries
    else:
        yield from judged_queries(queries, Source.of(qrels), problems)


def _query(row: Row) -> Row:
    """A retrieval task: its question, and those before it, stand in one text."""
    name, parts = str(row.values.get("_id")), _SAYS.split(str(row.values.get("text")))
    turns = [Turn(role=USER, text=text.strip()) for text in parts[2::2]]
    cluster, *behind = _SEPARATOR.split(name)
    place = in_turn(turns[:-1], cluster, number=behind[-1] if behind else None)
    return row._replace(values={"_id": name, "query": turns[-1].text if turns else "", **place})


def _tasks(rows: Iterator[Row], source: Source, problems: Problems) -> Iterator[Row]:
    for row in rows:
        said = as_object(next(iter(as_list(row.values.get("predictions"))), None))
        yield from _task(row, {}, said.get("text"), problems)


def _task(row: Row, texts: Values, answer: object, problems: Problems) -> Iterator[Row]:
    task = row.values
    try:
        turns = as_turns(task.get("history", task.get("input")) or [])
    except ValueProblem as problem:
        problems.add(str(problem), path=row.path, line=row.line)
        return
    if not turns or turns[-1].role != USER:
        message = "expected turns of a conversation that end with the user's question"
        problems.add(message, path=row.path, line=row.line)
        return
    labels = {name.casefold(): value for name, value in task.items()}
    kinds = [str(one) for one in as_list(labels.get("answerability"))]
    tags = [*kinds, *map(str, as_list(labels.get("multiturn", labels.get("multi-turn"))))]
    cluster = task.get("conversation_id") or _SEPARATOR.split(str(task.get("task_id")))[0]
    yield row._replace(
        values={
            "id": task.get("task_id"),
            "query": turns[-1].text,
            **in_turn(before(turns, len(turns) - 1), str(cluster), tags),
            "reference": [_text_of(one) for one in as_list(task.get("targets"))],
            **_gold(task.get("contexts"), texts),
            "answerable": _ANSWERABLE.get(kinds[0]) if len(kinds) == 1 else None,
            **({} if answer is None else {"response": answer}),
            "metadata": {name: value for name, value in task.items() if name not in _TAKEN},
        }
    )


def _text_of(target: object) -> object:
    """A right answer: an object, a pair of speaker and text, or the text alone."""
    items = as_list(target)
    return target.get("text") if is_object(target) else items[-1] if items else target


def _gold(contexts: object, texts: Values) -> dict[str, object]:
    kept = [one for one in as_list(contexts) if is_object(one) and _is_relevant(one)]
    ids = [one.get("document_id", one.get("pid")) for one in kept]
    pairs = zip(kept, ids, strict=True)
    gold = [text for one, id in pairs if (text := one.get("text", texts.get(str(id))))]
    return {"reference_contexts": gold or None, "reference_context_ids": ids or None}


def _is_relevant(context: Values) -> bool:
    said = as_object(as_object(context.get("feedback")).get("relevant"))
    votes = [one.get("value") for one in said.values() if is_object(one)]
    return not votes or "yes" in votes


def _conversation(row: Row, problems: Problems) -> Iterator[Row]:
    """A task per question of a conversation; the agent's answer is the right one."""
    messages = [one for one in as_list(row.values.get("messages")) if is_object(one)]
    try:
        turns = as_turns(messages)
    except ValueProblem as problem:
        problems.add(str(problem), path=row.path, line=row.line, field="messages")
        return
    name = str(row.values.get("id") or f"conversation-{row.line}")
    for at, answer in exchanges(turns):
        number = sum(turn.role == USER for turn in turns[: at + 1])
        task: dict[str, object] = dict(as_object(messages[at].get("enrichments")))
        task |= {"task_id": f"{name}<::>{number}", "conversation_id": name}
        task["input"] = messages[: at + 1]
        if answer is not None:
            task["targets"] = [turns[answer].text]
            task["contexts"] = messages[answer].get("contexts")
        yield from _task(row._replace(values=task), {}, None, problems)
