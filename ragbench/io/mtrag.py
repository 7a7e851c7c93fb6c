"""MTRAG's tasks (IBM/mt-rag-benchmark): the last turn of a conversation is the case.

Two forms: a line a task with ``history``, ``contexts`` and ``targets``, and JSON with ``tasks`` and
``documents``. In both, contexts are the passages that people marked as relevant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from ragbench.io.json_files import load, read_json_lines
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import is_object

_SAID_TO_BE = {"ANSWERABLE": True, "PARTIAL": True, "UNANSWERABLE": False}
"""Of questions that are underspecified, or no questions, it is unknown what is right."""
_HISTORY_NOTE = (
    "MTRAG: the last question of each conversation is asked alone; what was said before is in the "
    "metadata as 'history'"
)


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    if source.suffix == ".json":
        yield from _of_whole(source, problems)
        return
    for row in read_json_lines(source, kind=kind, problems=problems):
        yield from _of_task(row, {}, source, problems)


def _of_whole(source: Source, problems: Problems) -> Iterator[Row]:
    value = load(source, problems)
    if not is_object(value):
        return
    documents = [one for one in _list(value.get("documents")) if is_object(one)]
    texts = {str(one.get("document_id")): one.get("text") for one in documents}
    for number, task in enumerate(_list(value.get("tasks")), start=1):
        if is_object(task):
            yield from _of_task(Row(source.name, number, task), texts, source, problems)


def _of_task(
    row: Row, texts: Mapping[str, object], source: Source, problems: Problems
) -> Iterator[Row]:
    task = row.values
    turns = [_turn(one) for one in _list(task.get("history", task.get("input")))]
    contexts = [one for one in _list(task.get("contexts")) if is_object(one)]
    if not turns or turns[-1]["speaker"] != "user":
        message = "expected turns of a conversation that end with the user's question"
        problems.add(message, path=row.path, line=row.line)
        return
    if len(turns) > 1:
        source.notes[_HISTORY_NOTE] = None
    labels = {name.casefold(): value for name, value in task.items()}
    told = [str(one) for one in _list(labels.get("answerability"))]
    gold = [text for one in contexts if (text := one.get("text", texts.get(str(_id(one)))))]
    conversation, _, _ = str(task.get("task_id")).partition("<::>")
    taken = {"task_id", "history", "input", "contexts", "targets", "annotations", "task_type"}
    yield row._replace(
        values={
            "id": task.get("task_id"),
            "query": turns[-1]["text"],
            "reference": [_turn(one)["text"] for one in _list(task.get("targets"))],
            "reference_contexts": gold or None,
            "reference_context_ids": [_id(one) for one in contexts] or None,
            "answerable": _SAID_TO_BE.get(told[0]) if len(told) == 1 else None,
            "cluster": conversation,
            "tags": [*told, *map(str, _list(labels.get("multiturn", labels.get("multi-turn"))))],
            "metadata": {
                "history": turns[:-1],
                **{name: value for name, value in task.items() if name not in taken},
            },
        }
    )


def _id(context: Mapping[str, object]) -> object:
    return context.get("document_id", context.get("pid"))


def _turn(value: object) -> dict[str, object]:
    """A turn: an object with speaker and text, both in a list, or the text alone."""
    if is_object(value):
        return {"speaker": value.get("speaker"), "text": value.get("text")}
    if isinstance(value, list) and len(items := cast("list[object]", value)) == 2:
        return {"speaker": items[0], "text": items[1]}
    return {"speaker": None, "text": value}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
