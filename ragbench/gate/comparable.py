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


class Comparability(Record):
    """What of two runs can be compared."""

    both: tuple[RunScores, RunScores] | None
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
    """Finds out what can be compared, and says why the rest cannot.

    Cases that were added, dropped or edited since are left out and named; a case under another id
    is the same, and tags, languages and clusters may change, since no score rests on them.
    """
    known, renamed = under_ids_of(run, baseline)
    same = unchanged(run, known)
    mine = run.on(same)
    change = None if baseline.is_old else _dataset_change(run, known, same, renamed)
    whole = tuple(_refusals(run, baseline, bool(same)))
    changed = [column for column in columns if not baseline.measures(column)]
    return Comparability(
        both=None if whole else (mine, known.beside(mine)),
        metrics=frozenset(column.name for column in columns if column not in changed),
        refusals=(*whole, *([_other_metrics(changed, baseline)] if changed else [])),
        notes=() if change is None else tuple(_notes(change)),
        dataset=change,
    )


def _refusals(run: RunScores, baseline: RunScores, is_shared: bool) -> Iterator[Refusal]:
    """Why no score of the two runs compares."""
    if not is_shared:
        written = "an earlier version of ragbench wrote it, which kept other fingerprints of cases"
        why = f": {written}" if baseline.is_old else ""
        can_ask = baseline.commit is not None and not baseline.dirty
        ask = "ask the baseline's system these cases with --reask-baseline; or " * can_ask
        add = "add a run of main to it, which keeps its history: ragbench baseline add RUN"
        yield Refusal(
            what="dataset",
            reason=f"no case of {run.source} is in {baseline.source} unchanged{why}",
            remedy=add if baseline.is_old else f"{ask}{_NEW_BASELINE}",
        )
    if scale_of(run.matching) != scale_of(baseline.matching):
        yield Refusal(
            what="matching",
            reason=(
                f"relevant chunks were recognised by {_MATCHED.get(run.matching, run.matching)} in "
                f"this run and by {_MATCHED.get(baseline.matching, baseline.matching)} in the "
                "baseline, which gives other scores"
            ),
            remedy=_scored_anew(baseline),
        )
    if run.fingerprints.get("judge") != baseline.fingerprints.get("judge"):
        yield Refusal(
            what="judge",
            reason=(
                f"this run was graded by {_judge(run)}, the baseline by {_judge(baseline)}; the "
                "digest in brackets is of model, endpoint, parameters and prompts"
            ),
            remedy=_scored_anew(baseline),
        )


_MATCHED = {"not_comparable": "nothing (no retrieved id and no text is one of the gold's)"}


def _judge(run: RunScores) -> str:
    digest = run.fingerprints.get("judge")
    return "no judge" if digest is None else f"{run.judge or 'a judge'} ({digest[:8]})"


def _scored_anew(baseline: RunScores) -> str:
    if baseline.made_of:  # a baseline file, which holds no answers
        return _NEW_BASELINE
    return (
        "score the baseline's stored answers with the metrics, the matching and the judge of this "
        f"run, which asks no RAG: ragbench eval {baseline.source} -o NEW, and name NEW with "
        f"--baseline; or {_NEW_BASELINE}"
    )


def _dataset_change(
    run: RunScores, baseline: RunScores, same: set[str], renamed: Mapping[str, str]
) -> DatasetChange | None:
    """How the cases of a run differ from those of a baseline that has its ids."""
    if len(same) == len(run.cases) == len(baseline.cases) and not renamed:
        return None
    there = {*baseline.table.ids}
    rest = [id_ for id_ in run.table.ids if id_ not in same]
    edited = tuple(id_ for id_ in rest if id_ in there)
    before, now = (Counter(chain.from_iterable(labels_of(one))) for one in (baseline, run))
    return DatasetChange(
        common=len(same),
        renamed=tuple((old, new) for new, old in renamed.items()),
        edited=edited,
        added=tuple(id_ for id_ in rest if id_ not in there),
        gone=tuple(sorted(there - same - {*edited})),
        labels=tuple(
            LabelCount(label, before[label], now[label])
            for label in sorted(before | now)
            if before[label] != now[label]
        ),
        scores=tuple(_new_scores(run, same)),
    )


def _new_scores(run: RunScores, same: set[str]) -> Iterator[NewScore]:
    is_same = np.array([id_ in same for id_ in run.table.ids], bool)
    for name in (column.name for column in main_metrics(run.metrics)):
        values = run.cells(name).values
        new, common = (values[where & ~np.isnan(values)].tolist() for where in (~is_same, is_same))
        if new and common:
            yield NewScore(name, fmean(new), len(new), fmean(common), len(common))


