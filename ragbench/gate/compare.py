"""Runs side by side; the cases of a run next to those of an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ragbench.core.attribution import Cause, CauseFlow
from ragbench.core.case_table import clusters_note
from ragbench.core.comparison import (
    Against,
    CaseBefore,
    CaseKind,
    ComparedRun,
    Comparison,
    MetricComparison,
)
from ragbench.core.origin import SystemChange
from ragbench.core.outcome import Cell
from ragbench.core.record import replace
from ragbench.core.run_scores import MetricColumn, RunScores, unchanged, under_ids_of
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.cases import SIDES, case_changes, find_columns, id_change, main_metrics
from ragbench.gate.comparable import system_change
from ragbench.gate.labels import corrections
from ragbench.gate.pairwise import ALPHA, CONFIDENCE, metric_comparisons
from ragbench.gate.runs import read_run
from ragbench.safe_text import counted


def common_cases(
    runs: Sequence[RunScores], *, only_common_cases: bool
) -> tuple[tuple[RunScores, ...], str]:
    """The runs with the cases that all of them have, unchanged.

    A case is the same when its fingerprint is: its question, reference, relevance, tags ...
    """
    runs = [runs[0], *(under_ids_of(runs[0], run)[0] for run in runs[1:])]
    same = unchanged(*runs)
    if all(len(same) == len(run.cases) for run in runs):
        if not same:
            raise RunMismatchError("the runs hold no cases")
        return _beside_first(runs), ""
    known = [run.table.ids for run in runs]
    everywhere = set(known[0]).intersection(*known)
    anywhere = set(known[0]).union(*known)
    changed = len(everywhere) - len(same)
    differing = (
        f"{changed:,} have changed and {len(anywhere) - len(everywhere):,} are not in every run"
    )
    sources = ", ".join(run.source for run in runs)
    if not only_common_cases:
        raise RunMismatchError(
            f"the runs {sources} are of different cases: {len(same):,} are the same, {differing}. "
            "Compare those that are the same with --only-common-cases, or the same asked in two "
            "ways with --same id"
        )
    if not same:
        raise RunMismatchError(f"the runs {sources} have no case in common: {differing}")
    cut = _beside_first([runs[0].on(same), *runs[1:]])
    note = f"Compared on the {len(same):,} cases that are the same in all runs: {differing}."
    return cut, note


def _beside_first(runs: Sequence[RunScores]) -> tuple[RunScores, ...]:
    return runs[0], *(run.beside(runs[0]) for run in runs[1:])


def cases_of_id(
    runs: Sequence[RunScores], *, only_common_cases: bool
) -> tuple[tuple[RunScores, ...], str]:
    """The runs with the cases whose ids all of them have, however each asks them."""
    ids = [{*run.table.ids} for run in runs]
    shared, anywhere = ids[0].intersection(*ids), ids[0].union(*ids)
    sources, left = ", ".join(run.source for run in runs), len(anywhere) - len(shared)
    if not shared or (left and not only_common_cases):
        raise RunMismatchError(
            f"the runs {sources} share {counted(len(shared), 'id')}, and {left:,} are not in every "
            "run" + (". Leave those out with --only-common-cases" if shared else "")
        )
    cut = _beside_first([runs[0].on(shared), *runs[1:]])
    asked = len(shared) - len(unchanged(*cut))
    every = range(len(shared))
    right = [[one.right for one in known.of(every)] for run in cut if (known := run.table.texts)]
    other = sum(len({*known} - {""}) > 1 for known in zip(*right, strict=True))
    note = f"Joined by id: {asked:,} of {counted(len(shared), 'case')} are asked in another way."
    if left:
        note += f" {left:,} are not in every run: left out."
    if other:
        note += f" {other:,} have another reference or relevance, which changes scores by itself."
    return cut, note


_EXAMPLES = 5
MARKS = "abcdefghijklmnop"
"""Letters of the runs, in order: those that have a raised form in Unicode."""


def compare(
    runs: Sequence[RunScores | str | Path],
    *,
    metrics: Sequence[str] | None = None,
    main: Sequence[str] | None = None,
    only_common_cases: bool = False,
    same: Literal["content", "id"] = "content",
    told: int | None = None,
) -> Comparison:
    """Compares runs, metric by metric and case by case.

    Source: marks of significance as in the tables of information retrieval, with the tests of
    Smucker, Allan & Carterette 2007, corrected as by Westfall & Young 1993.

    Args:
        runs: two or more, or the paths of them; the others are compared with the first.
        metrics: names of those that are compared; all when not given. They form the family of the
            correction, so naming the few that matter makes the tests stronger.
        main: names of the metrics that say whether a case passes; see
            `ragbench.gate.cases.main_metrics`.
        only_common_cases: leave out cases that are not the same in all runs, instead of refusing.
        same: what makes two cases the same: all that is known of them, or their id alone, which
            joins ways to ask the same thing (a last turn and its rewrite).
        told: of how many cases of each kind the texts are read; None: of all.

    Raises:
        RunMismatchError: the runs are of different cases.
        ConfigError: there are too few or too many runs, or an option cannot be used.
    """
    if not 2 <= len(runs) <= len(MARKS):
        raise ConfigError(
            f"compare needs 2 to {len(MARKS)} runs, got {counted(len(runs), 'run')}. "
            "Example: ragbench compare RUN_A RUN_B"
        )
    scores = [run if isinstance(run, RunScores) else read_run(run) for run in runs]
    joined = common_cases if same == "content" else cases_of_id
    cut, note = joined(scores, only_common_cases=only_common_cases)
    marked, every = list(zip(MARKS, cut, strict=False)), _every_metric(cut)
    deciding = main_metrics([c for c in every if all(run.measures(c) for run in cut)], main)
    columns = every if metrics is None else find_columns(every, metrics)
    is_cut = any(len(one.cases) < len(run.cases) for one, run in zip(cut, scores, strict=True))
    compared, family = metric_comparisons(marked, columns, restricted=is_cut)
    found = [
        case_changes(cut[0], run, (MARKS[0], mark), deciding, named=main is not None, told=told)
        for mark, run in marked[1:]
    ]
    return Comparison(
        runs=tuple(ComparedRun(mark=mark, **run.facts) for mark, run in marked),
        cases=len(cut[0].cases),
        metrics=compared,
        main=tuple(column.name for column in deciding),
        pairs=tuple(pair for pair, _ in found),
        changed=tuple(case for _, changed in found for case in changed),
        systems=tuple(_system_change(cut[0], run) for run in cut[1:]),
        flows=tuple(flow for other in marked[1:] for flow in cause_flows(marked[0], other)),
        corrections=tuple(corrections(marked)),
        notes=(*([note] if note else []), *_notes(marked, compared)),
        settings={"alpha": ALPHA, "confidence": CONFIDENCE, "family": family},
    )


def _every_metric(runs: Sequence[RunScores]) -> list[MetricColumn]:
    """Those that any run has; of each the first run's."""
    found: dict[str, MetricColumn] = {}
    for column in (column for run in runs for column in run.metrics):
        found.setdefault(column.name, column)
    return [*found.values()]


