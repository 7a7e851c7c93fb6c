"""A run begun in its folder: its cases in the journal, its manifest, what may be used again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.core.case import Case
from ragbench.core.metric import Metric
from ragbench.core.outcome import Status
from ragbench.core.trace import Entry
from ragbench.errors import DataError, InterruptedRunError, Problem, RunMismatchError
from ragbench.io.only import Selection
from ragbench.ledger.fingerprint import digest, fingerprint
from ragbench.ledger.folder import (
    DatasetInfo,
    Manifest,
    MetricInfo,
    RagInfo,
    RunFolder,
    git_state,
    package_versions,
    read_manifest,
    repeat_folders,
    write_manifest,
)
from ragbench.ledger.journal import Journal
from ragbench.ledger.watch import Watch
from ragbench.metrics.abstention import abstained
from ragbench.metrics.gold_space import GoldSpace
from ragbench.metrics.matching import Matching
from ragbench.post.stage import POST_RETRIEVE, PostRetrieval
from ragbench.safe_text import counted
from ragbench.stages.call_stage import CallStage
from ragbench.stages.reuse import OutcomeReuse, differing_case
from ragbench.stages.stage import CallSettings, InLoop, Stage
from ragbench.stages.system import EvaluatedSystem, absent_stages, call_stages
from ragbench.text.declining import read_answer

if TYPE_CHECKING:
    from ragbench.stages.judge import Judge

_PACKAGES = (
    "bm25s", "ragas", "ragbench", "rapidfuzz", "rouge-score", "sacrebleu",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What is evaluated, and by what."""

    system: EvaluatedSystem
    metrics: tuple[Metric, ...]
    matching: Matching
    """How retrieved chunks are compared with relevant ones, as the user says it."""
    judge: Judge | None
    """Who judges; None where no metric asks a model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BegunRun:
    """A run whose setting stands in the journal."""

    manifest: Manifest
    stages: list[Stage]
    """Those up to generation, in order."""
    reuse: OutcomeReuse
    """Says which stored outcomes still hold, and keeps what the new ones came from."""
    notes: tuple[str, ...]
    """What the journal has to say of outcomes that are used again."""
    stands: bool = False
    """Whether nothing was begun, since the latest run is the same, and its report is kept."""


def begin(
    asked: Evaluation,
    draft: Manifest,
    journal: Journal,
    draw: Draw,
    folder: RunFolder,
    *,
    watch: Watch,
    trust: bool,
    calls: CallSettings,
    in_loop: InLoop,
    anew: str = "",
) -> BegunRun:
    """Begins a run over the cases of a journal."""
    system, source = asked.system, draw.source
    absent = absent_stages(system, journal.recorded_counts(), source)
    count, cases = journal.cases_digest()
    manifest = replace(
        draft, dataset=replace(draft.dataset, fingerprint=cases, cases=count), absent=absent
    )
    left_out: list[str | Path] = [source, folder.path]
    reuse = OutcomeReuse(
        journal, system, watch, leaving_out=left_out, metrics=asked.metrics, trust=trust, anew=anew
    )
    stages = call_stages(system, absent, reuse.generations)
    if reuse.is_inferred and (case := differing_case(stages, journal, calls, in_loop, seed=cases)):
        reuse.drop(f"{case} is another one now, though nothing that is compared has changed")
        stages = call_stages(system, absent, reuse.generations)
    # All that outcomes depend on; how they are scored is not part of it.
    keys = [(stage.name, stage.identity) for stage in stages if isinstance(stage, CallStage)]
    judge = None if manifest.judge is None else manifest.judge["fingerprint"]
    setting = fingerprint((cases, keys, judge, absent))
    if not draw.is_read:
        if not reuse.notes and journal.runs.kept("setting") == bytes.fromhex(setting):
            return BegunRun(manifest=manifest, stages=stages, reuse=reuse, notes=(), stands=True)
        journal.replace_cases(draw)
    journal.runs.begin(bytes.fromhex(setting), reuse.notes)
    journal.before_flush = reuse.keep
    notes = journal.runs.notes
    if count := draw.declining:
        notes = (
            f"{counted(count, 'case')} {'is' if count == 1 else 'are'} taken as unanswerable: "
            "the reference says that there is no answer. `answerable` in the dataset overrides "
            "that.",
            *notes,
        )
    return BegunRun(manifest=manifest, stages=stages, reuse=reuse, notes=notes)


def drafted(asked: Evaluation, draw: Draw, name: str, notes: Sequence[str]) -> Manifest:
    system, selection = asked.system, draw.selection
    return Manifest(
        dataset=DatasetInfo(
            name=name,
            source=draw.source,
            fingerprint="",
            cases=0,
            limit=selection.limit,
            sample=selection.sample,
            seed=None if selection.sample is None else selection.seed,
        ),
        rag=RagInfo(name=system.name, description=system.description, stages=system.stages),
        metrics=tuple(map(MetricInfo.of, asked.metrics)),
        settings={**system.settings, "matching": str(asked.matching)},
        packages=package_versions(_PACKAGES),
        git=git_state(Path.cwd()),
        notes=tuple(notes),
        judge=None if asked.judge is None else asked.judge.info,
    )


def asked_for(draft: Manifest, draw: Draw, folder: RunFolder) -> bytes:
    """A digest of all that a report depends on beside what is asked; empty where nobody can tell.

    A metric that is judged, and one of the user's, may read anything.
    """
    is_open = draft.judge is not None or any(one.definition["digest"] for one in draft.metrics)
    if not draw.content or is_open or not folder.manifest.is_file() or repeat_folders(folder.path):
        return b""
    parts = (draw.content.encode(), fingerprint(draft).encode(), folder.manifest.read_bytes())
    return digest(parts)


@contextmanager
def journal_of(
    folder: RunFolder, draft: Manifest, draw: Draw, *, fresh: bool
) -> Generator[Journal]:
    """The folder's journal with the cases in it, for the length of a block.

    They are not read where its latest run was asked for the same.
    """
    if fresh:
        with folder.new_journal() as path, Journal(path) as new:
            new.replace_cases(draw)
    with Journal(folder.journal) as journal:
        before = not fresh and journal.runs.number > 0
        if not fresh and not (before and journal.runs.stands(asked_for(draft, draw, folder))):
            journal.replace_cases(draw)
        yield journal


def earlier_settings(manifest: Path) -> Mapping[str, Any]:
    """The settings of the folder's latest run; empty where it cannot be read."""
    try:
        return read_manifest(manifest).settings
    except RunMismatchError:
        return {}


