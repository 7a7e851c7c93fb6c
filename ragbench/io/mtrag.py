"""MTRAG and MTRAG-UN (IBM/mt-rag-benchmark): conversations that people had with a RAG.

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
from collections.abc import Iterator, Mapping
from itertools import chain

from ragbench.core.case import Turn
from ragbench.io.fields import QRELS_FOLDER
from ragbench.io.json_files import load, read_json_lines
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.trec import judged_queries
from ragbench.io.turns import before, exchanges, in_turn
from ragbench.io.values import USER, ValueProblem, as_list, as_turns, is_object

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
        first = next(rows, None)
        rest = rows if first is None else chain((first,), rows)
        is_query = first is not None and "text" in first.values
        yield from (_queries if is_query else _tasks)(rest, source, problems)
        return
    value = load(source, problems)
    for number, one in enumerate(as_list(value), start=1):
        if is_object(one):
            yield from _conversation(Row(source.name, number, one), problems)
    whole: Values = value if is_object(value) else {}
    documents = [one for one in as_list(whole.get("documents")) if is_object(one)]
    texts = {str(one.get("document_id")): one.get("text") for one in documents}
    known = len(problems)
    answers = _answers(whole, source, problems)
    if len(problems) > known:
        return
    for number, task in enumerate(as_list(whole.get("tasks")), start=1):
        if is_object(task):
            answer = answers.get(task.get("task_id"))
            yield from _task(Row(source.name, number, task), texts, answer, problems)


def _answers(whole: Values, source: Source, problems: Problems) -> dict[object, object]:
    """The answers of one model, by task; of none unless it is named."""
    given = [one for one in as_list(whole.get("evaluations")) if is_object(one)]
    models = [*dict.fromkeys(str(one.get("model_id")) for one in given)]
    if source.split is None:
        if models:
            note = f"MTRAG: it holds {len(given):,} answers of {', '.join(models)}"
            source.notes[f"{note}; --split MODEL scores those of one"] = None
        return {}
    if source.chosen(models, problems, what="model") is None:
        return {}
    own = (one for one in given if str(one.get("model_id")) == source.split)
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
        said = next(iter(as_list(row.values.get("predictions"))), None)
        yield from _task(row, {}, said.get("text") if is_object(said) else None, problems)


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
    feedback = context.get("feedback")
    said = feedback.get("relevant") if is_object(feedback) else None
    votes = [one.get("value") for one in said.values() if is_object(one)] if is_object(said) else []
    return not votes or "yes" in votes


def _conversation(row: Row, problems: Problems) -> Iterator[Row]:
    """A row per question of a conversation; the agent's answer is the right one."""
    messages = [one for one in as_list(row.values.get("messages")) if is_object(one)]
    try:
        turns = as_turns(messages)
    except ValueProblem as problem:
        problems.add(str(problem), path=row.path, line=row.line, field="messages")
        return
    name = str(row.values.get("id") or f"conversation-{row.line}")
    for at, answer in exchanges(turns):
        said = messages[at].get("enrichments")
        labels: Values = said if is_object(said) else {}
        found = labels.get("Answerability", labels.get("answerability"))
        kinds = [str(one) for one in as_list(found)]
        place = in_turn(before(turns, at), name, kinds)
        number = str(as_list(place["tags"])[-1]).removeprefix("turn-")
        values: dict[str, object] = {
            "id": f"{name}<::>{number}",
            "query": turns[at].text,
            "answerable": _ANSWERABLE.get(kinds[0]) if len(kinds) == 1 else None,
            **place,
        }
        if answer is not None:
            values["reference"] = turns[answer].text
            values |= _gold(messages[answer].get("contexts"), {})
        yield row._replace(values=values)
