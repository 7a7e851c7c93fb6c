"""Whether two runs measured the same thing, on which cases, and what differs in their systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean

from ragbench.core.gate_result import DatasetChange, LabelCount, NewScore, Refusal
from ragbench.core.origin import SystemChange
from ragbench.core.record import Record
from ragbench.core.run_scores import MetricColumn, RunScores, labels_of, unchanged, under_ids_of
from ragbench.errors import RunMismatchError
from ragbench.gate.cases import main_metrics
from ragbench.ledger.origin import differences, without_texts
from ragbench.plugins import np
from ragbench.safe_text import as_line, counted

_SHOWN = 5
"""How many cases of a kind, and changes of a system, are named."""
_NEW_BASELINE = "set a new one with: ragbench baseline set RUN"
"""What helps where a baseline cannot be compared with at all."""


class Comparability(Record):
    """What of two runs can be compared."""

    comparable_runs: tuple[RunScores, RunScores] | None
    """The run and the baseline, with the cases to be compared; None when nothing can be."""
    metrics: frozenset[str]
    """Names of the metrics that are comparable."""
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...] = ()
    dataset: DatasetChange | None = None
    """How the cases differ; None where they do not."""


def compare_inputs(
    run: RunScores, baseline: RunScores, columns: Sequence[MetricColumn]
) -> Comparability:
    """Finds out which cases and metrics of two runs can be compared, and why others cannot.

    A gate judges losses on what compares: scores of other questions or by another judge differ
    without any change of the system. Cases that were added, dropped or edited since are left out
    and named; a case under another id is the same, and tags, languages and clusters may change,
    since no score rests on them.

    Args:
        columns: the metrics that the gate judges.
    """
    # By their content: a case under another id is the same.
    baseline_by_new_ids, renamed = under_ids_of(run, baseline)
    same_ids = unchanged(run, baseline_by_new_ids)
    change = None
    notes: tuple[str, ...] = ()
    # By a file of an older version no case is recognised: all would seem to be gone.
    if not baseline.is_old:
        change = _dataset_change(run, baseline_by_new_ids, same_ids, renamed)
    if change is not None:
        notes = tuple(_notes_on_cases(change))
    refusals = list(_refusals(run, baseline, is_shared=bool(same_ids)))
    comparable_runs = None
    if not refusals:
        # In the run's order, and the baseline beside it: positions are then the same cases.
        common_run = run.on(same_ids)
        comparable_runs = (common_run, baseline_by_new_ids.beside(common_run))
    comparable_metrics: set[str] = set()
    other_metrics: list[MetricColumn] = []
    for column in columns:
        # The same formula, by its version and code.
        if baseline.measures(column):
            comparable_metrics.add(column.name)
        else:
            other_metrics.append(column)
    # Metrics that do not compare leave the others comparable: only they are refused.
    if other_metrics:
        refusals.append(_other_metrics(other_metrics, baseline))
    return Comparability(
        comparable_runs=comparable_runs,
        metrics=frozenset(comparable_metrics),
        refusals=tuple(refusals),
        notes=notes,
        dataset=change,
    )


def _refusals(run: RunScores, baseline: RunScores, *, is_shared: bool) -> Iterator[Refusal]:
    """The reasons why no score of a run compares with the baseline's, each with a remedy.

    Scores by another judge or another way to match chunks differ though the system is the same.

    Args:
        is_shared: whether any case is in both, unchanged.
    """
    if not is_shared:
        yield _no_case_in_common(run, baseline)
    # Ids of chunks and of documents are one scale; see `scale_of`.
    if scale_of(run.matching) != scale_of(baseline.matching):
        way_now = _MATCHED.get(run.matching, run.matching)
        way_before = _MATCHED.get(baseline.matching, baseline.matching)
        yield Refusal(
            what="matching",
            reason=(
                f"relevant chunks were recognised by {way_now} in this run and by {way_before} in "
                "the baseline, which gives other scores"
            ),
            remedy=_scored_anew(baseline),
        )
    # Where neither run was judged, both are None and so equal.
    if run.fingerprints.get("judge") != baseline.fingerprints.get("judge"):
        yield Refusal(
            what="judge",
            reason=(
                f"this run was graded by {_judge(run)}, the baseline by {_judge(baseline)}; the "
                "digest in brackets is of model, endpoint, parameters and prompts"
            ),
            remedy=_scored_anew(baseline),
        )


def _no_case_in_common(run: RunScores, baseline: RunScores) -> Refusal:
    """The refusal of two runs without a common case, with the command that helps.

    A baseline of an earlier version keeps other fingerprints, which has another remedy.
    """
    reason = f"no case of {run.source} is in {baseline.source} unchanged"
    if baseline.is_old:
        return Refusal(
            what="dataset",
            reason=(
                f"{reason}: an earlier version of ragbench wrote it, which kept other fingerprints "
                "of cases"
            ),
            remedy=("add a run of main to it, which keeps its history: ragbench baseline add RUN"),
        )
    remedy = _NEW_BASELINE
    # A baseline whose system had unsaved changes cannot be asked again.
    if baseline.commit is not None and not baseline.dirty:  # its system can be checked out
        remedy = f"ask the baseline's system these cases with --reask-baseline; or {remedy}"
    return Refusal(what="dataset", reason=reason, remedy=remedy)


# Names of ways to match that need words in a sentence.
_MATCHED = {"not_comparable": "nothing (no retrieved id and no text is one of the gold's)"}


def _judge(run: RunScores) -> str:
    """The judge of a run in words, such as ``gpt-4o (1f0c22ab)``; ``no judge`` without one.

    The digest tells judges of one name apart, whose prompts or parameters differ.
    """
    digest = run.fingerprints.get("judge")
    if digest is None:
        return "no judge"
    return f"{run.judge or 'a judge'} ({digest[:8]})"


def _scored_anew(baseline: RunScores) -> str:
    """The remedy where the baseline was scored in another way: which command to run.

    A run's folder can be scored anew from its answers; a baseline file holds none, and is replaced.
    """
    if baseline.made_of:  # a baseline file, which holds no answers
        return _NEW_BASELINE
    return (
        "score the baseline's stored answers with the metrics, the matching and the judge of this "
        f"run, which asks no RAG: ragbench eval {baseline.source} -o NEW, and name NEW with "
        f"--baseline; or {_NEW_BASELINE}"
    )


def _dataset_change(
    run: RunScores, baseline: RunScores, same_ids: set[str], renamed: Mapping[str, str]
) -> DatasetChange | None:
    """How a run's cases differ from the baseline's; None where they do not.

    A gate compares common cases alone: the user has to see which were edited, added or dropped,
    since dropping hard cases raises every score.

    Args:
        baseline: with its cases under the run's ids.
        same_ids: of the cases that both have unchanged.
        renamed: by the run's id of a case, the id that it had in the baseline.
    """
    # Chained: all of the run's cases and all of the baseline's are the common ones.
    has_same_cases = len(same_ids) == len(run.cases) == len(baseline.cases)
    if has_same_cases and not renamed:
        return None
    baseline_ids = set(baseline.table.ids)
    edited: list[str] = []
    added: list[str] = []
    for id_ in run.table.ids:
        if id_ in same_ids:
            continue
        if id_ in baseline_ids:
            edited.append(id_)
        else:
            added.append(id_)
    # What is left of the baseline: neither unchanged nor edited.
    gone = baseline_ids - same_ids - set(edited)
    # Of all cases, also those that were added or are gone.
    counts_before = Counter(chain.from_iterable(labels_of(baseline)))
    counts_now = Counter(chain.from_iterable(labels_of(run)))
    labels: list[LabelCount] = []
    for label in sorted(counts_before | counts_now):
        before = counts_before[label]
        now = counts_now[label]
        if before != now:
            labels.append(LabelCount(label, before, now))
    return DatasetChange(
        common=len(same_ids),
        # As old and new id; the mapping has them the other way round.
        renamed=tuple((old, new) for new, old in renamed.items()),
        edited=tuple(edited),
        added=tuple(added),
        gone=tuple(sorted(gone)),
        labels=tuple(labels),
        scores=tuple(_new_scores(run, same_ids)),
    )


def _new_scores(run: RunScores, same_ids: set[str]) -> Iterator[NewScore]:
    """The main metrics' means on new and edited cases, next to those on the common cases.

    The checks leave new cases out: here a reader sees where they are harder than the others.
    """
    is_same = np.array([id_ in same_ids for id_ in run.table.ids], bool)
    for column in main_metrics(run.metrics):
        values = run.cells(column.name).values
        is_measured = ~np.isnan(values)
        is_new_value = is_measured & ~is_same
        is_common_value = is_measured & is_same
        new = values[is_new_value].tolist()
        common = values[is_common_value].tolist()
        # Without values on both sides there is nothing to compare.
        if new and common:
            yield NewScore(column.name, fmean(new), len(new), fmean(common), len(common))


_MANY_GONE = 0.1
"""Share of the baseline's cases whose absence the headline names."""


