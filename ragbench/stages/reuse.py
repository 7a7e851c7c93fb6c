"""Which stored outcomes may be used again, and what those of this run come from.

A command on a folder that has a run asks the system only for what that run's outcomes do not tell
any more: what they came from is compared with what there is now (`ragbench.ledger.origin`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ragbench.core.biography import POST_RETRIEVE
from ragbench.core.metric import Metric
from ragbench.core.origin import Origin, OriginPart, Reach
from ragbench.core.outcome import Outcome
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import RunCase, StageOutcome
from ragbench.ledger.codec import CODECS, encode_outcome
from ragbench.ledger.fingerprint import fixed_digest
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import RECORDED, Journal
from ragbench.ledger.origin import Reuse, asked_again_sentence, may_reuse
from ragbench.ledger.project import Project, named_origin
from ragbench.ledger.tables import OtherVersionError
from ragbench.ledger.watch import Watch, file_of
from ragbench.ledger.writes import WriteLog
from ragbench.safe_text import as_line
from ragbench.stages.stage import (
    LOCATE,
    AbsentStage,
    CallSettings,
    InLoop,
    restored_outcome,
    skipped_outcome,
)
from ragbench.stages.system import Evaluation, Stages

if TYPE_CHECKING:
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.call_stage import CallStage

_IDENTITY = "identity of {stage}"
"""Under which name the identity of a stage is stored."""
_TRUSTED = "--reuse: stored outcomes were used although {because}"


class RunVersion(NamedTuple):
    """Which of a command's run folders it goes on in."""

    folder: Path
    earlier: Path | None = None
    """The run before, where this one is begun in a folder of its own."""
    because: tuple[str, ...] = ()
    """Why it is begun in a folder of its own."""
    is_changed: bool = False
    """Whether something is known to have changed; if not, nobody knows."""


def project_of(
    rag: object,
    post_retrieval: PostRetrieval | None,
    validator: object,
    *,
    metrics: Iterable[Metric] = (),
    watch: Watch | None = None,
    leaving_out: Collection[str | Path] = (),
) -> Project:
    """The project of a system: the files and settings of all that the user wrote for it.

    Stored outcomes hold as long as none of its files changes.

    Args:
        metrics: the run's metrics; files of the user's own formulas are told apart, as no answer
            depends on them.
        watch: sees what the system opens while it is asked.
        leaving_out: files that are no part of the project, such as those that a run writes.
    """
    metric_files: list[str] = []
    for metric in metrics:
        formula = metric.definition.formula
        if formula is not None:
            # A formula may have been given as an object of no module: it has no file to compare.
            file = file_of(sys.modules.get(formula.function.__module__))
            if file:
                metric_files.append(file)
    # The functions that an adapted RAG is made of count as well.
    objects = [rag, *getattr(rag, "adapts", ()), validator]
    if post_retrieval is not None:
        objects += post_retrieval.operators
    # A run without a validator, say, has None in its place.
    present = [user_object for user_object in objects if user_object is not None]
    return Project(present, metrics=metric_files, watch=watch, leaving_out=leaving_out)


def run_version(base: Path, project: Project) -> RunVersion:
    """The folder that a command goes on in: its latest run's, or the next where something changed.

    A finished run whose system has changed since stays as it is, to be compared with. The folders
    are called "run", "run-2", "run-3" and so on.
    """
    latest = base
    number = 2  # the folders are called "run", "run-2", "run-3" ...
    following = base.with_name(f"{base.name}-{number}")
    while following.exists():
        latest = following
        number += 1
        following = base.with_name(f"{base.name}-{number}")
    if not RunFolder(path=latest).exists:
        return RunVersion(latest)
    reasons, is_changed = _changed_since(latest, project)
    if not reasons:
        return RunVersion(latest)
    return RunVersion(following, latest, reasons, is_changed)