def _system_change(first: RunScores, run: RunScores) -> SystemChange:
    """What differs between two runs, how their cases are asked included."""
    found = system_change(first, run, texts=True)
    if other := len(first.cases) - len(unchanged(first, run)):
        asked = f"how {counted(other, 'case')} {'is' if other == 1 else 'are'} asked"
        return replace(found, changes=(asked, *found.changes))
    return found


def cause_flows(first: tuple[str, RunScores], second: tuple[str, RunScores]) -> Iterator[CauseFlow]:
    """From which cause to which the cases went, the most frequent way first."""
    ids, *causes = first[1].table.ids, *(run.table.fact("cause") for _, run in (first, second))
    ways: dict[tuple[Cause, Cause], list[str]] = {}
    for id_, before, after in zip(ids, *causes, strict=True) if all(causes) else ():
        if before is not None and after is not None:
            ways.setdefault((before, after), []).append(id_)
    order = list(Cause)
    marks = {"first": first[0], "second": second[0]}
    for way, ids in sorted(
        ways.items(), key=lambda item: (-len(item[1]), *map(order.index, item[0]))
    ):
        shown = tuple(ids[:_EXAMPLES])
        yield CauseFlow(**marks, before=way[0], after=way[1], cases=len(ids), examples=shown)


def _notes(
    marked: Sequence[tuple[str, RunScores]], metrics: Sequence[MetricComparison]
) -> Iterator[str]:
    matching = {mark: run.matching for mark, run in marked}
    if len(set(matching.values())) > 1:
        ways = ", ".join(f"{mark} by {how}" for mark, how in matching.items())
        yield (
            f"Relevant chunks were recognised in different ways ({ways}), which changes scores by "
            "itself."
        )
    judges = {run.fingerprints.get("judge") for _, run in marked}
    if len(judges) > 1:
        yield "The runs were graded by different judges, which changes scores by itself."
    if note := clusters_note(marked[0][1].clusters):
        yield note
    yield from _left_out(metrics)


