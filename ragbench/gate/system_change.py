"""What differs between the systems of two runs."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.core.run_origin import SystemChange
from ragbench.core.run_scores import RunScores
from ragbench.ledger.origin import differences

_LAST = {"validate": 1, "generate": 2}
"""Retrieval and what follows it come first: what they give is what later stages are given."""


def system_change(before: RunScores, now: RunScores) -> SystemChange:
    """What differs between what the outcomes of two runs came from.

    Fingerprints of a system's class and settings say nothing of the prompt that it reads or of a
    package that was updated; what each stage has met while it was asked does.
    """
    if before.origins is None or now.origins is None:
        missing = before if before.origins is None else now
        return SystemChange(
            unknown=f"{missing.source} does not say what its answers came from; a run's folder does"
        )
    recorded = [run.source for run in (before, now) if not run.origins]
    if recorded:
        return SystemChange(unknown=f"the answers of {' and '.join(recorded)} are recorded")
    return SystemChange(
        changes=tuple(dict.fromkeys(_changes(before, now))),
        unseen=tuple(dict.fromkeys(_unseen(before, now))),
    )


def doubt_text(found: SystemChange) -> Iterator[str]:
    """What keeps two runs from being certainly of one system, a sentence each."""
    if found.unknown:
        yield f"Whether one system gave the runs cannot be told: {found.unknown}."
    elif found.unseen:
        first, *others = found.unseen
        more = f" (and {len(others)} more)" if others else ""
        yield (
            "Nothing that ragbench can see differs between the systems; it cannot see into all: "
            f"{first}{more}."
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
