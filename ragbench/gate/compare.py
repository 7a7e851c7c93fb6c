"""Runs side by side; the cases of a run next to those of an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
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
from ragbench.core.report import WORDS_RIGHT, Report
from ragbench.core.run_scores import MetricColumn, RunScores, unchanged, under_ids_of
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.cases import SIDES, case_changes, find_columns, id_change, main_metrics
from ragbench.gate.comparable import system_change
from ragbench.gate.labels import corrections, words_notes
from ragbench.gate.pairwise import ALPHA, CONFIDENCE, OTHER_CODE, OTHER_VERSION, metric_comparisons
from ragbench.gate.runs import read_run
from ragbench.safe_text import as_line, counted


def common_cases(
    runs: Sequence[RunScores], *, only_common_cases: bool
) -> tuple[tuple[RunScores, ...], str]:
    """The runs with the cases that all of them have, unchanged; and a note of what is left out.

    A case is the same when its fingerprint is: its question, its reference, its relevant chunks.
    Differences of scores on other cases would be taken for differences of systems.

    Raises:
        RunMismatchError: the cases differ and `only_common_cases` is not set, or none is common.
    """
    # A case may have another id in a later run; it is known by its content.
    renamed_runs = [runs[0]]
    for run in runs[1:]:
        renamed_run, _ = under_ids_of(runs[0], run)
        renamed_runs.append(renamed_run)
    runs = renamed_runs
    same_ids = unchanged(*runs)
    # Unchanged and as many in each: all runs have the same cases.
    if all(len(same_ids) == len(run.cases) for run in runs):
        if not same_ids:
            raise RunMismatchError("the runs hold no cases")
        return _in_order_of_first(runs), ""
    # By ids: an id in all runs whose content differs counts as changed.
    ids_in_all, ids_in_any = _common_and_all_ids(runs)
    changed = len(ids_in_all) - len(same_ids)
    missing = len(ids_in_any) - len(ids_in_all)
    difference = f"{changed:,} changed, {missing:,} not in every run"
    sources = ", ".join(run.source for run in runs)
    if not only_common_cases:
        raise RunMismatchError(
            f"the runs {sources} are of different cases: {len(same_ids):,} the same, "
            f"{difference}. Compare those that are the same with --only-common-cases, or the same "
            "asked in two ways with --same id"
        )
    if not same_ids:
        raise RunMismatchError(f"the runs {sources} have no case in common: {difference}")
    note = f"Compared on {counted(len(same_ids), 'case')}, the same in all runs: {difference}."
    # The first run is cut, and the others follow it.
    return _in_order_of_first([runs[0].on(same_ids), *runs[1:]]), note


def _common_and_all_ids(runs: Sequence[RunScores]) -> tuple[set[str], set[str]]:
    """The ids of the cases that every run has, and the ids of the cases that any run has.

    The difference between both is what a comparison has to leave out or refuse.
    """
    ids_of_runs = [set(run.table.ids) for run in runs]
    ids_in_all = ids_of_runs[0].intersection(*ids_of_runs[1:])
    ids_in_any = ids_of_runs[0].union(*ids_of_runs[1:])
    return ids_in_all, ids_in_any


def _in_order_of_first(runs: Sequence[RunScores]) -> tuple[RunScores, ...]:
    """The runs with the first run's cases alone, in its order.

    Comparisons go through runs by position: the same position must be the same case in each.
    """
    first_run = runs[0]
    beside_first = [run.beside(first_run) for run in runs[1:]]
    return first_run, *beside_first


def cases_of_id(
    runs: Sequence[RunScores], *, only_common_cases: bool
) -> tuple[tuple[RunScores, ...], str]:
    """The runs with the cases whose ids all of them have, however each asks them; and a note.

    A user compares by ids to compare ways of asking the same thing, such as a conversation's last
    turn and its rewrite as a question. The note says
    which other differences there are, because they may explain a difference of scores.

    Raises:
        RunMismatchError: the runs share no id, or not all, and `only_common_cases` is not set.
    """
    common_ids, ids_in_any = _common_and_all_ids(runs)
    left_out = len(ids_in_any) - len(common_ids)
    # Ids that are not in every run are left out only where the user allows it.
    if not common_ids or (left_out and not only_common_cases):
        sources = ", ".join(run.source for run in runs)
        message = (
            f"the runs {sources} share {counted(len(common_ids), 'id')}, and {left_out:,} are not "
            "in every run"
        )
        if common_ids:
            message += ". Leave those out with --only-common-cases"
        raise RunMismatchError(message)
    common_runs = _in_order_of_first([runs[0].on(common_ids), *runs[1:]])
    edited = len(common_ids) - len(unchanged(*common_runs))
    note = (
        f"Joined by id: {edited:,} of {counted(len(common_ids), 'case')} are asked in another way."
    )
    if left_out:
        note += f" {left_out:,} are not in every run: left out."
    other_answers = _other_right_answers(common_runs)
    if other_answers:
        note += (
            f" {other_answers:,} have another reference or relevance, which changes scores by "
            "itself."
        )
    return common_runs, note


def _other_right_answers(runs: Sequence[RunScores]) -> int:
    """The number of cases for which the runs store different right answers.

    A changed reference changes scores by itself, so that a comparison has to name it. Baseline
    files hold no texts, and are left out.
    """
    answers_of_runs: list[list[str]] = []
    for run in runs:
        texts = run.table.texts
        if texts is not None:
            # Read by place: all runs have the same cases in the same order here.
            every_place = range(len(run.cases))
            answers_of_runs.append([case.right for case in texts.of(every_place)])
    count = 0
    # Without any texts there is no case to compare, and the count is 0.
    for answers_of_case in zip(*answers_of_runs, strict=True):
        distinct_answers = set(answers_of_case)
        distinct_answers.discard("")  # a case without a right answer contradicts none
        if len(distinct_answers) > 1:
            count += 1
    return count


_EXAMPLES = 5
"""Cases that are named of each way from one cause to another."""
MARKS = "abcdefghijklmnop"
"""Letters of the runs, in order: those that have a raised form in Unicode."""


ComparableRun = RunScores | Report | str | Path
"""A run as it is compared: its scores, its report, or the path of its folder or baseline file."""


def _scores_of(run: ComparableRun) -> RunScores:
    """The scores of a run, read from its folder where a report or a path is given.

    In Python, users pass whichever of these they have at hand.

    Raises:
        ConfigError: a report belongs to no folder.
    """
    if isinstance(run, RunScores):
        return run
    if not isinstance(run, Report):
        return read_run(run)
    if run.folder is None:
        raise ConfigError("compare was given a report without a folder: give the path of its run")
    folder = Path(run.folder)
    # Comparisons show where their runs are: in the words that the user gave, if that can be.
    if folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    return read_run(folder)


def compare(
    runs: Sequence[ComparableRun] | ComparableRun,
    *others: ComparableRun,
    metrics: Sequence[str] | None = None,
    main: Sequence[str] | None = None,
    only_common_cases: bool = False,
    same: Literal["content", "id"] = "content",
    told: int | None = None,
) -> Comparison:
    """Compares runs, metric by metric and case by case.

    A user sees whether a change of a system made it better, beyond chance, and on which cases.

    Source: marks of significance as in the tables of information retrieval, with the tests of
    Smucker, Allan & Carterette 2007, corrected as by Westfall & Young 1993.

    Example:
        >>> compare("runs/main", "runs/branch", metrics=["recall@5"])  # doctest: +SKIP

    Args:
        runs: two or more, in a list or one after the other: the paths of runs, or the reports that
            `ragbench.evaluate` returned. The others are compared with the first.
        others: the runs after the first, where they are not in a list.
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
    # A text is a sequence, too: of letters.
    if isinstance(runs, Sequence) and not isinstance(runs, str):
        runs = [*runs, *others]
    else:
        runs = [runs, *others]
    if not 2 <= len(runs) <= len(MARKS):
        raise ConfigError(
            f"compare needs 2 to {len(MARKS)} runs, got {counted(len(runs), 'run')}. "
            "Example: ragbench compare RUN_A RUN_B; in Python, compare(run_a, run_b)"
        )
    original_runs = [_scores_of(run) for run in runs]
    # Both functions give the runs with the cases that all of them have, and a note about that.
    join = common_cases if same == "content" else cases_of_id
    common_runs, note = join(original_runs, only_common_cases=only_common_cases)
    # Where a run lost cases by that, its metrics over the whole run are not those of the compared
    # cases.
    is_restricted = False
    for run, original in zip(common_runs, original_runs, strict=True):
        is_restricted |= len(run.cases) < len(original.cases)
    marked_runs = list(zip(MARKS, common_runs, strict=False))
    first_mark, first_run = marked_runs[0]

    # Metrics of any run are listed; only those of all can decide whether a case passes.
    columns = _every_metric(common_runs)
    columns_of_all: list[MetricColumn] = []
    for column in columns:
        if all(run.measures(column) for run in common_runs):
            columns_of_all.append(column)
    main_columns = main_metrics(columns_of_all, main)
    if metrics is not None:
        columns = find_columns(columns, metrics)
    compared, family = metric_comparisons(marked_runs, columns, restricted=is_restricted)

    pairs: list[RunPair] = []
    changed: list[CaseDifference] = []
    systems: list[SystemChange] = []
    flows: list[CauseFlow] = []
    is_named = main is not None
    # Each run beside the first; the others are not compared with each other.
    for mark, run in marked_runs[1:]:
        marks = (first_mark, mark)
        pair, changes = case_changes(
            first_run, run, marks, main_columns, named=is_named, max_texts=told
        )
        pairs.append(pair)
        changed += changes
        systems.append(_system_change(first_run, run))
        flows += cause_flows((first_mark, first_run), (mark, run))
    notes = [*_formula_notes(compared)]
    if note:
        notes.append(note)
    # How correctness by words is to be read, with or without labels of people.
    if any(metric.name == WORDS_RIGHT for metric in compared):
        notes += words_notes(common_runs)
    notes += _notes_on_comparison(marked_runs, compared)
    return Comparison(
        runs=tuple(_compared_run(mark, run) for mark, run in marked_runs),
        cases=len(first_run.cases),
        metrics=compared,
        main=tuple(column.name for column in main_columns),
        pairs=tuple(pairs),
        changed=tuple(changed),
        systems=tuple(systems),
        flows=tuple(flows),
        corrections=tuple(corrections(marked_runs)),
        notes=tuple(notes),
        settings={"alpha": ALPHA, "confidence": CONFIDENCE, "family": family},
    )


