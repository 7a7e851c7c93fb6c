"""Labels of people: the page that asks for them, how far people agree, what is corrected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench.core.metric import Need
from ragbench.core.report import Correction
from ragbench.safe_text import counted
from ragbench.views.document import Section, number_text, range_text
from ragbench.views.html.page import Page, render

if TYPE_CHECKING:
    from ragbench.core.labels import Drawn, Judged, LabelTask, Raters


def ask_text(drawn: Drawn) -> str:
    """What a person decides."""
    is_paired = any(len(task.answers) > 1 for task in drawn.tasks)
    order = ", of the left answer first, then of the right one" if is_paired else ""
    keys = ", ".join(f"{choice.key} = {choice.value:g}" for choice in drawn.choices)
    return f"Your verdict{order}: {keys}; s if you are not sure."


CORRECTED_COLUMNS = (
    "metric",
    "uncorrected",
    "95% interval",
    "corrected",
    "95% interval",
    "labels",
    "r",
)


def corrected_rows(corrections: Sequence[Correction]) -> Iterator[tuple[str, ...]]:
    """A row for each figure: the metric's own, and what people make of it."""
    for correction in corrections:
        unit = correction.unit
        sign = len(correction.runs) > 1  # of a difference
        metric = correction.metric
        if correction.runs:
            metric += f" ({' - '.join(reversed(correction.runs))})"
        interval = "too few labels"
        if correction.interval is not None:
            interval = range_text(correction.interval, unit, sign=sign)
        yield (
            metric,
            number_text(correction.judged, unit, sign=sign),
            range_text(correction.judged_interval, unit, sign=sign),
            number_text(correction.corrected, unit, sign=sign),
            interval,
            f"{correction.labels:,} of {correction.cases:,}",
            number_text(correction.correlation),
        )


def corrected_text(correction: Correction) -> str:
    """A difference as people see it, and as the metric alone does."""
    metric, judged, judged_ends, corrected, ends, *_ = next(corrected_rows([correction]))
    interval = correction.interval
    is_shown = interval is not None and not interval.low <= 0.0 <= interval.high
    word = "shown to differ" if is_shown else "not shown to differ"
    return (
        f"{metric} by people: {corrected} ({ends}), {word}, from {correction.labels:,} labelled "
        f"pairs; uncorrected {judged} ({judged_ends})"
    )


def corrected_section(corrections: Sequence[Correction]) -> Section:
    """The figures that labels correct; empty where there are none."""
    return Section(
        title="Corrected by labels",
        columns=CORRECTED_COLUMNS,
        rows=list(corrected_rows(corrections)),
        hint="What people would say of all cases, from their labels of some: two-phase regression "
        "on the metric. r: how far it varies with them; the less, the less it saves labels.",
    )


def raters_text(raters: Raters) -> str:
    """How far several people agree."""
    kappa = number_text(raters.kappa)
    alpha = number_text(raters.alpha)
    return (
        f"{raters.metric}: {raters.people:,} people labelled the same "
        f"{counted(raters.items, 'answer')}: kappa {kappa}, alpha {alpha}. Their mean is used."
    )


def label_page(drawn: Drawn, *, by: str = "", shows_judge: bool = False) -> Page:
    """A page with a block for each case; the question is in it for every answer.

    Args:
        by: who labels, where that is known.
        shows_judge: whether the judge's value and the run are shown, too.
    """
    choices: list[dict[str, object]] = []
    for choice in drawn.choices:
        choices.append({**choice._asdict(), "value": f"{choice.value:g}"})
    tasks: list[dict[str, object]] = []
    for task in drawn.tasks:
        answers: list[dict[str, object]] = []
        for answer in task.answers:
            answers.append(_answer_values(drawn, task, answer, shows_judge=shows_judge))
        references = task.references if drawn.reads(Need.REFERENCE) else ()
        tasks.append({"question": task.question, "references": references, "answers": answers})
    values = {
        "metric": drawn.metric.name,
        "about": drawn.metric.definition.summary,
        "asks": ask_text(drawn),
        "of": drawn.of,
        "seed": drawn.seed,
        "by": by,
        "choices": choices,
        "tasks": tasks,
    }
    body = [render("label.html.jinja", values)]
    return Page(title=f"Labels: {drawn.metric.name}", body=body, script="label.js")


def _answer_values(
    drawn: Drawn, task: LabelTask, answer: Judged, *, shows_judge: bool
) -> dict[str, object]:
    """What ``label.html.jinja`` shows of an answer: only what the metric reads."""
    return {
        "line": json.dumps(drawn.line(task, answer)),
        "text": answer.answer if drawn.reads(Need.RESPONSE) else None,
        "judge": answer.value if shows_judge else None,
        "run": answer.run,
        "contexts": answer.contexts if drawn.reads(Need.RETRIEVED_CONTEXTS) else (),
    }
