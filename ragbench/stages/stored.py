"""The cases of a stored run, read back: what its journal holds in the present epoch."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ragbench.core.metric import Metric
from ragbench.core.outcome import Known, Outcome, Status
from ragbench.core.trace import STAGES, Entry, RunCase, StageOutcome
from ragbench.ledger.codec import CODECS
from ragbench.ledger.folder import Manifest, RunFolder, read_manifest
from ragbench.ledger.journal import Journal, StoredOutcome
from ragbench.stages.judge_identity import judge_key
from ragbench.stages.stage import (
    NO_CONTEXTS,
    NO_GENERATION,
    NO_RETRIEVAL,
    cell_keys,
    passed_on,
    restored,
    skipped,
)
from ragbench.stages.turns import OWN, TURNS, OwnTurns

_INTERRUPTED = "not asked yet: the run was interrupted"


@dataclass(frozen=True, kw_only=True)
class StoredTraces:
    """Reads a run's cases with their outcomes and cells, in order, a window at a time."""

    journal: Journal
    manifest: Manifest
    metrics: tuple[Metric, ...]
    with_texts: bool
    """Whether context texts are read too; without, each context is an empty string."""

    ids: Sequence[str] | None = None
    """Only these cases, in this order; all when not given."""

    def __iter__(self) -> Iterator[RunCase]:
        judge, scores = self.manifest.judge, self.journal.scores
        wanted = [(metric.identity, judge_key(judge, metric)) for metric in self.metrics]
        metrics = scores.find(wanted)
        for window in self.journal.cases(self.ids):
            numbers = [stored.number for stored in window]
            cells, matched = scores.cells(numbers), scores.matched(numbers)
            causes = scores.causes(numbers)
            judged = {} if judge is None else scores.judgements(numbers)
            for row in self.rows(window):
                line = cells.get(row.number)
                row.cells = (None,) * len(metrics)
                keys = cell_keys(row, self.manifest.settings["matching"])
                if line is not None and (line.question, line.answer) == keys:
                    row.cells = tuple(None if at is None else line.cells[at] for at in metrics)
                    row.matches = matched.get(row.number, {})
                    row.attribution = causes.get(row.number)
                row.judgements = tuple(
                    () if at is None or cell is None else judged.get((row.number, at), ())
                    for at, cell in zip(metrics, row.cells, strict=True)
                )
                yield row

    def rows(self, window: Sequence[RunCase]) -> list[RunCase]:
        """Cases of the run with what each stage gave."""
        # A run always has retrieval and generation.
        there = {"retrieve", "generate", *self.manifest.rag.stages, *self.manifest.absent}
        stages = [stage for stage in STAGES if stage in there]
        numbers = [stored.number for stored in window]
        known = {stage: self.journal.valid_outcomes(stage, numbers) for stage in stages}
        if self.with_texts:
            self.journal.load_texts(one for found in known.values() for one in found.values())
        is_own = self.manifest.settings.get(TURNS) == OWN
        rows = [*(map(self._own.row, window) if is_own else window)]
        for row in rows:
            for stage in stages:
                row.settled[stage] = self._settled(stage, row, known[stage].get(row.number))
        return rows

    @cached_property
    def _own(self) -> OwnTurns:
        """The answers that each question was asked with, where they are the system's own."""
        return OwnTurns.stored(self.journal)

    def _settled(self, stage: str, row: RunCase, stored: StoredOutcome | None) -> StageOutcome:
        if stored is not None:
            return restored(stage, stored, self.journal, with_texts=self.with_texts)
        if stage in self.manifest.absent:
            return skipped(self.manifest.absent[stage])
        if stage not in self.manifest.rag.stages:
            return skipped(NO_GENERATION if stage == "generate" else NO_RETRIEVAL)
        if stage != "retrieve":
            is_after = stage in ("validate", "generate")
            before = row.settled["retrieve"]
            before = row.settled.get("post_retrieve", before) if is_after else before
            is_told = before.outcome.reason in (_INTERRUPTED, NO_RETRIEVAL, NO_CONTEXTS)
            if before.outcome.value is None and not is_told:
                return passed_on(before)
        return skipped(_INTERRUPTED)


# --- as the source of another evaluation


def entries(path: Path) -> Iterator[Entry]:
    """The cases of a run in order, with every outcome that it has, as recorded ones.

    What was not asked yet, because the run was interrupted, and what a source had not recorded, is
    not recorded here either.
    """
    folder = RunFolder(path=path)
    manifest = read_manifest(folder.manifest)
    stages = manifest.rag.stages
    with Journal(folder.journal) as journal:
        is_own = manifest.settings.get(TURNS) == OWN
        own = OwnTurns.stored(journal) if is_own else None
        for window in journal.cases():
            numbers = [stored.number for stored in window]
            known = {stage: journal.valid_outcomes(stage, numbers) for stage in CODECS}
            journal.load_texts(one for found in known.values() for one in found.values())
            for case in window:
                given = {stage: found.get(case.number) for stage, found in known.items()}
                asked = case.case if own is None else own.row(case).case
                yield Entry(case=asked, recorded=dict(_recorded(given, stages, journal)))


def _recorded(
    given: Mapping[str, StoredOutcome | None], stages: Container[str], journal: Journal
) -> Iterator[tuple[str, Outcome[Any]]]:
    failed: Outcome[Any] | None = None
    for stage, stored in given.items():
        if stored is not None:
            outcome = restored(stage, stored, journal).outcome
            yield stage, replace(outcome, known=Known.RECORDED)
            if stage != "validate" and outcome.status is Status.FAILED:
                failed = replace(outcome, seconds=None, known=Known.RECORDED)
        elif failed is not None and stage in stages:
            # A stage that an earlier one's failure kept from running has no row of its own.
            yield stage, failed