def _compared_run(mark: str, run: RunScores) -> ComparedRun:
    """The heading of a run in a comparison: its mark, source, system, cases and commit.

    Tables show runs as letters: this says which run each letter is.
    """
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
    """The metrics that any run has, each once, by the column of the first run with it.

    A metric that one run lacks is still listed, with the reason why it is not tested.
    """
    columns: dict[str, MetricColumn] = {}
    for run in runs:
        for column in run.metrics:
            columns.setdefault(column.name, column)
    return list(columns.values())


def _system_change(first_run: RunScores, run: RunScores) -> SystemChange:
    """The difference between the systems of two runs, edited questions of their cases included.

    An edited question changes answers like an edited system does.
    """
    change = system_change(first_run, run, texts=True)
    # Cases joined by id may be asked in another way; of cases joined by content none is edited.
    edited = len(first_run.cases) - len(unchanged(first_run, run))
    if not edited:
        return change
    verb = "is" if edited == 1 else "are"
    how_asked = f"how {counted(edited, 'case')} {verb} asked"
    return replace(change, changes=(how_asked, *change.changes))


def cause_flows(
    marked_before: tuple[str, RunScores], marked_now: tuple[str, RunScores]
) -> Iterator[CauseFlow]:
    """How many cases went from one cause to another between two runs, the most frequent way first.

    A cause is why a case went right or wrong, such as that no relevant chunk was retrieved. Scores
    say that a system moved: these ways say whether it went from bad retrieval to bad answers.

    Args:
        marked_before: the mark of a run, and the run; likewise ``marked_now``.
    """
    first_mark, first_run = marked_before
    second_mark, second_run = marked_now
    causes_before = first_run.table.fact("cause")
    causes_now = second_run.table.fact("cause")
    if not causes_before or not causes_now:
        return
    ids_of_way: dict[tuple[Cause, Cause], list[str]] = {}
    for id_, before, now in zip(first_run.table.ids, causes_before, causes_now, strict=True):
        # A case without a cause in one run has gone no way.
        if before is not None and now is not None:
            ids_of_way.setdefault((before, now), []).append(id_)

    order = list(Cause)
    # The most frequent way first; of equally frequent ones, by the order of the causes.
    ways = sorted(ids_of_way, key=lambda way: (order.index(way[0]), order.index(way[1])))
    # Two sorts, since sorting keeps the order of equal ones.
    ways.sort(key=lambda way: len(ids_of_way[way]), reverse=True)
    for before, now in ways:
        ids = ids_of_way[before, now]
        examples = ids[:_EXAMPLES]
        yield CauseFlow(
            first=first_mark,
            second=second_mark,
            before=before,
            after=now,
            cases=len(ids),
            examples=tuple(examples),
            questions=tuple(_questions_of(examples, second_run)),
        )