_MANY = 0.1
"""Share of the baseline's cases whose absence the headline names."""


def dataset_text(change: DatasetChange | None) -> str:
    """What a headline says of the cases: only what the checks may not have seen."""
    if change is None:
        return ""
    gone, vanished = len(change.gone) + len(change.edited), change.vanished
    before = change.common + gone
    labels = as_line([one.label for one in vanished], _SHOWN)
    parts = [f"no case has {labels} any more"] if vanished else []
    if gone > _MANY * before and change.common:
        parts.insert(0, f"{gone:,} of the baseline's {before:,} cases are gone or edited")
    return "".join(f"; {part}" for part in parts)


def _notes(change: DatasetChange) -> Iterator[str]:
    groups = (("edited", change.edited), ("new", change.added), ("gone", change.gone))
    named = [f"{len(ids):,} {word} ({as_line(ids, _SHOWN)})" for word, ids in groups if ids]
    cases = counted(change.common, "case")
    ids = f", {len(change.renamed):,} of them under another id" if change.renamed else ""
    rest = f" Left out: {'; '.join(named)}." if named else ""
    yield f"Compared on the {cases} that both runs have unchanged{ids}.{rest}"
    for one in change.vanished:
        yield f"Nothing is checked on {one.label}: no case has it any more ({one.before:,} before)."


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


_LAST = {"validate": 1, "generate": 2}
"""Retrieval and what follows it come first: what they give is what later stages are given."""


def system_change(before: RunScores, now: RunScores, *, texts: bool = False) -> SystemChange:
    """What differs between what the outcomes of two runs came from.

    Args:
        texts: whether settings are quoted where both runs hold them; a baseline file does not.

    Fingerprints of a system's class and settings say nothing of the prompt that it reads or of a
    package that was updated; what each stage has met while it was asked does.
    """
    if before.origins is None or now.origins is None:
        missing = before if before.origins is None else now
        return SystemChange(
            unknown=f"{missing.source} does not say what its answers came from; a run's folder does"
        )
    if not texts or before.made_of or now.made_of:
        before, now = (
            replace(run, origins=tuple(map(without_texts, run.origins or ())))
            for run in (before, now)
        )
    recorded = [run.source for run in (before, now) if not run.origins]
    if recorded:
        return SystemChange(unknown=f"the answers of {' and '.join(recorded)} are recorded")
    return SystemChange(
        changes=tuple(dict.fromkeys(_changes(before, now))),
        unseen=tuple(dict.fromkeys(_unseen(before, now))),
    )


_SYSTEM = ("rag", "settings")
"""Parts of a manifest that runs of one system share."""
_RECORDED = ". Runs of recorded answers are added one by one: ragbench baseline add RUN"


def check_one_system(runs: Sequence[RunScores]) -> None:
    """Refuses runs whose systems are seen to differ."""
    found = (system_change(runs[0], run).changes for run in runs[1:])
    why = ["; ".join(changes[:_SHOWN]) for changes in found if changes]
    for part in _SYSTEM:
        known = {run.fingerprints.get(part) for run in runs}
        if len(known) > 1 or None in known:
            why.append(f"their {part} differ")
    if why:
        raise RunMismatchError(
            f"{', '.join(run.source for run in runs)} are not runs of one unchanged system: "
            f"{why[0]}. Differences between systems are shown by: ragbench compare"
            + ("" if all(run.origins for run in runs) else _RECORDED)
        )


def _changes(before: RunScores, now: RunScores) -> Iterator[str]:
    earlier = {origin.stage: origin for origin in before.origins or ()}
    found: dict[str, list[str]] = {}
    stages = [origin for origin in now.origins or () if origin.stage in earlier]
    stages.sort(key=lambda origin: _LAST.get(origin.stage, 0))
    for origin in stages:
        for change in differences(earlier[origin.stage], origin):
            sentence = change.sentence.removeprefix("stage_identity.")
            found.setdefault(sentence, []).append(origin.stage)
    for sentence, of in found.items():
        yield sentence if len(of) == len(stages) else f"{sentence} ({' and '.join(of)})"
    here = {origin.stage for origin in now.origins or ()}
    yield from (f"{stage} is asked now" for stage in sorted(here - earlier.keys()))
    yield from (f"{stage} is not asked any more" for stage in sorted(earlier.keys() - here))


def _unseen(before: RunScores, now: RunScores) -> Iterator[str]:
    for run in (before, now):
        for origin in run.origins or ():
            yield from origin.unseen
        for stage in run.stages:
            if stage.recorded:
                yield f"{stage.stage} is recorded"