def dated(stage: PostRetrieval, earlier: Mapping[str, Any]) -> PostRetrieval:
    """The stage with the run's date, where ages count from it; a run that goes on keeps its own."""
    settings: Any = earlier.get(POST_RETRIEVE) or {}
    if "now" in settings:
        return stage.dated(datetime.fromisoformat(settings["now"]))
    return stage.dated(datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0))


@dataclass(slots=True)
class KnownManifest:
    """The manifest as far as it is known: how gold is matched is decided during the run."""

    manifest: Manifest
    path: Path
    stored: Manifest | None = None
    """As it was written."""

    def decide(self, matching: Matching, notes: Sequence[str] = ()) -> None:
        """Writes down how retrieved chunks are compared with relevant ones, and why."""
        settings = {**self.manifest.settings, "matching": str(matching)}
        notes = (*notes, *self.manifest.notes)
        changed = replace(self.manifest, settings=settings, notes=notes)
        self.manifest = changed.with_fingerprints()
        self.stored = write_manifest(self.manifest, self.path)


@dataclass(slots=True)
class Draw:
    """The cases that are taken; at least one, or an error."""

    cases: Iterable[Case | Entry]
    selection: Selection
    source: str
    stopped: Callable[[], bool]
    gold: GoldSpace
    """Counts each case: what is relevant is known before anything is asked."""
    declining: int = 0
    """Cases that are taken as unanswerable: every reference says that there is no answer."""
    content: str = ""
    """Digest of all that they are read from, before that; empty where nobody can tell."""
    is_read: bool = False

    def __iter__(self) -> Iterator[Case | Entry]:
        given = None
        for given in self.selection.apply(self.cases):
            if self.stopped():
                raise InterruptedRunError("stopped while the cases were read; nothing was run")
            case = given.case if isinstance(given, Entry) else given
            references = () if case.answerable is not None else case.references
            if references and all(read_answer(one).declines for one in references):
                self.declining += 1
                case = replace(case, answerable=False)
            self.gold.add(case)
            yield _with_abstention(given, case) if isinstance(given, Entry) else case
        if given is None:
            raise DataError([Problem(message="there are no cases", path=self.source)])
        self.is_read = True


def _with_abstention(entry: Entry, case: Case) -> Entry:
    """An entry whose recorded answer counts as declined where an asked one would."""
    recorded, outcome = entry.recorded, entry.recorded.get("generate")
    answer = None if outcome is None or outcome.status is not Status.MEASURED else outcome.value
    if outcome is not None and answer is not None and abstained(answer):
        recorded = {**recorded, "generate": replace(outcome, status=Status.ABSTAINED)}
    return Entry(case=case, recorded=recorded)