def _questions_of(ids: Sequence[str], run: RunScores) -> Iterator[str]:
    """The questions of some cases of a run; none for a baseline file, which holds no texts.

    The questions show a reader which kind of case moved, without opening the run.
    """
    places = run.table.places(ids).tolist()
    # Not strict: a baseline file gives empty texts without end.
    for _, texts in zip(places, run.table.texts_of(places), strict=False):
        if texts.query is not None:
            yield texts.query


def _notes_on_comparison(
    marked_runs: Sequence[tuple[str, RunScores]], metrics: Sequence[MetricComparison]
) -> Iterator[str]:
    """Notes that a reader of a comparison needs besides the figures: what else may explain them.

    Another judge or way to match chunks changes scores by itself; and cases about one document are
    one observation, so that many cases may show little.
    """
    matchings = {run.matching for _, run in marked_runs}
    if len(matchings) > 1:
        ways = ", ".join(f"{mark} by {run.matching}" for mark, run in marked_runs)
        yield (
            f"Relevant chunks were recognised in different ways ({ways}), which changes scores by "
            "itself."
        )
    judges = {run.fingerprints.get("judge") for _, run in marked_runs}
    if len(judges) > 1:
        yield "The runs were graded by different judges, which changes scores by itself."
    # The cases are the same in all runs, and so are their clusters.
    _, first_run = marked_runs[0]
    note = clusters_note(first_run.clusters)
    if note:
        yield note
    yield from _left_out_notes(metrics)


