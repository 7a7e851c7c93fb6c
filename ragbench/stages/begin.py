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
from ragbench.ledger.writes import WriteLog
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

_NOTED_PACKAGES = ("bm25s", "ragas", "ragbench", "rapidfuzz", "rouge-score", "sacrebleu")
"""Packages whose version can change a score: the manifest notes it."""


@dataclass(kw_only=True, slots=True)
class BegunRun:
    """A run in its folder, from the request for it until all that it depends on is known."""

    journal: Journal
    folder: RunFolder
    evaluation: Evaluation
    draft: Manifest
    """The manifest as it was before the cases were read."""
    manifest: Manifest
    """The manifest so far: how gold is matched is decided while the run goes on."""
    reuse: OutcomeReuse
    """Says which stored outcomes still hold, and keeps what the new ones came from."""
    stages: Stages
    """The stages up to generation, in order."""
    windows: Generator[Sequence[RunCase]]
    """The cases, in order."""
    setting: bytes = b""
    """Digest of all that outcomes depend on; empty until all cases are placed in the journal."""
    is_unchanged: bool = False
    """Whether the latest run was the same: nothing is begun, and its report is shown."""
    written_manifest: Manifest | None = None
    """The manifest as readers of the folder find it; None before it is written."""

    def find_stages(self, selected: SelectedCases, in_loop: InLoop) -> None:
        """Finds the run's stages and its setting; all cases must be in the journal before.

        The setting is a digest of all that outcomes depend on: a later command goes on with a run
        only where its own setting is equal. Another part in that digest makes every stored run
        begin anew.
        """
        evaluation = self.evaluation
        journal = self.journal
        reuse = self.reuse
        recorded: Mapping[str, int] = {}
        if not journal.was_empty:
            recorded = journal.recorded_counts()
        absent: dict[str, str] = {}
        # Without recorded outcomes and with both stages asked, no stage can be absent.
        if recorded or not {"retrieve", "generate"} <= evaluation.stages.keys():
            absent = absent_stages(evaluation, recorded, selected.source)
        # The digest is known already where the cases were just placed: else all are read once more.
        count, cases_digest = journal.placed_digest or journal.cases_digest()
        stages = call_stages(evaluation, absent, reuse.identities, reuse.generations)
        if reuse.is_inferred:
            # Nothing that can be seen has changed. A few calls tell whether that is all there is.
            calls = evaluation.settings.limits or USUAL_CALLS
            case = differing_case(stages, journal, calls, in_loop, seed=cases_digest)
            # A non-empty id of the first case that came out otherwise: nothing stored may be used
            # again.
            if case:
                reuse.drop(
                    f"{case} is another one now, though nothing that is compared has changed"
                )
                # The stages are made anew, since `drop` has changed the identities that they are
                # made of.
                stages = call_stages(evaluation, absent, reuse.identities, reuse.generations)
        # How outcomes are scored is not part of the setting: they stay as they are.
        identities: list[tuple[str, str]] = []
        for stage in stages:
            if not isinstance(stage, AbsentStage):
                identities.append((stage.name, stage.identity.hex()))
        judge = None
        # The judge is none of `stages`: of it the setting knows the manifest's fingerprint.
        if self.draft.judge is not None:
            judge = self.draft.judge["fingerprint"]
        self.setting = bytes.fromhex(fingerprint((cases_digest, identities, judge, absent)))
        dataset = replace(self.draft.dataset, fingerprint=cases_digest, cases=count)
        self.stages = stages
        # The fingerprints of `draft` are of no cases: `write_manifest` makes them anew.
        self.manifest = replace(self.draft, dataset=dataset, absent=absent)

    def add_notes(self, selected: SelectedCases) -> None:
        """Adds to the manifest what a reader of the report must know of the cases.

        For example, some cases count as unanswerable by the words of their reference: without the
        note, a mistake of that reading would stay unseen.
        """
        notes = [*self.draft.notes]
        count = selected.declining
        if count:
            verb = "is" if count == 1 else "are"
            notes.append(
                f"{counted(count, 'case')} {verb} taken as unanswerable: the reference says that "
                "there is no answer. `answerable` in the dataset overrides that."
            )
        self.manifest = replace(self.manifest, notes=(*notes, *self.journal.runs.notes))

    def end_placing(self, selected: SelectedCases, in_loop: InLoop) -> None:
        """Ends the placing of cases in the journal for a run that scored them while they were read.

        The run has no setting (the digest by which a later command goes on with it) until now, so
        that a process that dies before leaves a run that is begun anew.
        """
        journal = self.journal
        # Read before the stages are found: that begins the manifest anew from its draft.
        matching = Matching(self.manifest.settings["matching"])
        journal.was_empty = False  # also where not all cases were placed
        self.find_stages(selected, in_loop)
        journal.runs.keep(setting=self.setting)
        self.add_notes(selected)
        self.windows = journal.cases()
        self.write_matching(matching)

    def write_matching(self, matching: Matching, notes: Sequence[str] = ()) -> None:
        """Writes into the manifest how retrieved chunks are compared with relevant ones, and why.

        The way is decided while the first cases are at hand. A run without a setting does not write
        its manifest yet: its cases are not all in the journal.
        """
        # As text: settings are written into the manifest's JSON.
        settings = {**self.manifest.settings, "matching": str(matching)}
        notes = (*notes, *self.manifest.notes)
        self.manifest = replace(self.manifest, settings=settings, notes=notes)
        if self.setting:
            written = write_manifest(self.manifest, self.folder.manifest)
            self.written_manifest = written
            # Only the fingerprints are taken back: the manifest stays the one that later notes are
            # added to.
            self.manifest = replace(self.manifest, fingerprints=written.fingerprints)


