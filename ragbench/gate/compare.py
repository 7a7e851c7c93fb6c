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
    CaseDifference,
    CaseKind,
    ComparedRun,
    Comparison,
    MetricComparison,
    RunPair,
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
    """The runs with the cases that all of them have, unchanged; and a note of what is left out.

    A case is the same when its fingerprint is: its question, reference, relevance, tags ...
    """
    runs = [runs[0], *(under_ids_of(runs[0], run)[0] for run in runs[1:])]
    same = unchanged(*runs)
    if all(len(same) == len(run.cases) for run in runs):
        if not same:
            raise RunMismatchError("the runs hold no cases")
        return _in_order_of_first(runs), ""
    ids = [set(run.table.ids) for run in runs]
    everywhere, anywhere = ids[0].intersection(*ids), ids[0].union(*ids)
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
    note = f"Compared on the {len(same):,} cases that are the same in all runs: {differing}."
    return _in_order_of_first([runs[0].on(same), *runs[1:]]), note


def _in_order_of_first(runs: Sequence[RunScores]) -> tuple[RunScores, ...]:
    """The runs with the cases of the first one alone, in its order."""
    return runs[0], *(run.beside(runs[0]) for run in runs[1:])


def cases_of_id(
    runs: Sequence[RunScores], *, only_common_cases: bool
) -> tuple[tuple[RunScores, ...], str]:
    """The runs with the cases whose ids all of them have, however each asks them; and a note."""
    ids = [set(run.table.ids) for run in runs]
    shared, anywhere = ids[0].intersection(*ids), ids[0].union(*ids)
    left_out = len(anywhere) - len(shared)
    if not shared or (left_out and not only_common_cases):
        sources = ", ".join(run.source for run in runs)
        message = (
            f"the runs {sources} share {counted(len(shared), 'id')}, and {left_out:,} are not in "
            "every run"
        )
        if shared:
            message += ". Leave those out with --only-common-cases"
        raise RunMismatchError(message)
    joined = _in_order_of_first([runs[0].on(shared), *runs[1:]])
    edited = len(shared) - len(unchanged(*joined))
    note = f"Joined by id: {edited:,} of {counted(len(shared), 'case')} are asked in another way."
    if left_out:
        note += f" {left_out:,} are not in every run: left out."
    other_answers = _other_right_answers(joined)
    if other_answers:
        note += (
            f" {other_answers:,} have another reference or relevance, which changes scores by "
            "itself."
        )
    return joined, note


def _other_right_answers(runs: Sequence[RunScores]) -> int:
    """Of how many cases the runs know another right answer; of baseline files nothing is known."""
    of_runs: list[list[str]] = []
    for run in runs:
        texts = run.table.texts
        if texts is not None:
            of_runs.append([case.right for case in texts.of(range(len(run.cases)))])
    count = 0
    for answers in zip(*of_runs, strict=True):
        count += len({*answers} - {""}) > 1
    return count


_EXAMPLES = 5
"""Cases that are named of each way from one cause to another."""
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
    whole = [run if isinstance(run, RunScores) else read_run(run) for run in runs]
    join = common_cases if same == "content" else cases_of_id
    joined, note = join(whole, only_common_cases=only_common_cases)
    is_restricted = any(
        len(run.cases) < len(original.cases) for run, original in zip(joined, whole, strict=True)
    )
    marked = list(zip(MARKS, joined, strict=False))
    first, *others = marked

    columns = _every_metric(joined)
    shared = [column for column in columns if all(run.measures(column) for run in joined)]
    deciding = main_metrics(shared, main)
    if metrics is not None:
        columns = find_columns(columns, metrics)
    compared, family = metric_comparisons(marked, columns, restricted=is_restricted)

    pairs: list[RunPair] = []
    changed: list[CaseDifference] = []
    systems: list[SystemChange] = []
    flows: list[CauseFlow] = []
    for mark, run in others:
        pair, changes = case_changes(
            first[1], run, (first[0], mark), deciding, named=main is not None, max_texts=told
        )
        pairs.append(pair)
        changed += changes
        systems.append(_system_change(first[1], run))
        flows += cause_flows(first, (mark, run))
    notes = [note] if note else []
    notes += _notes(marked, compared)
    return Comparison(
        runs=tuple(_compared_run(mark, run) for mark, run in marked),
        cases=len(first[1].cases),
        metrics=compared,
        main=tuple(column.name for column in deciding),
        pairs=tuple(pairs),
        changed=tuple(changed),
        systems=tuple(systems),
        flows=tuple(flows),
        corrections=tuple(corrections(marked)),
        notes=tuple(notes),
        settings={"alpha": ALPHA, "confidence": CONFIDENCE, "family": family},
    )