def _changed_since(folder: Path, project: Project) -> tuple[tuple[str, ...], bool]:
    """Why a finished run's outcomes cannot be used again, and whether a change is known.

    No reason where they can be used. Where something cannot be seen, there is a reason and no
    change.
    """
    try:
        with Journal(RunFolder(path=folder).journal) as journal:
            # An interrupted run goes on in its folder, whatever has changed; its stages are
            # compared later.
            if journal.runs.is_interrupted:
                return (), False  # it is continued where it is
            with journal.reading:
                bodies = [body for _, body in journal.runs.origins().values()]
                origins = [Origin.from_json(orjson.loads(body)) for body in bodies]
    except OtherVersionError:
        # The earlier run's journal cannot be read, so none of its outcomes can be used again.
        return ("another version of ragbench wrote it",), True
    reasons: dict[str, None] = {}
    is_changed = False
    for origin in origins:
        project.knows(origin)
        reuse = may_reuse(origin, project.changed(origin))
        # `same_run_only`: nothing is known to differ, but something cannot be seen.
        if not reuse.allowed or reuse.same_run_only:
            # Several reasons come in one text; each is named once over all stages.
            reasons |= dict.fromkeys(reuse.because.split("; "))
            if not reuse.allowed:
                is_changed = True
    return tuple(reasons), is_changed