def begin(
    evaluation: Evaluation,
    folder: RunFolder,
    selected: SelectedCases,
    stack: ExitStack,
    *,
    watch: Watch,
    in_loop: InLoop,
    fresh: bool,
    anew: str = "",
) -> BegunRun:
    """Begins a run in its folder, with its journal (the database of its outcomes) open for a stack.

    A run begins in one of three ways. Where the folder's latest run was asked for the same, the
    cases are not read, and its report is shown. Where no system or judge is called and the folder
    is new, each window of cases is scored while it is read. Else all cases are placed in the
    journal first. The order of the steps counts: an earlier run's journal must be put aside before
    it is opened.

    Args:
        watch: sees what the user's system opens, asks and starts.
        in_loop: runs coroutines, where there is an event loop for them.
        fresh: whether the folder's earlier run is put aside.
        anew: why nothing that is stored may be used again; empty where it may.
    """
    draft = draft_manifest(evaluation, selected)
    fresh = fresh and folder.exists  # in a new folder there is nothing to put aside
    if fresh:
        with folder.new_journal() as path, Journal(path) as new:
            new.replace_cases(selected)
    journal = stack.enter_context(Journal(folder.journal))
    # Reading or writing these is the run's own doing, and no dependency of the system.
    own_files: list[str | Path] = [selected.source, folder.path]
    log = WriteLog(folder.writes)
    reuse = OutcomeReuse(journal, evaluation, watch, log, leaving_out=own_files, anew=anew)
    if evaluation.stages:
        stack.enter_context(reuse.looking_on())
    begun = BegunRun(
        journal=journal,
        folder=folder,
        evaluation=evaluation,
        draft=draft,
        manifest=draft,
        reuse=reuse,
        stages=[],
        windows=journal.cases(),
    )
    has_run = journal.runs.number > 0
    # Whether the latest run was asked for the same, so that its report may be shown again.
    may_stand = False
    if selected.content and has_run and not fresh:
        may_stand = journal.runs.stands(request_digest(draft, selected, folder))
    # No system, no judge and no corpus: scores follow from the source alone.
    asks_nobody = (
        not evaluation.stages and evaluation.judge is None and evaluation.settings.corpus is None
    )
    is_first = not fresh and not has_run
    if asks_nobody and is_first and selected.is_recorded:
        absent = {"retrieve": NOT_RECORDED, "generate": NOT_RECORDED}
        begun.stages = call_stages(evaluation, absent, {}, {})
        begun.windows = _placed_windows(begun, selected, in_loop)
        return begun
    if not (fresh or may_stand):
        journal.replace_cases(selected)
    begun.find_stages(selected, in_loop)
    is_same_setting = may_stand and journal.runs.kept.get("setting") == begun.setting
    # A note means that stored outcomes were dropped: then the report is made anew after all.
    if is_same_setting and not begun.reuse.notes:
        begun.is_unchanged = True
        return begun
    # An unchanged request skipped the placing above; a changed system needs the cases after all.
    if not selected.is_read:
        journal.replace_cases(selected)
    journal.runs.begin(begun.setting, begun.reuse.notes)
    begun.add_notes(selected)
    # Set last: what outcomes came from is kept from the first flush of this run on.
    journal.before_flush = begun.reuse.keep
    return begun


