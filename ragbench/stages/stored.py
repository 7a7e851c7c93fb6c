"""The cases of a stored run, read back: what its journal holds in the present epoch."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragbench.core.metric import Metric
from ragbench.core.outcome import Known, Outcome, Status
from ragbench.core.trace import STAGES, Entry
from ragbench.ledger.codec import CODECS, decode_outcome
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import Journal, StoredCase, StoredOutcome
from ragbench.ledger.manifest import Manifest, read_manifest
from ragbench.stages.judge_identity import judge_key
from ragbench.stages.stage import (
    NO_CONTEXTS,
    NO_GENERATION,
    NO_RETRIEVAL,
    RunCase,
    StageOutcome,
    passed_on,
    restored,
    skipped,
)

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
        judge = self.manifest.judge
        wanted = [(metric.identity, judge_key(judge, metric)) for metric in self.metrics]
        numbers = self.journal.scores.find(wanted)
        for window in self.journal.cases(self.ids):
            yield from self._window(window, numbers)

    def _window(
        self, window: Sequence[StoredCase], metrics: Sequence[int | None]
    ) -> Iterator[RunCase]:
        rows, scores = self.rows(window), self.journal.scores
        numbers = [row.number for row in rows]
        cells, matched, causes = (
            scores.cells(numbers),
            scores.matched(numbers),
            scores.causes(numbers),
        )
        judged = {} if self.manifest.judge is None else scores.judgements(numbers)
        matching = self.manifest.settings["matching"]
        for row in rows:
            line = cells.get(row.number)
            if line is None or (line.question, line.answer) != row.keys(matching):
                row.cells = (None,) * len(metrics)
            else:
                row.cells = tuple(None if at is None else line.cells[at] for at in metrics)
                row.matches = matched.get(row.number, {})
                row.attribution = causes.get(row.number)
            row.judgements = tuple(
                () if at is None or cell is None else judged.get((row.number, at), ())
                for at, cell in zip(metrics, row.cells, strict=True)
            )
            yield row

    def rows(self, window: Sequence[StoredCase]) -> list[RunCase]:
        """Cases of the run with what each stage gave."""
        numbers = [stored.number for stored in window]
        known = {stage: self.journal.valid_outcomes(stage, numbers) for stage in self._stages}
        rows: list[RunCase] = []
        for stored in window:
            row = RunCase(stored.number, stored.case, stored.digest)
            for stage in self._stages:
                row.settled[stage] = self._settled(stage, row, known[stage].get(stored.number))
            rows.append(row)
        return rows

    @property
    def _stages(self) -> tuple[str, ...]:
        """Those that the run has; it always has retrieval and generation."""
        there = {"retrieve", "generate", *self.manifest.rag.stages, *self.manifest.absent}
        return tuple(stage for stage in STAGES if stage in there)

    def _settled(self, stage: str, row: RunCase, stored: StoredOutcome | None) -> StageOutcome:
        if stored is not None:
            return restored(stage, stored, self.journal, with_texts=self.with_texts)
        if stage in self.manifest.absent:
            return skipped(self.manifest.absent[stage])
        if stage not in self.manifest.rag.stages:
            return skipped(NO_GENERATION if stage == "generate" else NO_RETRIEVAL)
        if stage != "retrieve":
            is_after = stage in ("validate", "generate")
            before = row.context if is_after else row.settled["retrieve"]
            reason = before.outcome.reason
            if before.outcome.value is None and reason not in (
                _INTERRUPTED,
                NO_RETRIEVAL,
                NO_CONTEXTS,
            ):
                return passed_on(before)
        return skipped(_INTERRUPTED)


# --- as the source of another evaluation


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
