"""A search over a space of post-retrieval stages, as JSON and Markdown, and the words of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ragbench.core.space_search import SearchCandidate, SpaceSearch
from ragbench.safe_text import markdown_table, markdown_text
from ragbench.views.ablation import seconds_text

_SHOWN = 12
"""How many candidates are listed; JSON holds all."""


def search_object(search: SpaceSearch) -> dict[str, Any]:
    found = asdict(search)
    return {"schema_version": 1, **found, "metric": search.metric.name}


GAIN_COLUMNS = ("gain", "mean", "interval", "measured on")


def gain_rows(search: SpaceSearch) -> Iterator[tuple[str, ...]]:
    """The two gains of the best one over the first."""
    interval = _interval(search.honest_low, search.honest_high)
    yield ("honest", f"{search.honest:+.3f}", interval, "cases that did not choose it")
    interval = _interval(search.naive_low, search.naive_high)
    yield ("naive", f"{search.naive:+.3f}", interval, "the cases that chose it")


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:+.3f} .. {high:+.3f}"


CHOICE_COLUMNS = ("alternative", "best score with it", "result")


def choice_rows(search: SpaceSearch) -> Iterator[tuple[str, ...]]:
    """A row an alternative, behind a row that says where the alternatives stand."""
    factor = None
    for one in search.choices:
        if one.choice.factor != factor:
            factor = one.choice.factor
            yield (f"{factor}:", "", "")
        yield (one.choice.text, f"{one.score:.3f}", one.standing.value)


CANDIDATE_COLUMNS = ("score", "difference", "p", "chosen", "tokens", "time p50", "result")


def candidate_rows(search: SpaceSearch) -> Iterator[tuple[str, ...]]:
    """A row a candidate, the best first, with its name; the first one is always among them."""
    sign = -1 if search.metric.definition.direction.value == "lower" else 1
    ordered = sorted(search.candidates, key=lambda one: -sign * one.score)
    shown = ordered[:_SHOWN]
    if search.candidates[0] not in shown:
        shown = [*shown[:-1], search.candidates[0]]
    for one in shown:
        yield _candidate(one)


def _candidate(one: SearchCandidate) -> tuple[str, ...]:
    p_value = "" if one.p_value is None else f"{one.p_value:.3f}"
    return (
        one.name,
        f"{one.score:.3f}",
        f"{one.difference:+.3f}",
        "<0.001" if one.p_value is not None and one.p_value < 0.001 else p_value,
        f"{one.chosen:.0%}",
        f"{one.tokens:,.0f}",
        "reused" if one.seconds is None else seconds_text(one.seconds),
        one.standing.value,
    )


def search_notes(search: SpaceSearch) -> Sequence[str]:
    count = len(search.candidates)
    told = [
        f"The honest gain is that of choosing the best of {count:,} on {search.folds - 1} of "
        f"{search.folds} parts of the cases, measured on the other one, over {search.partitions} "
        f"partitions (seed {search.seed}); its interval holds however the parts depend on one "
        "another.",
        "p is of the difference from the best one, corrected for all candidates, each of which "
        "might have been the best one; chosen is the share of the parts that chose it.",
    ]
    if count > _SHOWN:
        told.append(f"{count - _SHOWN:,} more candidates: --json lists all.")
    if search.left_out:
        told.append(f"{search.left_out:,} cases were not measured for every candidate.")
    failed = sum(one.failed for one in search.candidates)
    if failed:
        told.append(f"Candidates failed {failed:,} times in all: --json says which.")
    return (*told, *search.notes)


def space_search_markdown(search: SpaceSearch) -> str:
    return "\n".join(_markdown(search)) + "\n"


def _markdown(search: SpaceSearch) -> Iterator[str]:
    yield f"# Search on {markdown_text(search.rag)} and {markdown_text(search.dataset)}"
    yield ""
    yield (
        f"{len(search.candidates):,} candidates, {search.cases:,} cases, by "
        f"{markdown_text(search.metric.name)}; compared with {markdown_text(search.first)}."
    )
    yield ""
    yield f"**{markdown_text(search.sentence)}**"
    for columns, rows in (
        (GAIN_COLUMNS, gain_rows(search)),
        (CHOICE_COLUMNS, choice_rows(search)),
        (("candidate", *CANDIDATE_COLUMNS), candidate_rows(search)),
    ):
        yield ""
        yield from markdown_table(columns, (tuple(map(markdown_text, row)) for row in rows))
    yield ""
    for note in search_notes(search):
        yield f"- {markdown_text(note)}"