def _placed_windows(
    begun: BegunRun, selected: SelectedCases, in_loop: InLoop
) -> Generator[Sequence[RunCase]]:
    """The cases of a new run that calls no system: each window (a part of them) while at hand.

    Nothing is read back from the journal, which would take a quarter more time. Where it is
    stopped, the run is of the cases so far, and the next command goes on from there.
    """
    journal = begun.journal
    count = 0
    journal.runs.begin(b"")  # the setting is known at the end
    try:
        for window in journal.placed(selected, journal.runs.epoch):
            count += len(window)
            # Read window by window: the journal is written only as far as the caller has come.
            yield window
    except (GeneratorExit, InterruptedRunError) as stopped:
        if count:
            begun.end_placing(selected, in_loop)
            if isinstance(stopped, InterruptedRunError):
                raise InterruptedRunError(STOPPED) from None
        # Also after `end_placing`: a closed generator must see its own GeneratorExit again.
        raise
    begun.end_placing(selected, in_loop)


def draft_manifest(evaluation: Evaluation, selected: SelectedCases) -> Manifest:
    """What the manifest says before a case is read: all but the cases and how gold is matched.

    Readers of the run find there which dataset, system, metrics and settings it is a run of, and a
    later command compares it to see whether it runs the same.
    """
    settings = evaluation.settings
    selection = selected.selection
    seed: int | None = None
    if selection.sample is not None:  # without a draw the seed plays no part
        seed = selection.seed
    judge: Mapping[str, Any] | None = None
    if evaluation.judge is not None:
        judge = evaluation.judge.info
    packages: dict[str, str] = {}
    for name, version, _ in distributions():
        if name in _NOTED_PACKAGES:
            packages[name] = version
    return Manifest(
        dataset=DatasetInfo(
            name=settings.name or "dataset",
            source=selected.source,
            fingerprint="",
            cases=0,
            limit=selection.limit,
            sample=selection.sample,
            seed=seed,
        ),
        rag=RagInfo(
            name=evaluation.name,
            description=evaluation.description,
            stages=evaluation.stages,
        ),
        metrics=tuple(map(MetricInfo.of, evaluation.metrics)),
        settings={**evaluation.said, "matching": str(settings.matching)},
        packages=packages,
        git=git_state(Path.cwd()),
        notes=tuple(settings.notes),
        roles=tuple(settings.roles),
        judge=judge,
    )


def request_digest(draft: Manifest, selected: SelectedCases, folder: RunFolder) -> bytes:
    """A digest of all that a run's report depends on; empty where that cannot be known.

    Where the latest run has the same digest, its report is shown at once, and no case is read. What
    the report depends on cannot be known where a metric is judged or is the user's own, since such
    a metric may read anything. A folder of repeated runs has a report over all of them, which one
    request does not determine.
    """
    is_judged = draft.judge is not None
    has_own_metric = any(info.definition["digest"] for info in draft.metrics)
    if not selected.content or is_judged or has_own_metric:
        return b""
    if not folder.manifest.is_file() or repeat_folders(folder.path):
        return b""
    # The manifest's bytes are a part: a hand or another version that changes it makes the digest
    # differ.
    parts = (selected.content.encode(), fingerprint(draft).encode(), folder.manifest.read_bytes())
    return digest(parts)