class OutcomeReuse:
    """Decides, stage by stage, whether stored outcomes hold, and keeps what new ones come from.

    A stage has a *generation*: it counts up whenever anything that its outcomes came from is not
    what it was, or cannot be seen. Outcomes of another generation are never used.
    """

    def __init__(
        self,
        journal: Journal,
        evaluation: Evaluation,
        watch: Watch,
        log: WriteLog,
        *,
        leaving_out: Collection[str | Path] = (),
        anew: str = "",
    ) -> None:
        """Decides for each stage of the evaluation whether its stored outcomes may be used again.

        Each decision rests on the origin of the stored outcomes: the code, files and settings that
        they came from, compared with those of now.

        Args:
            log: the files that the system wrote, where its run was interrupted.
            leaving_out: files that are no part of the project, such as those that a run writes.
            anew: why all is asked again, but where the user names a version; empty where it is not.
        """
        # Read for the stored origins, and written to by `keep`.
        self._journal = journal
        self._watch = watch
        self._log = log
        self._goes_on = journal.runs.is_interrupted
        """Whether the outcomes that are stored are of a run that was interrupted and goes on."""
        # The files and settings of all that the user wrote for the system.
        self._project = project_of(
            evaluation.rag,
            evaluation.post_retrieval,
            evaluation.validator,
            metrics=evaluation.metrics,
            watch=watch,
            leaving_out=leaving_out,
        )
        self._origins: dict[str, Callable[[], Origin]] = {}
        """By stage a function that makes the origin of its outcomes: what was seen until the call.

        The system opens more files while it is asked, so each call may give a longer origin.
        """
        for stage in evaluation.stages:
            self._origins[stage] = _origin_maker(stage, evaluation, self._project)
        self.generations = dict.fromkeys(self._origins, 1)
        """By stage a part of the key of its outcomes: a higher number has all asked anew."""
        self.identities = {**evaluation.stages}
        """What outcomes of each stage are kept under; see `_is_own_state`."""
        self._earlier: dict[str, Origin] = {}
        """By stage the origin of stored outcomes that may be used again."""
        self._changes_at_last_keep = -1
        """How much the watch had seen when origins were stored last."""
        # With `--reuse`, the user answers for stored outcomes that would not be used otherwise.
        trust = evaluation.settings.trust_stored
        stored_origins: Mapping[str, tuple[int, str]] = {}
        if journal.runs.number:
            stored_origins = journal.runs.origins()
        # Stages with the same note share one, such as "retrieve and generate asked again: ...".
        stages_by_note: dict[str, list[str]] = {}
        for stage in self._origins:
            if stage in stored_origins:
                generation, body = stored_origins[stage]
                note = self._reuse_note(stage, generation, body, trust=trust, anew=anew)
                stages_by_note.setdefault(note, []).append(stage)
        self.notes: list[str] = []
        """What was asked again, and why."""
        for note, stages in stages_by_note.items():
            if note:
                self.notes.append(f"{' and '.join(stages)} {note}")
        has_unnamed = any(not origin.is_named for origin in self._earlier.values())
        self.is_inferred = has_unnamed and not trust and not self._goes_on
        """Whether a finished run's outcomes are used again since nothing shows a change."""
        # Reads the project's files as they are now, before the system can change them.
        if self._origins:
            self._project.read()
        # Of an interrupted run that goes on, the log still explains files that the system wrote.
        if not (self._goes_on and self._earlier):
            log.forget()
        watch.keep_writes(log)

    def _reuse_note(self, stage: str, generation: int, body: str, *, trust: bool, anew: str) -> str:
        """Decides on a stage's stored outcomes, and returns what the report notes on them; or "".

        A stage whose outcomes do not hold gets another generation (a number in their key), so that
        all are asked for again.

        Args:
            generation: the number under which the stored outcomes are kept.
            body: the origin of the stored outcomes, as JSON.
        """
        with self._journal.reading:
            before = Origin.from_json(orjson.loads(body))
        self._project.knows(before)
        # Files that the interrupted run wrote itself are no change of the system.
        if self._goes_on:
            before = self._project.with_writes(before, self._log)
        changes = self._project.changed(before, goes_on=self._goes_on)
        reuse = may_reuse(before, changes)
        now = self._origins[stage]()
        # A version that the user names comes before any reason to ask anew.
        if anew and not now.is_named:
            reuse = Reuse(False, False, anew)
        # What cannot be seen may have changed since a finished run; an interrupted one goes on.
        is_unseen = reuse.same_run_only and not self._goes_on
        holds = reuse.allowed and not is_unseen
        if not holds and not trust:
            # Another number in the key: the stored outcomes stay in the journal, and are not found.
            self.generations[stage] = generation + 1
            return asked_again_sentence(reuse)
        self.generations[stage] = generation
        self._earlier[stage] = before
        if holds:
            changed_settings = _changed_settings(before, now)
            if not changed_settings:
                return ""
            # The identity under which the stored outcomes lie; a setting that is its own state
            # changed it.
            stored_identity = self._journal.runs.kept.get(_IDENTITY.format(stage=stage))
            if stored_identity and self._is_own_state(before, changed_settings):
                self.identities[stage] = stored_identity
                return ""
            return f"asked again: another setting of {as_line(changed_settings, 3)}"
        return _TRUSTED.format(because=reuse.because)

    def _is_own_state(self, before: Origin, changed_settings: Iterable[str]) -> bool:
        """Whether settings differ only because the system has read a file that it wrote itself.

        A command makes the system anew from code, arguments and files that are all the same: an
        attribute with another value is then a cache or a count that the system keeps in a file of
        its own. Without this, such a system would be asked for everything again in each run.
        """
        are_attributes = all(name.startswith(("settings.", "adapts.")) for name in changed_settings)
        return are_attributes and self._watch.is_command and self._project.reads_own(before)

    def drop(self, because: str) -> None:
        """Has all stages asked again, but those whose version the user names, and notes why.

        For when a few cases were asked again, and one of them has another outcome now: the origin
        by which stored outcomes are compared does not show all that they depend on.
        """
        # A stage with a stated version keeps its outcomes: the user answers for it.
        dropped = [stage for stage, origin in self._earlier.items() if not origin.is_named]
        for stage in dropped:
            del self._earlier[stage]
            self.generations[stage] += 1
        self.notes.append(f"{' and '.join(dropped)} asked again: {because}")

    def keep(self, *, is_last: bool = False) -> None:
        """Stores the origin of each stage's outcomes, if more of it was seen since the last time.

        The origin is the code, files and settings that outcomes came from; the next command
        compares it. Stored again and again while a run goes on, so that a run that is killed leaves
        it, too.

        Args:
            is_last: whether the run is at its end.
        """
        self._project.note_writes(is_last=is_last)
        # Files that the code writes are in the log; only at the end are they stored with the rest.
        # Nothing new was seen: the origins that are stored are still whole.
        if not is_last and self._changes_at_last_keep == self._watch.changes:
            return
        moved: tuple[OriginPart, ...] = ()
        if is_last:
            # Only at the end: a file may still change back, or once more, until then.
            moved = self._project.moved()
        self._changes_at_last_keep = self._watch.changes
        for stage, origin_of in self._origins.items():
            origin = origin_of()
            earlier = self._earlier.get(stage)
            # A named origin is the user's word alone, and has no parts to join.
            if (earlier is not None or moved) and not origin.is_named:
                origin = _joined_origin(earlier, origin, moved)
            self._journal.runs.keep_origin(origin, self.generations[stage])
            self._journal.runs.keep(**{_IDENTITY.format(stage=stage): self.identities[stage]})
        if is_last:
            self._log.forget()

    @contextmanager
    def looking_on(self) -> Generator[None]:
        """Watches, for the length of a block, which files the system holds open for writing.

        A file that the system holds open, such as a database, changes by the run itself: to the
        next command that must not look like a change of the system.
        """
        held_files = self._project.held_files()
        held_files.start()
        try:
            yield
        finally:
            held_files.stop()


