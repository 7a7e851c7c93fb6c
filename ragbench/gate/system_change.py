"""What differs between the systems of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragbench.core.origin import SystemChange
from ragbench.core.run_scores import RunScores
from ragbench.errors import RunMismatchError
from ragbench.ledger.origin import differences, without_texts

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
_SHOWN = 5
"""How many changes of a system are named."""


def check_one_system(runs: Sequence[RunScores]) -> None:
    """Refuses runs whose systems are seen to differ."""
    sources = ", ".join(run.source for run in runs)
    for run in runs[1:]:
        found = system_change(runs[0], run)
        if found.changes:
            raise _not_one_system(sources, "; ".join(found.changes[:_SHOWN]))
    for part in _SYSTEM:
        known = {run.fingerprints.get(part) for run in runs}
        if len(known) > 1 or None in known:
            raise _not_one_system(sources, f"their {part} differ")


def _not_one_system(sources: str, why: str) -> RunMismatchError:
    return RunMismatchError(
        f"{sources} are not runs of one unchanged system: {why}. Differences between systems are "
        "shown by: ragbench compare"
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