def dataset_text(change: DatasetChange | None) -> str:
    """The end of a gate's headline about cases that are gone; empty where few are.

    A headline is often all that is read, so it has to name what the checks may not have seen.
    """
    if change is None:
        return ""
    text = ""
    gone = len(change.gone) + len(change.edited)
    before = change.common + gone
    # Without any common case the result says so itself, as a refusal.
    if gone > _MANY_GONE * before and change.common:
        text += f"; {gone:,} of the baseline's {before:,} cases are gone or edited"
    if change.vanished:
        labels = as_line([count.label for count in change.vanished], _SHOWN)
        text += f"; no case has {labels} any more"
    return text


def _notes_on_cases(change: DatasetChange) -> Iterator[str]:
    """Notes on how the cases of two runs differ, and which are left out of the comparison.

    A gate speaks only of the common cases: a reader must know how many these are.
    """
    text = f"Compared on the {counted(change.common, 'case')} that both runs have unchanged"
    if change.renamed:
        text += f", {len(change.renamed):,} of them under another id"
    text += "."
    ids_left_out = {"edited": change.edited, "new": change.added, "gone": change.gone}
    left_out: list[str] = []
    for kind, ids in ids_left_out.items():
        if ids:
            left_out.append(f"{len(ids):,} {kind} ({as_line(ids, _SHOWN)})")
    if left_out:
        text += f" Left out: {'; '.join(left_out)}."
    yield text
    for count in change.vanished:
        yield (
            f"Nothing is checked on {count.label}: no case has it any more "
            f"({count.before:,} before)."
        )


