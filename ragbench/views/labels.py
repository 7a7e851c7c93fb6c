"""Labels of people in words and numbers: what is asked, how far people agree, what is corrected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.core.labels import Drawn, Raters
from ragbench.core.report import Correction, Interval
from ragbench.views.document import Section, number_text, range_text


def ask_text(drawn: Drawn) -> str:
    """What a person decides."""
    both = ", of the left answer first, then of the right one" if _is_paired(drawn) else ""
    keys = ", ".join(f"{one.key} = {one.value:g}" for one in drawn.choices)
    return f"Your verdict{both}: {keys}; s if you are not sure."


def _is_paired(drawn: Drawn) -> bool:
    return any(len(task.answers) > 1 for task in drawn.tasks)


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
            _ends(one.interval, one.unit, sign=sign),
            f"{one.labels:,} of {one.cases:,}",
            number_text(one.correlation),
        )


def _ends(interval: Interval | None, unit: str, *, sign: bool) -> str:
    return "too few labels" if interval is None else range_text(interval, unit, sign=sign)


def corrected_text(one: Correction) -> str:
    """A difference as people see it, and as the judge does."""
    rows = dict(
        zip(("metric", "judge", "own", "people", "ends"), next(corrected_rows([one])), strict=False)
    )
    interval = one.interval
    is_shown = interval is not None and not interval.low <= 0.0 <= interval.high
    word = "shown to differ" if is_shown else "not shown to differ"
    return (
        f"{rows['metric']} by people: {rows['people']} ({rows['ends']}), {word}, from "
        f"{one.labels:,} labelled pairs; by the judge alone {rows['judge']} ({rows['own']})"
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