def _joined_origin(earlier: Origin | None, now: Origin, moved: Sequence[OriginPart]) -> Origin:
    """The origin of outcomes of two runs: the code, files and settings of both.

    Outcomes of the earlier run are used again, so what they came from counts on, also where the
    later run did not meet it.

    Args:
        earlier: the origin of the outcomes that are used again; None where none are.
        moved: files that changed while the later run went on.
    """
    parts: dict[tuple[str, str], OriginPart] = {}
    if earlier is not None:
        for part in earlier.parts:
            # Settings are in the key of each outcome: those of this run are enough.
            if part.kind != "setting":
                parts[str(part.kind), part.name] = part
    # Later parts stand in the place of earlier ones with the same name.
    for part in (*now.parts, *moved):
        parts[str(part.kind), part.name] = part
    # "open": the outcomes may depend on something that cannot be seen.
    reach: Reach = "closed"
    if now.reach == "open" or (earlier is not None and earlier.reach == "open"):
        reach = "open"
    # Sorted, so that the same parts give the same stored text.
    return Origin(now.stage, tuple(parts[key] for key in sorted(parts)), reach)


def _changed_settings(before: Origin, now: Origin) -> list[str]:
    """The names of the settings that differ between two origins of a stage's outcomes.

    Settings are part of the key of each outcome, so that a change has all asked again: the report
    names the settings that caused it.
    """
    old = _setting_digests(before)
    new = _setting_digests(now)
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _setting_digests(origin: Origin) -> dict[str, str]:
    """The digest of each setting in an origin, by the setting's name.

    An origin is what a stage's outcomes came from; two of them differ in a setting where the
    digests do.
    """
    return {part.name: part.digest for part in origin.parts if part.kind == "setting"}


