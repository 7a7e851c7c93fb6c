"""A run begun in its folder: its cases in the journal, its manifest, what may be used again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.core.biography import POST_RETRIEVE
from ragbench.core.case import Case
from ragbench.core.outcome import Status
from ragbench.core.trace import Entry
from ragbench.errors import DataError, InterruptedRunError, Problem, RunMismatchError
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
from ragbench.stages.stage import USUAL_CALLS, AbsentStage, InLoop, Stage
from ragbench.stages.system import Evaluation, absent_stages, call_stages
from ragbench.text.declining import read_answer

if TYPE_CHECKING:
    from ragbench.post.stage import PostRetrieval

_PACKAGES = (
    "bm25s", "ragas", "ragbench", "rapidfuzz", "rouge-score", "sacrebleu",
)  # fmt: skip


@dataclass(kw_only=True, slots=True)
class BegunRun:
    """A run whose setting stands in the journal."""

    journal: Journal
    folder: RunFolder
    draft: Manifest
    """What was known before its cases were."""
    manifest: Manifest
    """As far as it is known: how gold is matched is decided during the run."""
    stages: Sequence[Stage]
    """Those up to generation, in order."""
    reuse: OutcomeReuse
    """Says which stored outcomes still hold, and keeps what the new ones came from."""
    stands: bool = False
    """Whether nothing was begun, since the latest run is the same, and its report is kept."""
    written: Manifest | None = None
    """As readers of the folder find it."""

    def decide(self, matching: Matching, notes: Sequence[str] = ()) -> None:
        """Writes down how retrieved chunks are compared with relevant ones, and why."""
        settings = {**self.manifest.settings, "matching": str(matching)}
        notes = (*notes, *self.manifest.notes)
        known = replace(self.manifest, settings=settings, notes=notes)
        self.written = write_manifest(known, self.folder.manifest)
        self.manifest = replace(known, fingerprints=self.written.fingerprints)


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
    draft, placed = drafted(asked, draw), None
    if fresh:
        with folder.new_journal() as path, Journal(path) as new:
            placed = new.replace_cases(draw)
    journal = stack.enter_context(Journal(folder.journal))
    may_stand = bool(draw.content) and not fresh and journal.runs.number > 0
    may_stand = may_stand and journal.runs.stands(asked_for(draft, draw, folder))
    if not (fresh or may_stand):
        placed = journal.replace_cases(draw)
    settings = asked.settings
    recorded = {} if journal.was_empty else journal.recorded_counts()
    absent = dict[str, str]()
    if recorded or not {"retrieve", "generate"} <= asked.stages.keys():
        absent = absent_stages(asked, recorded, draw.source)
    count, cases = placed or journal.cases_digest()
    dataset = replace(draft.dataset, fingerprint=cases, cases=count)
    left_out: list[str | Path] = [draw.source, folder.path]
    reuse = OutcomeReuse(journal, asked, watch, leaving_out=left_out, anew=anew)
    stages = call_stages(asked, absent, reuse.generations)
    calls = settings.limits or USUAL_CALLS
    if reuse.is_inferred and (case := differing_case(stages, journal, calls, in_loop, seed=cases)):
        reuse.drop(f"{case} is another one now, though nothing that is compared has changed")
        stages = call_stages(asked, absent, reuse.generations)
    # All that outcomes depend on; how they are scored is not part of it.
    called = (stage for stage in stages if not isinstance(stage, AbsentStage))
    keys = [(stage.name, stage.identity.hex()) for stage in called]
    judge = None if draft.judge is None else draft.judge["fingerprint"]
    setting = bytes.fromhex(fingerprint((cases, keys, judge, absent)))
    begun = BegunRun(
        journal=journal, folder=folder, draft=draft, stages=stages, reuse=reuse,
        manifest=replace(draft, dataset=dataset, absent=absent),
        stands=may_stand and not reuse.notes and journal.runs.kept.get("setting") == setting,
    )  # fmt: skip
    if begun.stands:
        return begun
    if not draw.is_read:
        journal.replace_cases(draw)
    journal.runs.begin(setting, reuse.notes)
    journal.before_flush = reuse.keep
    said: tuple[str, ...] = ()
    if draw.declining:
        said = (
            f"{counted(draw.declining, 'case')} {'is' if draw.declining == 1 else 'are'} taken as "
            "unanswerable: the reference says that there is no answer. `answerable` in the dataset "
            "overrides that.",
        )
    notes = (*draft.notes, *said, *journal.runs.notes)
    begun.manifest = replace(begun.manifest, notes=notes)
    return begun


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