def earlier_settings(manifest: Path) -> Mapping[str, Any]:
    """The settings of the folder's latest run; empty where its manifest cannot be read.

    A run that goes on keeps some of them, such as the date from which ages of documents count.
    """
    try:
        return read_manifest(manifest).settings
    except RunMismatchError:
        return {}


def with_run_date(stage: PostRetrieval, earlier: Mapping[str, Any]) -> PostRetrieval:
    """The post-retrieval stage with the date from which it counts the ages of documents.

    The date is today at midnight, UTC. A run that was interrupted and goes on keeps the date of its
    beginning, which ``earlier`` holds, so that its later cases are ranked like its first ones.
    """
    settings: Any = earlier.get(POST_RETRIEVE) or {}
    if "now" in settings:
        return stage.dated(datetime.fromisoformat(settings["now"]))
    return stage.dated(datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0))


@dataclass(slots=True)
class SelectedCases:
    """The cases of a source that a run takes: at least one, or an error."""

    cases: Iterable[Case | Entry]
    """All cases of the source."""
    selection: Selection
    """Which of them are taken."""
    source: str
    """As the user named it, for messages."""
    stopped: Callable[[], bool]
    """Asked at each case: once true, reading ends in an error."""
    gold: GoldSpace
    """Counts each case: what is relevant is known before anything is asked."""
    declining: int = 0
    """Cases that are taken as unanswerable: every reference says that there is no answer."""
    content: str = ""
    """Digest of all that the cases are read from, made before; empty where that is unknown."""
    is_read: bool = False
    """Whether all of them were read once."""

    @property
    def is_recorded(self) -> bool:
        """Whether a first look at the source shows a system's retrieval or answers recorded in it.

        Such cases are scored while they are read, where no system or judge is called.
        """
        if not isinstance(self.cases, EntrySource):
            return False
        recorded = self.cases.info.recorded.keys()
        return bool(recorded) and recorded <= {"retrieve", "generate"}

    def __iter__(self) -> Iterator[Case | Entry]:
        """The chosen cases of the source, read once; counts what the run must know of all of them.

        The counts (`declining`, `gold`) and `is_read` are right only after the last case. A source
        without a case is an error: a report over nothing would look like a success.
        """
        is_empty = True
        chosen = self.cases
        if self.selection is not ALL_CASES:
            chosen = self.selection.apply(chosen)
        for item in chosen:
            is_empty = False
            # Looked at between cases: reading alone may take long, before any call is made.
            if self.stopped():
                raise InterruptedRunError("stopped while the cases were read; nothing was run")
            if isinstance(item, Entry):
                case = self._counted(item.case)
                yield _with_declined_answer(item, case)
            else:
                yield self._counted(item)
        if is_empty:
            raise DataError([Problem(message="there are no cases", path=self.source)])
        self.is_read = True

    def _counted(self, case: Case) -> Case:
        """The case, once it is counted; unanswerable where all of its references decline to answer.

        A reference such as "the documents do not say" means that to decline is right: without the
        mark, such an answer of the system would be scored as a miss.
        """
        references = case.references
        # What the dataset says itself comes before what its references sound like.
        is_unlabelled = case.answerable is None and bool(references)
        if is_unlabelled and all(read_answer(reference).declines for reference in references):
            self.declining += 1
            case = replace(case, answerable=False)
        self.gold.add(case)
        return case


def _with_declined_answer(entry: Entry, case: Case) -> Entry:
    """The entry (a case with its recorded outcomes) with the case as counted, its answer checked.

    A recorded answer that declines gets the status `ABSTAINED`, as an answer that the run asks for
    does: else the same words would score differently by where they come from.
    """
    outcome = entry.recorded.get("generate")
    answer = None
    if outcome is not None and outcome.status is Status.MEASURED:
        answer = outcome.value
    if outcome is not None and answer is not None and abstained(answer):
        declined = replace(outcome, status=Status.ABSTAINED)
        return Entry(case=case, recorded={**entry.recorded, "generate": declined})
    if case is entry.case:
        return entry
    return Entry(case=case, recorded=entry.recorded)