def _origin_maker(stage: str, evaluation: Evaluation, project: Project) -> Callable[[], Origin]:
    """Makes the function that gives a stage's origin: the code, files and settings behind it.

    The function is called again and again while a run goes on: more of what a system reads is seen
    then. A version that the user states takes the place of all that.
    """
    rag = evaluation.rag
    description = evaluation.description
    # Stated by the user, as a name for all that the outcomes depend on.
    if "stated_version" in description:
        return lambda: named_origin(stage, description["stated_version"])
    if stage in ("retrieve", LOCATE, "generate") and rag is not None:
        from ragbench.rag.load import stage_origin

        if stage == "generate":
            # Asked for anew at each call: `project` has seen more of what the system reads by then.
            return lambda: stage_origin(rag, "generate", project, description)
        # The stage that looks for the gold searches where retrieval does.
        top_k = evaluation.settings.top_k
        return lambda: stage_origin(rag, "retrieve", project, description, top_k=top_k)
    if stage == POST_RETRIEVE and evaluation.post_retrieval is not None:
        return lambda: project.origin(stage, evaluation.said[POST_RETRIEVE])
    settings: dict[str, object] = {}
    # Without a validator, as for a stage that came recorded, the setting is empty.
    if evaluation.validator is not None:
        settings["identity"] = evaluation.validator.identity
    return lambda: project.origin(stage, settings)


# --- some of what would be reused, asked for again: the test of all that was compared

ASKED = 3
"""Cases that are asked again."""


def differing_case(
    stages: Stages, journal: Journal, calls: CallSettings, in_loop: InLoop, *, seed: str
) -> str:
    """The stage and the id of a case that has another outcome now; empty if no drawn case has.

    A few cases with stored outcomes are asked again. One that differs shows that outcomes depend on
    more than what is compared, so that none may be used again. A failure now is no other outcome:
    the system may be out of reach.
    """
    # Drawn by the seed, which is the digest of the cases: the same cases are asked each time.
    for window in journal.cases(journal.drawn_ids(ASKED, seed)):
        for row in window:
            for stage, stage_input, before in _reused_outcomes(row, stages, journal):
                now = stage.ask_once(stage_input, in_loop, timeout=calls.timeout)
                # A failure now has no value, and is no other outcome.
                if now.value is not None and _compared_content(stage, now) != _compared_content(
                    stage, before
                ):
                    return f"{stage.name} of {row.case.id}"
    return ""


def _reused_outcomes(
    row: RunCase, stages: Stages, journal: Journal
) -> Iterator[tuple[CallStage[Any, Any], object, Outcome[Any]]]:
    """The stages of a case whose stored outcome would be used again, with their input and outcome.

    Stages are settled in order, as in a run, since later ones read what earlier ones gave. The
    first stage that has nothing stored is the end: a run would ask that stage anyway.
    """
    for stage in stages:
        # Later stages look for its outcome among those that are settled.
        if isinstance(stage, AbsentStage):
            row.settled[stage.name] = skipped_outcome(stage.reason)
            continue
        stage_input = stage.reads(row)
        if isinstance(stage_input, StageOutcome):
            row.settled[stage.name] = stage_input
            continue
        stored_outcomes = journal.outcomes(stage.name, [row.number])
        recorded = stored_outcomes.get((row.number, RECORDED))
        key = fixed_digest(stage.identity, stage_input.digest)
        # What the source recorded comes first, as in a run.
        stored = recorded or stored_outcomes.get((row.number, key))
        if stored is None:
            return
        settled = restored_outcome(stage.name, stored, journal)
        row.settled[stage.name] = settled
        # Recorded outcomes are the source's, and no system is asked for them.
        has_value = recorded is None and settled.outcome.value is not None
        if has_value and stage.name in ("retrieve", "generate"):
            yield stage, stage_input.input, settled.outcome


def _compared_content(stage: CallStage[Any, Any], outcome: Outcome[Any]) -> object:
    """The part of an outcome that is compared with another: texts and ids, as the journal has them.

    Metadata are left out: they may hold times, and differ although nothing changed.
    """
    # Coded and decoded as in the journal: a fresh outcome would differ by its types alone.
    encoded = encode_outcome(stage.name, outcome)
    value = CODECS[stage.name].decode(encoded.texts, encoded.body)
    if isinstance(value, RetrievalResult):
        # Lists, whatever kind of sequence each of the two came in.
        ids = value.context_ids
        if ids:
            ids = list(ids)
        return list(value.contexts), ids
    return value.response