def _left_out(metrics: Sequence[MetricComparison]) -> Iterator[str]:
    """A system that declines what it used to get wrong has a better mean, and is not better."""
    found_on: dict[str, list[str]] = {}
    for metric in metrics:
        for found in metric.differences:
            for marks in (found.first, found.second):
                if count := found.left_out.get(marks):
                    other = found.second if marks == found.first else found.first
                    cases = counted(count, "case was", "cases were")
                    text = f"{cases} measured in {other} and not in {marks}"
                    found_on.setdefault(text, []).append(metric.name)
    for text, names in found_on.items():
        yield f"{', '.join(names)}: {text}; the difference leaves them out."


def cases_beside(run: RunScores, earlier: RunScores) -> Against:
    """A run next to an earlier one, over the cases that are the same in both."""
    earlier, _ = under_ids_of(run, earlier)
    shared = int((earlier.table.places(run.table.ids) >= 0).sum())
    same = unchanged(run, earlier)
    if not same:
        raise RunMismatchError(
            f"{run.source} and {earlier.source} have no case in common: {shared:,} have the same "
            "id, and another content"
        )
    second = run.on(same)
    first = earlier.beside(second)
    columns = [*filter(earlier.measures, run.metrics)]
    counts, changed = case_changes(first, second, SIDES, main_metrics(columns))
    kinds = {case.id: case.kind for case in changed}
    names = [column.name for column in columns if column.has_cells]
    return Against(
        source=earlier.source,
        rag=earlier.rag,
        cases=_beside(first, second, names, kinds),
        changed=changed,
        pair=counts,
        flows=tuple(cause_flows((SIDES[0], first), (SIDES[1], second))),
        edited=shared - len(same),
        added=len(run.cases) - shared,
        gone=len(earlier.cases) - shared,
    )


def _beside(
    first: RunScores, second: RunScores, names: Sequence[str], kinds: Mapping[str, CaseKind]
) -> dict[str, CaseBefore]:
    texts = [table.texts_of(range(len(second.cases))) for table in (first.table, second.table)]
    found: dict[str, CaseBefore] = {}
    for place, (id_, then, now) in enumerate(zip(second.table.ids, *texts, strict=False)):
        scores: list[tuple[str, Cell, Cell]] = []
        for name in names:
            old, new = (run.cells(name).cell(place) for run in (first, second))
            if (old.status, old.value) != (new.status, new.value):
                scores.append((name, old, new))
        found[id_] = CaseBefore(
            kind=kinds.get(id_),
            cause=(first.table.fact("cause") or {place: None})[place],
            response=then.response,
            tells_texts=then.query is not None,
            ids=id_change(then.retrieved_ids, now.retrieved_ids),
            scores=tuple(scores),
        )
    return found
