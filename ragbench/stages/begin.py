"""A run begun in its folder: its cases in the journal, its manifest, what may be used again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.core.biography import POST_RETRIEVE
from ragbench.core.case import Case
from ragbench.core.outcome import Status
from ragbench.core.record import replace
from ragbench.core.trace import Entry, RunCase
from ragbench.errors import DataError, InterruptedRunError, Problem, RunMismatchError
from ragbench.io.entries import EntrySource
from ragbench.io.only import ALL_CASES, Selection
from ragbench.ledger.content import distributions
from ragbench.ledger.fingerprint import digest, fingerprint
from ragbench.ledger.folder import (
    DatasetInfo,
    Manifest,
    MetricInfo,
    RagInfo,
    RunFolder,
    git_state,
    read_manifest,
    repeat_folders,
    write_manifest,
)
from ragbench.ledger.journal import Journal
from ragbench.ledger.watch import Watch
from ragbench.metrics.answer import abstained
from ragbench.metrics.gold_space import GoldSpace
from ragbench.metrics.matching import Matching
from ragbench.safe_text import counted
from ragbench.stages.reuse import OutcomeReuse, differing_case
from ragbench.stages.stage import STOPPED, USUAL_CALLS, AbsentStage, InLoop
from ragbench.stages.system import NOT_RECORDED, Evaluation, Stages, absent_stages, call_stages
from ragbench.text.declining import read_answer

if TYPE_CHECKING:
    from ragbench.post.stage import PostRetrieval

_PACKAGES = (
    "bm25s", "ragas", "ragbench", "rapidfuzz", "rouge-score", "sacrebleu",
)  # fmt: skip


@dataclass(kw_only=True, slots=True)
class BegunRun:
    """A run in its folder: from what is asked to a setting in the journal, once its cases are."""

    journal: Journal
    folder: RunFolder
    asked: Evaluation
    draft: Manifest
    """What was known before its cases were."""
    manifest: Manifest
    """As far as it is known: how gold is matched is decided during the run."""
    reuse: OutcomeReuse
    """Says which stored outcomes still hold, and keeps what the new ones came from."""
    stages: Stages
    """Those up to generation, in order."""
    windows: Generator[Sequence[RunCase]]
    """Its cases, in order."""
    setting: bytes = b""
    """Digest of all that outcomes depend on; empty until all cases are placed."""
    stands: bool = False
    """Whether nothing was begun, since the latest run is the same, and its report is kept."""
    written: Manifest | None = None
    """As readers of the folder find it."""

    def know(self, draw: Draw, in_loop: InLoop) -> None:
        """Finds stages and setting; needs the cases in the journal."""
        asked, journal, reuse = self.asked, self.journal, self.reuse
        absent = dict[str, str]()
        recorded = {} if journal.was_empty else journal.recorded_counts()
        if recorded or not {"retrieve", "generate"} <= asked.stages.keys():
            absent = absent_stages(asked, recorded, draw.source)
        count, cases = journal.placed_digest or journal.cases_digest()
        stages, calls = call_stages(asked, absent, reuse.generations), asked.settings.limits
        if reuse.is_inferred and (
            case := differing_case(stages, journal, calls or USUAL_CALLS, in_loop, seed=cases)
        ):
            reuse.drop(f"{case} is another one now, though nothing that is compared has changed")
            stages = call_stages(asked, absent, reuse.generations)
        # How outcomes are scored is not part of it.
        called = (stage for stage in stages if not isinstance(stage, AbsentStage))
        keys = [(stage.name, stage.identity.hex()) for stage in called]
        judge = None if self.draft.judge is None else self.draft.judge["fingerprint"]
        self.setting = bytes.fromhex(fingerprint((cases, keys, judge, absent)))
        dataset = replace(self.draft.dataset, fingerprint=cases, cases=count)
        self.stages, self.manifest = stages, replace(self.draft, dataset=dataset, absent=absent)

    def note(self, draw: Draw) -> None:
        """Notes what readers must know."""
        said: tuple[str, ...] = ()
        if draw.declining:
            said = (
                f"{counted(draw.declining, 'case')} {'is' if draw.declining == 1 else 'are'} taken "
                "as unanswerable: the reference says that there is no answer. `answerable` in the "
                "dataset overrides that.",
            )
        notes = (*self.draft.notes, *said, *self.journal.runs.notes)
        self.manifest = replace(self.manifest, notes=notes)

    def close(self, draw: Draw, in_loop: InLoop) -> None:
        """Gives a run its setting that was begun without; another process would begin anew."""
        journal, matching = self.journal, Matching(self.manifest.settings["matching"])
        journal.was_empty = False  # also where not all cases were placed
        self.know(draw, in_loop)
        journal.runs.keep(setting=self.setting)
        self.note(draw)
        self.windows = journal.cases()
        self.decide(matching)

    def decide(self, matching: Matching, notes: Sequence[str] = ()) -> None:
        """Writes down how retrieved chunks are compared with relevant ones, and why."""
        settings = {**self.manifest.settings, "matching": str(matching)}
        notes = (*notes, *self.manifest.notes)
        self.manifest = replace(self.manifest, settings=settings, notes=notes)
        if self.setting:
            self.written = write_manifest(self.manifest, self.folder.manifest)
            self.manifest = replace(self.manifest, fingerprints=self.written.fingerprints)


def begin(
    asked: Evaluation,
    folder: RunFolder,
    draw: Draw,
    stack: ExitStack,
    *,
    watch: Watch,
    in_loop: InLoop,
    fresh: bool,
    anew: str = "",
) -> BegunRun:
    """Opens a folder's journal for the length of a stack, with the cases of a run, and begins it.

    They are not read where its latest run was asked for the same.
    """
    draft = drafted(asked, draw)
    if fresh:
        with folder.new_journal() as path, Journal(path) as new:
            new.replace_cases(draw)
    journal = stack.enter_context(Journal(folder.journal))
    left_out: list[str | Path] = [draw.source, folder.path]
    begun = BegunRun(
        journal=journal, folder=folder, asked=asked, draft=draft, manifest=draft, stages=[],
        reuse=OutcomeReuse(journal, asked, watch, leaving_out=left_out, anew=anew),
        windows=journal.cases(),
    )  # fmt: skip
    may_stand = bool(draw.content) and not fresh and journal.runs.number > 0
    may_stand = may_stand and journal.runs.stands(asked_for(draft, draw, folder))
    asks_nobody = not asked.stages and asked.judge is None and asked.settings.corpus is None
    if asks_nobody and not (fresh or journal.runs.number) and draw.is_recorded:
        absent = {"retrieve": NOT_RECORDED, "generate": NOT_RECORDED}
        begun.stages, begun.windows = call_stages(asked, absent, {}), _at_once(begun, draw, in_loop)
        return begun
    if not (fresh or may_stand):
        journal.replace_cases(draw)
    begun.know(draw, in_loop)
    is_same = may_stand and journal.runs.kept.get("setting") == begun.setting
    begun.stands = is_same and not begun.reuse.notes
    if not begun.stands:
        if not draw.is_read:
            journal.replace_cases(draw)
        journal.runs.begin(begun.setting, begun.reuse.notes)
        begun.note(draw)
        journal.before_flush = begun.reuse.keep
    return begun


def _at_once(begun: BegunRun, draw: Draw, in_loop: InLoop) -> Generator[Sequence[RunCase]]:
    """The cases of a new run that asks nobody, each window while it is at hand.

    Where that is stopped, the run is of those so far, and the next command goes on from there.
    """
    journal, count = begun.journal, 0
    journal.runs.begin(b"")  # the setting is known at the end
    try:
        for window in journal.placed(draw, journal.runs.epoch):
            count += len(window)
            yield window
    except (GeneratorExit, InterruptedRunError) as stopped:
        if count:
            begun.close(draw, in_loop)
        if count and isinstance(stopped, InterruptedRunError):
            raise InterruptedRunError(STOPPED) from None
        raise
    begun.close(draw, in_loop)


def drafted(asked: Evaluation, draw: Draw) -> Manifest:
    settings, selection = asked.settings, draw.selection
    return Manifest(
        dataset=DatasetInfo(
            name=settings.name or "dataset",
            source=draw.source,
            fingerprint="",
            cases=0,
            limit=selection.limit,
            sample=selection.sample,
            seed=None if selection.sample is None else selection.seed,
        ),
        rag=RagInfo(name=asked.name, description=asked.description, stages=asked.stages),
        metrics=tuple(map(MetricInfo.of, asked.metrics)),
        settings={**asked.said, "matching": str(settings.matching)},
        packages={name: version for name, version, _ in distributions() if name in _PACKAGES},
        git=git_state(Path.cwd()),
        notes=tuple(settings.notes),
        roles=tuple(settings.roles),
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

    @property
    def is_recorded(self) -> bool:
        """Whether a first look at the source shows what a system retrieved, or answered."""
        if not isinstance(self.cases, EntrySource):
            return False
        recorded = self.cases.info.recorded.keys()
        return bool(recorded) and recorded <= {"retrieve", "generate"}

    def __iter__(self) -> Iterator[Case | Entry]:
        given, cases = None, self.cases
        for given in cases if self.selection is ALL_CASES else self.selection.apply(cases):
            if self.stopped():
                raise InterruptedRunError("stopped while the cases were read; nothing was run")
            case = given.case if isinstance(given, Entry) else given
            references = () if case.answerable is not None else case.references
            if references and all(read_answer(one).declines for one in references):
                self.declining += 1
                case = replace(case, answerable=False)
            self.gold.add(case)
            if isinstance(given, Entry):
                outcome = given.recorded.get("generate")
                answer = None if outcome is None else outcome.value
                is_answer = outcome is not None and outcome.status is Status.MEASURED
                if outcome is not None and is_answer and answer is not None and abstained(answer):
                    # A recorded answer counts as declined where an asked one would.
                    declined = replace(outcome, status=Status.ABSTAINED)
                    given = Entry(case=case, recorded={**given.recorded, "generate": declined})
                elif case is not given.case:
                    given = Entry(case=case, recorded=given.recorded)
            yield given if isinstance(given, Entry) else case
        if given is None:
            raise DataError([Problem(message="there are no cases", path=self.source)])
        self.is_read = True