def scale_of(matching: str) -> str:
    """The scale of retrieval scores by a way to match: ``id`` for gold ids, else the way itself.

    Scores compare only where they count the same things. The id of a chunk and that of its document
    count the same gold ids, so both ways give ``id``.
    """
    # The id of a chunk and that of its document count the same gold ids.
    return "id" if matching == "document_id" else matching


def _other_metrics(columns: Sequence[MetricColumn], baseline: RunScores) -> Refusal:
    """The refusal of metrics that the baseline lacks, or computes by another formula.

    It names each metric with its two versions: a user sees whether an update is the reason.
    """
    names: list[str] = []
    for column in columns:
        baseline_column = baseline.column(column.name)
        if baseline_column is None:
            reason = f"version {column.version}, there not measured"
        elif baseline_column.version == column.version:
            # Same version, and yet not the same metric: its code has another digest.
            reason = "the code that computes it has changed"
        else:
            reason = f"version {column.version}, there version {baseline_column.version}"
        names.append(f"{column.name} ({reason})")
    return Refusal(
        what="metrics",
        reason=f"the baseline's scores are of other metrics: {', '.join(names)}",
        remedy=_scored_anew(baseline),
    )


_LATER_STAGES = {"validate": 1, "generate": 2}
"""Retrieval and what follows it come first: what they give is what later stages are given."""


def system_change(before: RunScores, now: RunScores, *, texts: bool = False) -> SystemChange:
    """The difference between two systems: sentences on what their answers came from, then and now.

    A reader of a verdict sees so whether a prompt, a package or a setting explains it. Fingerprints
    of a system's class and settings say nothing of the prompt that it reads or of a package that
    was updated; the origins that each stage recorded do.

    Args:
        texts: whether settings are quoted where both runs hold them; a baseline file does not.
    """
    # None: unknown, as in a baseline of an earlier version; empty: recorded answers.
    if before.origins is None or now.origins is None:
        missing = before if before.origins is None else now
        return SystemChange(
            unknown=f"{missing.source} does not say what its answers came from; a run's folder does"
        )
    # Texts only where both sides have them: a missing one would look like a change.
    if not texts or before.made_of or now.made_of:
        before = _without_texts(before)
        now = _without_texts(now)
    recorded = [run.source for run in (before, now) if not run.origins]
    if recorded:
        return SystemChange(unknown=f"the answers of {' and '.join(recorded)} are recorded")
    return SystemChange(
        # A dict: several stages may give the same sentence.
        changes=tuple(dict.fromkeys(_changes_of_system(before, now))),
        unseen=tuple(dict.fromkeys(_unseen_of_systems(before, now))),
    )


