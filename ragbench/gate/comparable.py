"""Whether two runs measured the same thing, and on which cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragbench.core.gate_result import Refusal
from ragbench.core.run_scores import MetricColumn, RunScores, unchanged

_SHOWN = 5
"""How many cases of a kind are named."""
_NEW_BASELINE = "set a new one with: ragbench baseline set RUN"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparability:
    """What of two runs can be compared."""

    run: RunScores | None
    """The run, with the cases to be compared; None when nothing can be."""
    baseline: RunScores | None
    metrics: frozenset[str]
    """Names of the metrics that are comparable."""
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...] = ()


def compare_inputs(
    run: RunScores, baseline: RunScores, columns: Sequence[MetricColumn]
) -> Comparability:
    """Finds out what can be compared, and says why the rest cannot.

    Cases that were added, dropped or edited since are left out and named; tags, languages and
    clusters may change, since no score rests on them.
    """
    mine, other, note = _in_common(run, baseline)
    whole = tuple(_refusals(run, baseline, bool(mine.cases)))
    same = {
        column.name
        for column in columns
        if (known := baseline.column(column.name)) is not None and known.identity == column.identity
    }
    changed = [column for column in columns if column.name not in same]
    return Comparability(
        run=None if whole else mine,
        baseline=None if whole else other,
        metrics=frozenset(same),
        refusals=(*whole, *([_other_metrics(changed, baseline)] if changed else [])),
        notes=(note,) if note else (),
    )


def _refusals(run: RunScores, baseline: RunScores, is_shared: bool) -> Iterator[Refusal]:
    """Why no score of the two runs compares."""
    if not is_shared:
        yield Refusal(
            what="dataset",
            reason=f"no case of {run.source} is in {baseline.source} unchanged",
            remedy=_NEW_BASELINE,
        )
    if scale_of(run.matching) != scale_of(baseline.matching):
        yield Refusal(
            what="matching",
            reason=(
                f"relevant chunks were recognised by {run.matching} in this run and by "
                f"{baseline.matching} in the baseline, which gives other scores"
            ),
            remedy=_scored_anew(baseline),
        )
    if run.fingerprints.get("judge") != baseline.fingerprints.get("judge"):
        yield Refusal(
            what="judge",
            reason="the runs were graded by different judges",
            remedy=_scored_anew(baseline),
        )


def _scored_anew(baseline: RunScores) -> str:
    if baseline.made_of:  # a baseline file, which holds no answers
        return _NEW_BASELINE
    return (
        "score the baseline's stored answers with the metrics, the matching and the judge of this "
        f"run, which asks no RAG: ragbench eval {baseline.source} -o NEW, and name NEW with "
        f"--baseline; or {_NEW_BASELINE}"
    )


def _in_common(run: RunScores, baseline: RunScores) -> tuple[RunScores, RunScores, str]:
    mine, other = run.fingerprints_of_cases(), baseline.fingerprints_of_cases()
    same = unchanged(run, baseline)
    if len(same) == len(mine) == len(other):
        return run, baseline, ""
    groups = (
        ("edited", [id_ for id_ in mine if id_ in other and id_ not in same]),
        ("new", [id_ for id_ in mine if id_ not in other]),
        ("gone", [id_ for id_ in other if id_ not in mine]),
    )
    left_out = "; ".join(f"{len(ids):,} {word} ({_named(ids)})" for word, ids in groups if ids)
    shared = "1 case" if len(same) == 1 else f"{len(same):,} cases"
    note = f"Compared on the {shared} that both runs have unchanged. Left out: {left_out}."
    return run.on(same), baseline.on(same), note


def _named(ids: Sequence[str]) -> str:
    rest = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
    return f"{', '.join(ids[:_SHOWN])}{rest}"


def scale_of(matching: str) -> str:
    """What recall and others count: gold ids, whatever names them in a chunk, or gold texts."""
    return "id" if matching == "document_id" else matching


def _other_metrics(changed: Sequence[MetricColumn], baseline: RunScores) -> Refusal:
    names: list[str] = []
    for column in changed:
        other = baseline.column(column.name)
        before = "not measured" if other is None else f"version {other.version}"
        why = f"version {column.version}, there {before}"
        if other is not None and other.version == column.version:
            why = "the code that computes it has changed"
        names.append(f"{column.name} ({why})")
    return Refusal(
        what="metrics",
        reason=f"the baseline's scores are of other metrics: {', '.join(names)}",
        remedy=_scored_anew(baseline),
    )