def _formula_notes(metrics: Sequence[MetricComparison]) -> Iterator[str]:
    """A note on the metrics that the runs measured by different formulas, and how to compare them.

    The comparison gives this note first, because its table shows the figures of both runs side by
    side.
    """
    names = [metric.name for metric in metrics if metric.untested in (OTHER_VERSION, OTHER_CODE)]
    if names:
        yield (
            f"Not compared, of different formulas: {as_line(names, _EXAMPLES)}. Score the older "
            "run anew: ragbench eval RUN -o NEW"
        )


def _left_out_notes(metrics: Sequence[MetricComparison]) -> Iterator[str]:
    """Notes on the cases that a difference leaves out, because one run did not measure them.

    A system that declines the questions that it used to get wrong has a better mean, and is not
    better.
    """
    metrics_by_text: dict[str, list[str]] = {}
    for metric in metrics:
        for difference in metric.differences:
            marks = (difference.first, difference.second)
            # In either direction: each run may lack cases that the other measured.
            for lacking, measuring in permutations(marks, 2):
                count = difference.left_out.get(lacking)
                if count:
                    cases = counted(count, "case was", "cases were")
                    text = f"{cases} measured in {measuring} and not in {lacking}"
                    # Metrics with the same sentence share it.
                    metrics_by_text.setdefault(text, []).append(metric.name)
    for text, names in metrics_by_text.items():
        yield f"{', '.join(names)}: {text}; the difference leaves them out."


