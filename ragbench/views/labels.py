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
    """The sentence that asks a person for a verdict, with the keys.

    Terminal and page show the same.
    """
    # One pair is enough: the sentence is for all tasks.
    is_paired = any(len(task.answers) > 1 for task in drawn.tasks)
    order = ""
    if is_paired:
        order = ", of the left answer first, then of the right one"
    keys = [f"{choice.key} = {choice.value:g}" for choice in drawn.choices]
    return f"Your verdict{order}: {', '.join(keys)}; s if you are not sure."


CORRECTED_COLUMNS = (
    "metric",
    "uncorrected",
    "95% interval",
    "corrected",
    "95% interval",
    "labels",
    "r",
)
"""The columns of `corrected_rows`, in terminal, Markdown and page."""


def corrected_rows(corrections: Sequence[Correction]) -> Iterator[tuple[str, ...]]:
    """A row for each figure that labels of people correct, under `CORRECTED_COLUMNS`.

    The metric's own value and interval, those that people's labels make of it, and the number of
    labels.
    """
    for correction in corrections:
        unit = correction.unit
        sign = len(correction.runs) > 1  # a difference is shown with its sign
        metric = correction.metric
        if correction.runs:
            # As a subtraction: the later run less the earlier one.
            runs = " - ".join(reversed(correction.runs))
            metric += f" ({runs})"
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
    """A sentence on the difference of two runs as people's labels show it, beside the metric's own.

    Whether the runs differ is decided by the labels' interval: people are believed before a judge.
    """
    # The last columns, of labels and of r, are not needed here.
    metric, judged, judged_ends, corrected, ends, *_ = next(corrected_rows([correction]))
    result = "not shown to differ"
    interval = correction.interval
    # An interval that holds 0 leaves open which run is better.
    if interval is not None and not interval.low <= 0.0 <= interval.high:
        result = "shown to differ"
    return (
        f"{metric} by people: {corrected} ({ends}), {result}, from {correction.labels:,} labelled "
        f"pairs; uncorrected {judged} ({judged_ends})"
    )


def corrected_section(corrections: Sequence[Correction]) -> Section:
    """The section of the figures that labels of people correct; empty where there are none.

    Where it is shown, its figures are the ones to quote.
    """
    return Section(
        title="Corrected by labels",
        columns=CORRECTED_COLUMNS,
        rows=list(corrected_rows(corrections)),
        hint="What people would say of all cases, from their labels of some: two-phase regression "
        "on the metric. r: how far it varies with them; the less, the less it saves labels.",
    )


def raters_text(raters: Raters) -> str:
    """A sentence on how far several people agree on the same answers.

    A metric cannot agree with people better than people agree with each other.
    """
    kappa = number_text(raters.kappa)
    alpha = number_text(raters.alpha)
    answers = counted(raters.items, "answer")
    return (
        f"{raters.metric}: {raters.people:,} people labelled the same {answers}: kappa {kappa}, "
        f"alpha {alpha}. Their mean is used."
    )


def label_page(drawn: Drawn, *, by: str = "", shows_judge: bool = False) -> Page:
    """The page on which a person labels drawn cases, a block for each with its answers.

    People who have no ragbench label on it: it needs no server, and saves a file of labels. A
    person sees only what the metric reads, and no value of it, unless that is asked for.

    Args:
        by: who labels, where that is known.
        shows_judge: whether the judge's value and the run are shown, too.
    """
    choices: list[dict[str, object]] = []
    for choice in drawn.choices:
        # As text: the script writes it into the file as it is, without rounding.
        choices.append({**choice._asdict(), "value": f"{choice.value:g}"})
    tasks: list[dict[str, object]] = []
    for task in drawn.tasks:
        answers: list[dict[str, object]] = []
        for answer in task.answers:
            answers.append(_answer_values(drawn, task, answer, shows_judge=shows_judge))
        references: Sequence[str] = ()
        # What the metric does not read must not sway the label.
        if drawn.reads(Need.REFERENCE):
            references = task.references
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
    """An answer as ``label.html.jinja`` shows it: only what the metric reads.

    ``line`` is the label without its value, as the page's script writes it into a file.
    """
    text: str | None = None
    if drawn.reads(Need.RESPONSE):
        text = answer.answer
    contexts: Sequence[str] = ()
    if drawn.reads(Need.RETRIEVED_CONTEXTS):
        contexts = answer.contexts
    judge: float | None = None
    if shows_judge:
        judge = answer.value
    return {
        # The script adds only the value: key and digest must be as ragbench reads them.
        "line": json.dumps(drawn.line(task, answer)),
        "text": text,
        "judge": judge,
        # The template shows the run only where the judge's value is shown.
        "run": answer.run,
        "contexts": contexts,
    }
