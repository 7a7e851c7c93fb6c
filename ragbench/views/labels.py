"""Labels of people: the page that asks for them, how far people agree, what is corrected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragbench.core.metric import Need
from ragbench.core.report import Correction
from ragbench.views.document import Section, number_text, range_text
from ragbench.views.html.page import Page, render

if TYPE_CHECKING:
    from ragbench.core.labels import Drawn, Judged, LabelTask, Raters


def ask_text(drawn: Drawn) -> str:
    """What a person decides."""
    is_paired = any(len(task.answers) > 1 for task in drawn.tasks)
    both = ", of the left answer first, then of the right one" if is_paired else ""
    keys = ", ".join(f"{one.key} = {one.value:g}" for one in drawn.choices)
    return f"Your verdict{both}: {keys}; s if you are not sure."


CORRECTED_COLUMNS = ("metric", "judge", "95% interval", "corrected", "95% interval", "labels", "r")


def corrected_rows(corrections: Sequence[Correction]) -> Iterator[tuple[str, ...]]:
    """A row for each figure: the metric's own, and what people make of it."""
    for one in corrections:
        sign, runs = len(one.runs) > 1, " - ".join(reversed(one.runs))
        yield (
            f"{one.metric}{f' ({runs})' if runs else ''}",
            number_text(one.judged, one.unit, sign=sign),
            range_text(one.judged_interval, one.unit, sign=sign),
            number_text(one.corrected, one.unit, sign=sign),
            range_text(one.interval, one.unit, sign=sign) if one.interval else "too few labels",
            f"{one.labels:,} of {one.cases:,}",
            number_text(one.correlation),
        )


def corrected_text(one: Correction) -> str:
    """A difference as people see it, and as the judge does."""
    metric, judge, own, people, ends, *_ = next(corrected_rows([one]))
    interval = one.interval
    is_shown = interval is not None and not interval.low <= 0.0 <= interval.high
    word = "shown to differ" if is_shown else "not shown to differ"
    return (
        f"{metric} by people: {people} ({ends}), {word}, from {one.labels:,} labelled pairs; by "
        f"the judge alone {judge} ({own})"
    )


def corrected_section(corrections: Sequence[Correction]) -> Section:
    return Section(
        title="Corrected by labels",
        columns=CORRECTED_COLUMNS,
        rows=list(corrected_rows(corrections)),
        hint="What people would say of all cases, from their labels of some: two-phase regression "
        "on the judge. r: how far the judge varies with them; the less, the less it saves labels.",
    )


def raters_text(agreed: Raters) -> str:
    """How far several people agree."""
    kappa, alpha = number_text(agreed.kappa), number_text(agreed.alpha)
    return (
        f"{agreed.metric}: {agreed.people:,} people labelled the same {agreed.items:,} answers: "
        f"kappa {kappa}, alpha {alpha}. Their mean is used."
    )


def label_page(drawn: Drawn, *, by: str = "", shows_judge: bool = False) -> Page:
    """A page with a block for each case; what is asked stands in it for every answer.

    Args:
        by: who labels, where that is known.
        shows_judge: whether the judge's value and the run are shown, too.
    """

    def shown(task: LabelTask, judged: Judged) -> dict[str, object]:
        return {
            "line": json.dumps(drawn.line(task, judged)),
            "text": judged.answer if drawn.reads(Need.RESPONSE) else None,
            "judge": judged.value if shows_judge else None,
            "run": judged.run,
            "contexts": judged.contexts if drawn.reads(Need.RETRIEVED_CONTEXTS) else (),
        }

    values = {
        "metric": drawn.metric.name,
        "about": drawn.metric.definition.summary,
        "asks": ask_text(drawn),
        "of": drawn.of,
        "seed": drawn.seed,
        "by": by,
        "choices": [{**one._asdict(), "value": f"{one.value:g}"} for one in drawn.choices],
        "tasks": [
            {
                "question": task.question,
                "references": task.references if drawn.reads(Need.REFERENCE) else (),
                "answers": [shown(task, judged) for judged in task.answers],
            }
            for task in drawn.tasks
        ],
    }
    body = [render("label.html.jinja", values)]
    return Page(title=f"Labels: {drawn.metric.name}", body=body, script="label.js")