def _without_texts(run: RunScores) -> RunScores:
    """The run with its origins in the form of a baseline file, without prompts and other texts.

    A run's folder has texts and a baseline file has none: without this every text would seem
    changed.

    An origin lists the files, packages and settings that a stage's answers came from.
    """
    origins = [without_texts(origin) for origin in run.origins or ()]
    return replace(run, origins=tuple(origins))


_SYSTEM = ("rag", "settings")
"""Parts of a manifest that runs of one system share."""


def check_one_system(runs: Sequence[RunScores]) -> None:
    """Refuses runs whose systems are seen to differ, where a mean or a noise of one is made.

    The difference between two systems would else count as the noise of one, and hide later losses.

    Raises:
        RunMismatchError: the runs differ in an origin, or in the part of a manifest in `_SYSTEM`.
    """
    reasons: list[str] = []
    # Each with the first: runs that equal it equal each other.
    for run in runs[1:]:
        changes = system_change(runs[0], run).changes
        if changes:
            reasons.append("; ".join(changes[:_SHOWN]))
    for part in _SYSTEM:
        fingerprints = {run.fingerprints.get(part) for run in runs}
        # A manifest without the part cannot show that it is the same.
        if len(fingerprints) > 1 or None in fingerprints:
            reasons.append(f"their {part} differ")
    if not reasons:
        return
    message = (
        f"{', '.join(run.source for run in runs)} are not runs of one unchanged system: "
        f"{reasons[0]}. Differences between systems are shown by: ragbench compare"
    )
    # Without origins, recorded answers, nothing shows that they are of one system.
    if not all(run.origins for run in runs):
        message += ". Runs of recorded answers are added one by one: ragbench baseline add RUN"
    raise RunMismatchError(message)


def _changes_of_system(before: RunScores, now: RunScores) -> Iterator[str]:
    """Sentences on what differs between two systems, by what their stages recorded.

    A sentence names its stages where not all of them changed alike. Retrieval comes first, since a
    change there explains changes in the stages after it.
    """
    origins_before = {origin.stage: origin for origin in before.origins or ()}
    origins_now = {origin.stage: origin for origin in now.origins or ()}
    common_stages = [stage for stage in origins_now if stage in origins_before]
    # Stages that are not named come first; sorting keeps their order otherwise.
    common_stages.sort(key=lambda stage: _LATER_STAGES.get(stage, 0))
    stages_of_sentence: dict[str, list[str]] = {}
    for stage in common_stages:
        for change in differences(origins_before[stage], origins_now[stage]):
            # What a user's own identity of a stage holds is named as the user named it.
            sentence = change.sentence.removeprefix("stage_identity.")
            stages_of_sentence.setdefault(sentence, []).append(stage)
    for sentence, stages in stages_of_sentence.items():
        # Where all stages changed alike, the sentence needs no names.
        if len(stages) == len(common_stages):
            yield sentence
        else:
            yield f"{sentence} ({' and '.join(stages)})"
    for stage in sorted(origins_now.keys() - origins_before.keys()):
        yield f"{stage} is asked now"
    for stage in sorted(origins_before.keys() - origins_now.keys()):
        yield f"{stage} is not asked any more"


def _unseen_of_systems(before: RunScores, now: RunScores) -> Iterator[str]:
    """The parts of two systems that cannot be compared: unseen ones, and recorded stages.

    Without these sentences "nothing differs" would be read as "the systems are the same".
    """
    for run in (before, now):
        for origin in run.origins or ():
            yield from origin.unseen
        for stage in run.stages:
            if stage.recorded:
                yield f"{stage.stage} is recorded"
