"""What people said of an answer in production: read from traces, written as labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ragbench.core.trace import Trace
from ragbench.io.atomic import written_whole
from ragbench.io.dumps.form import getter, opened_json
from ragbench.io.export import Exported, Scores
from ragbench.io.fields import read_table
from ragbench.io.json_text import in_case, json_bytes
from ragbench.io.values import is_list, is_object

Values = Mapping[str, object]


@cache
def _table() -> tuple[Mapping[str, tuple[Callable[[object], object], ...]], Mapping[str, str]]:
    """Where the parts of one are, and what the words of a verdict or of a source stand for."""
    held = read_table("span_forms.toml")
    parts = {name: tuple(map(getter, row.split())) for name, row in held["feedback"].items()}
    words = held["feedback_words"].items()
    return parts, {word: what for what, row in words for word in row.split()}


def feedback_of(value: object) -> Iterator[dict[str, Any]]:
    """Each score that was given, with its ``name`` and ``value``, and who gave it and why.

    Args:
        value: a list of scores, or an object with one or their mean for each name.
    """
    value = opened_json(value)
    if is_object(value):
        value = [
            {"name": name, **(one if is_object(one) else {"value": one})}
            for name, one in value.items()
        ]
    parts, words = _table()
    for one in value if is_list(value) else ():
        row = {
            part: held
            for part, finders in parts.items()
            if (held := next(filter(_is_said, (find(one) for find in finders)), None)) is not None
        }
        if {"name", "value"} <= row.keys():
            kind = words.get(str(row.pop("source", "")).lower())
            yield {**row, "is_model": True} if kind == "model" else row


def _is_said(value: object) -> bool:
    return isinstance(value, (str, int, float)) and value != ""


def as_label(value: object) -> float | None:
    """A verdict as a number: 1 for a thumb up, a yes; None for a word that is none."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    said = _table()[1].get(str(value).strip().lower())
    return {"up": 1.0, "down": 0.0}.get(said or "")


def write_labels(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """People's feedback as labels, a line each, with the question, contexts and answer judged."""
    done = Exported(paths=(path,))
    with written_whole(path, make_folders=True) as file:
        for trace in traces:
            rows = [*_labels(trace, done)]
            with in_case(trace.case.id):
                file.writelines(json_bytes(row) + b"\n" for row in rows)
            done.written += bool(rows)
    return done


def _labels(trace: Trace, done: Exported) -> Iterator[dict[str, Any]]:
    case, answer, context = trace.case, trace.generation.value, trace.context.value
    given = case.metadata.get("feedback")
    if not is_list(given) or answer is None:
        done.leave_out("no answer is recorded" if given else "nobody gave feedback")
        return
    for one in given:
        value = as_label(one.get("value")) if is_object(one) else None
        if not is_object(one) or value is None:
            done.leave_out("the feedback is neither a number nor yes or no")
        elif one.get("is_model"):
            done.leave_out("the feedback is a model's")
        else:
            yield {
                "case": case.id,
                "question": case.query,
                "contexts": [] if context is None else context.contexts,
                "answer": answer.response,
                "metric": one.get("name"),
                "value": value,
                "by": one.get("by"),
            }