def _compared_run(mark: str, run: RunScores) -> ComparedRun:
    return ComparedRun(
        mark=mark,
        source=run.source,
        dataset=run.dataset,
        rag=run.rag,
        cases=len(run.cases),
        commit=run.commit,
        dirty=run.dirty,
    )


def _every_metric(runs: Sequence[RunScores]) -> Sequence[MetricColumn]:
    """Those that any run has; of each the first run's."""
    columns: dict[str, MetricColumn] = {}
    for run in runs:
        for column in run.metrics:
            columns.setdefault(column.name, column)
    return [*columns.values()]


def _system_change(first: RunScores, run: RunScores) -> SystemChange:
    """What differs between two runs, how their cases are asked included."""
    change = system_change(first, run, texts=True)
    edited = len(first.cases) - len(unchanged(first, run))
    if not edited:
        return change
    verb = "is" if edited == 1 else "are"
    return replace(change, changes=(f"how {counted(edited, 'case')} {verb} asked", *change.changes))


def cause_flows(first: tuple[str, RunScores], second: tuple[str, RunScores]) -> Iterator[CauseFlow]:
    """From which cause to which the cases went, the most frequent way first."""
    (first_mark, first_run), (second_mark, second_run) = first, second
    causes_before, causes_now = first_run.table.fact("cause"), second_run.table.fact("cause")
    if not causes_before or not causes_now:
        return
    ids_of: dict[tuple[Cause, Cause], list[str]] = {}
    for id_, before, now in zip(first_run.table.ids, causes_before, causes_now, strict=True):
        if before is not None and now is not None:
            ids_of.setdefault((before, now), []).append(id_)

    order = list(Cause)

    def rank(way: tuple[Cause, Cause]) -> tuple[int, int, int]:
        before, now = way
        return -len(ids_of[way]), order.index(before), order.index(now)

    for before, now in sorted(ids_of, key=rank):
        ids = ids_of[before, now]
        yield CauseFlow(
            first=first_mark,
            second=second_mark,
            before=before,
            after=now,
            cases=len(ids),
            examples=tuple(ids[:_EXAMPLES]),
        )


def _notes(
    marked: Sequence[tuple[str, RunScores]], metrics: Sequence[MetricComparison]
) -> Iterator[str]:
    """What a reader must know besides the figures."""
    if len({run.matching for _, run in marked}) > 1:
        ways = ", ".join(f"{mark} by {run.matching}" for mark, run in marked)
        yield (
            f"Relevant chunks were recognised in different ways ({ways}), which changes scores by "
            "itself."
        )
    if len({run.fingerprints.get("judge") for _, run in marked}) > 1:
        yield "The runs were graded by different judges, which changes scores by itself."
    note = clusters_note(marked[0][1].clusters)
    if note:
        yield note
    yield from _left_out(metrics)


def _left_out(metrics: Sequence[MetricComparison]) -> Iterator[str]:
    """A system that declines what it used to get wrong has a better mean, and is not better."""
    metrics_of: dict[str, list[str]] = {}
    for metric in metrics:
        for difference in metric.differences:
            first, second = difference.first, difference.second
            for lacking, measuring in ((first, second), (second, first)):
                count = difference.left_out.get(lacking)
                if count:
                    cases = counted(count, "case was", "cases were")
                    text = f"{cases} measured in {measuring} and not in {lacking}"
                    metrics_of.setdefault(text, []).append(metric.name)
    for text, names in metrics_of.items():
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
        cases=_cases_before(first, second, names, kinds),
        changed=changed,
        pair=counts,
        flows=tuple(cause_flows((SIDES[0], first), (SIDES[1], second))),
        edited=shared - len(same),
        added=len(run.cases) - shared,
        gone=len(earlier.cases) - shared,
    )


def _cases_before(
    first: RunScores, second: RunScores, names: Sequence[str], kinds: Mapping[str, CaseKind]
) -> dict[str, CaseBefore]:
    """Each case of the second run as it was in the first one.

    Args:
        names: metrics that both measure.
        kinds: of the cases that turned.
    """
    every_place = range(len(second.cases))
    texts_before = first.table.texts_of(every_place)
    texts_now = second.table.texts_of(every_place)
    causes = first.table.fact("cause") or (None,) * len(second.cases)
    earlier: dict[str, CaseBefore] = {}
    for place, id_, before, now in zip(
        every_place, second.table.ids, texts_before, texts_now, strict=False
    ):
        scores: list[tuple[str, Cell, Cell]] = []
        for name in names:
            old, new = first.cells(name).cell(place), second.cells(name).cell(place)
            if (old.status, old.value) != (new.status, new.value):
                scores.append((name, old, new))
        earlier[id_] = CaseBefore(
            kind=kinds.get(id_),
            cause=causes[place],
            response=before.response,
            tells_texts=before.query is not None,
            ids=id_change(before.retrieved_ids, now.retrieved_ids),
            scores=tuple(scores),
        )
    return earlier