def cases_beside(run: RunScores, earlier: RunScores, *, max_texts: int | None = None) -> Against:
    """A run next to an earlier run, with its changed cases and their texts before and now.

    Only the cases that are the same in both are joined. Pages and gates show with it, for each
    case, how its answer changed.

    Args:
        max_texts: of how many changed cases of each kind the texts are read; None: of all.

    Raises:
        RunMismatchError: no case is the same in both.
    """
    earlier, _ = under_ids_of(run, earlier)  # a case may have another id now
    # -1 for an id that the earlier run does not have.
    is_in_both = earlier.table.places(run.table.ids) >= 0
    same_ids = int(is_in_both.sum())
    unchanged_ids = unchanged(run, earlier)
    if not unchanged_ids:
        raise RunMismatchError(
            f"{run.source} and {earlier.source} have no case in common: {same_ids:,} have the same "
            "id, and another content"
        )
    # In the run's order; `beside` puts the earlier run in the same.
    now = run.on(unchanged_ids)
    before = earlier.beside(now)
    columns = [column for column in run.metrics if earlier.measures(column)]
    main = main_metrics(columns)
    pair, changed = case_changes(before, now, SIDES, main, max_texts=max_texts)
    kinds = {case.id: case.kind for case in changed}
    names = [column.name for column in columns if column.has_cells]
    return Against(
        source=earlier.source,
        rag=earlier.rag,
        # Read only when a page opens a case: texts of all would fill memory.
        read_cases=partial(_cases_before, before, now, names, kinds),
        changed=changed,
        pair=pair,
        flows=tuple(cause_flows((SIDES[0], before), (SIDES[1], now))),
        # In both by id, and with another content.
        edited=same_ids - len(unchanged_ids),
        added=len(run.cases) - same_ids,
        gone=len(earlier.cases) - same_ids,
    )


def _cases_before(
    run_before: RunScores,
    run_now: RunScores,
    metrics: Sequence[str],
    kinds: Mapping[str, CaseKind],
    ids: Sequence[str],
) -> dict[str, CaseBefore]:
    """By id, cases of a run as they were in an earlier run with the same cases.

    A page shows the earlier cases beside the present ones, where a reader opens them: texts are
    read from the run's file, so that only the texts of these cases are read.

    Args:
        metrics: names of the metrics that both runs measure.
        kinds: by id, how a case turned: newly failing, fixed or mixed.
        ids: of the cases to read; ids that the run does not have are left out.
    """
    places = [int(place) for place in run_now.table.places(ids) if place >= 0]
    texts_before = run_before.table.texts_of(places)
    texts_now = run_now.table.texts_of(places)
    causes = run_before.table.fact("cause")
    cases: dict[str, CaseBefore] = {}
    # Not strict: a baseline file gives empty texts without end.
    for place, before, now in zip(places, texts_before, texts_now, strict=False):
        id_ = run_now.table.ids[place]
        scores: list[tuple[str, Cell, Cell]] = []
        for metric in metrics:
            old_cell = run_before.cells(metric).cell(place)
            new_cell = run_now.cells(metric).cell(place)
            if (old_cell.status, old_cell.value) != (new_cell.status, new_cell.value):
                scores.append((metric, old_cell, new_cell))
        cases[id_] = CaseBefore(
            kind=kinds.get(id_),
            cause=causes[place] if causes else None,
            response=before.response,
            # Whether the earlier run has texts at all: a baseline file has none.
            tells_texts=before.query is not None,
            ids=id_change(before.retrieved_ids, now.retrieved_ids),
            scores=tuple(scores),
        )
    return cases
