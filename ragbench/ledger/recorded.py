"""A stored run as cases with what was recorded for them: the source of another evaluation."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.core.outcome import Known, Outcome, Status
from ragbench.core.trace import Entry
from ragbench.ledger.codec import CODECS, decode_outcome
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import Journal, StoredCase, StoredOutcome
from ragbench.ledger.manifest import read_manifest


def entries(path: Path) -> Iterator[Entry]:
    """The cases of a run in order, with every outcome that it has, as recorded ones.

    What was not asked yet, because the run was interrupted, and what a source had not recorded, is
    not recorded here either.
    """
    folder = RunFolder(path=path)
    stages = read_manifest(folder.manifest).rag.stages
    with Journal(folder.journal) as journal:
        for window in journal.cases():
            numbers = [stored.number for stored in window]
            known = {stage: journal.valid_outcomes(stage, numbers) for stage in CODECS}
            for stored in window:
                yield Entry(case=stored.case, recorded=_recorded(stored, known, stages, journal))


def _recorded(
    case: StoredCase,
    known: Mapping[str, Mapping[int, StoredOutcome]],
    stages: Container[str],
    journal: Journal,
) -> dict[str, Outcome[Any]]:
    found: dict[str, Outcome[Any]] = {}
    failed: Outcome[Any] | None = None
    for stage in CODECS:
        stored = known[stage].get(case.number)
        if stored is not None:
            took = {"seconds": stored.seconds, "sharing": stored.sharing, "known": Known.RECORDED}
            texts = journal.texts(stored.texts)
            found[stage] = decode_outcome(stage, stored.status, texts, stored.body, **took)
            if stage != "validate" and found[stage].status is Status.FAILED:
                failed = replace(found[stage], seconds=None)
        elif failed is not None and stage in stages:
            # A stage that an earlier one's failure kept from running has no row of its own.
            found[stage] = failed
    return found
