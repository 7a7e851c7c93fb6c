"""Which stored outcomes may be used again, and what those of this run come from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ragbench.core.biography import POST_RETRIEVE
from ragbench.core.metric import Metric
from ragbench.core.origin import Origin, OriginPart, Reach
from ragbench.core.outcome import Outcome
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import RunCase, StageOutcome
from ragbench.errors import RunMismatchError
from ragbench.ledger.codec import CODECS, encode_outcome
from ragbench.ledger.fingerprint import fixed_digest
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import RECORDED, Journal
from ragbench.ledger.origin import Reuse, asked_again_sentence, may_reuse
from ragbench.ledger.project import Project, named_origin
from ragbench.ledger.watch import Watch, file_of
from ragbench.safe_text import as_line
from ragbench.stages.stage import LOCATE, AbsentStage, CallSettings, InLoop, restored, skipped
from ragbench.stages.system import Evaluation, Stages

if TYPE_CHECKING:
    from ragbench.post.stage import PostRetrieval
    from ragbench.stages.call_stage import CallStage

_TRUSTED = "--reuse: stored outcomes were used although {because}"


class RunVersion(NamedTuple):
    """Which of a command's run folders it goes on in."""

    folder: Path
    earlier: Path | None = None
    """The run before, where this one is begun in a folder of its own."""
    because: tuple[str, ...] = ()
    """Why it is."""
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
    """The project of whatever the user wrote of a system."""
    formulas = (metric.definition.formula for metric in metrics)
    modules = (sys.modules.get(one.function.__module__) for one in formulas if one is not None)
    files = [file for module in modules if (file := file_of(module))]
    things = [rag, *getattr(rag, "adapts", ()), validator]
    things += [] if post_retrieval is None else post_retrieval.operators
    present = [thing for thing in things if thing is not None]
    return Project(present, metrics=files, watch=watch, leaving_out=leaving_out)


def run_version(base: Path, project: Project) -> RunVersion:
    """The folder that a command goes on in: its latest, or the next where something changed.

    A finished run whose system has changed since stays as it is, to be compared with.
    """
    latest, number = base, 1
    while (following := base.with_name(f"{base.name}-{number + 1}")).exists():
        latest, number = following, number + 1
    if not RunFolder(path=latest).exists:
        return RunVersion(latest)
    reasons, is_changed = _changed_since(latest, project)
    return RunVersion(following, latest, reasons, is_changed) if reasons else RunVersion(latest)


def _changed_since(folder: Path, project: Project) -> tuple[tuple[str, ...], bool]:
    """Why a finished run's outcomes cannot be used again, and whether anything has changed."""
    try:
        with Journal(RunFolder(path=folder).journal) as journal:
            if journal.runs.is_interrupted:
                return (), False
            origins = journal.runs.origins().values()
    except RunMismatchError:
        return ("another version of ragbench wrote it",), True
    found: dict[str, None] = {}
    is_changed = False
    for _, body in origins:
        origin = Origin.from_json(orjson.loads(body))
        project.knows(origin)
        reuse = may_reuse(origin, project.changed(origin))
        if not reuse.allowed or reuse.same_run_only:
            found |= dict.fromkeys(reuse.because.split("; "))
            is_changed = is_changed or not reuse.allowed
    return tuple(found), is_changed


class OutcomeReuse:
    """Decides, stage by stage, whether stored outcomes hold, and keeps what new ones come from.

    A stage has a *generation*: it counts up whenever anything that its outcomes came from is not
    what it was, or cannot be seen. Outcomes of another generation are never used.
    """

    def __init__(
        self,
        journal: Journal,
        asked: Evaluation,
        watch: Watch,
        *,
        leaving_out: Collection[str | Path] = (),
        anew: str = "",
    ) -> None:
        self._journal = journal
        self._watch = watch
        self._project = project_of(
            asked.rag,
            asked.post_retrieval,
            asked.validator,
            metrics=asked.metrics,
            watch=watch,
            leaving_out=leaving_out,
        )
        trust = asked.settings.trust_stored
        self._origins = {stage: _origin_of(stage, asked, self._project) for stage in asked.stages}
        self.generations = dict.fromkeys(self._origins, 1)
        """Outcomes of a stage are kept under this number, too."""
        self._earlier: dict[str, Origin] = {}
        """What stored outcomes came from that hold still."""
        self._kept_at = -1
        reasons: dict[str, list[str]] = {}
        before = journal.runs.origins() if journal.runs.number else {}
        for stage in (one for one in self._origins if one in before):
            note = self._decide(stage, *before[stage], trust=trust, anew=anew)
            reasons.setdefault(note, []).append(stage)
        self.notes = [f"{' and '.join(stages)} {note}" for note, stages in reasons.items() if note]
        """What was asked again, and why."""
        self.is_inferred = not (trust or journal.runs.is_interrupted) and any(
            not _is_named(origin) for origin in self._earlier.values()
        )
        """Whether a finished run's outcomes are used again since nothing shows a change."""

    def _decide(self, stage: str, generation: int, body: str, *, trust: bool, anew: str) -> str:
        """Decides on a stage's stored outcomes, and gives what the report notes on them."""
        before = Origin.from_json(orjson.loads(body))
        self._project.knows(before)
        reuse = may_reuse(before, self._project.changed(before))
        now = self._origins[stage]()
        if anew and not _is_named(now):
            reuse = Reuse(False, False, anew)
        is_unseen = reuse.same_run_only and not self._journal.runs.is_interrupted
        holds = reuse.allowed and not is_unseen
        if holds or trust:
            self.generations[stage], self._earlier[stage] = generation, before
            return (
                _changed_settings(before, now) if holds else _TRUSTED.format(because=reuse.because)
            )
        self.generations[stage] = generation + 1
        return asked_again_sentence(reuse)

    def drop(self, because: str) -> None:
        """Uses none of them, but where the user names a version."""
        dropped = [stage for stage, origin in self._earlier.items() if not _is_named(origin)]
        for stage in dropped:
            del self._earlier[stage]
            self.generations[stage] += 1
        self.notes.append(f"{' and '.join(dropped)} asked again: {because}")

    def keep(self, *, is_last: bool = False) -> None:
        """Stores what outcomes come from, where more of it was seen since the last time."""
        moved = self._project.moved() if is_last else ()
        if self._kept_at == self._watch.changes and not moved:
            return
        self._kept_at = self._watch.changes
        for stage, origin_of in self._origins.items():
            origin, earlier = origin_of(), self._earlier.get(stage)
            if (earlier is not None or moved) and not _is_named(origin):
                origin = _together(earlier, origin, moved)
            self._journal.runs.keep_origin(origin, self.generations[stage])


def _together(earlier: Origin | None, now: Origin, moved: Sequence[OriginPart]) -> Origin:
    """What the outcomes of two runs came from: what the later one has not met counts still."""
    before = Origin(now.stage, (), "closed") if earlier is None else earlier
    kept = (part for part in before.parts if part.kind != "setting")
    parts = {(str(part.kind), part.name): part for part in (*kept, *now.parts, *moved)}
    reach: Reach = "open" if "open" in (before.reach, now.reach) else "closed"
    return Origin(now.stage, tuple(parts[key] for key in sorted(parts)), reach)


def _changed_settings(before: Origin, now: Origin) -> str:
    """Which settings changed: they are part of the key of each outcome."""
    old, new = (
        {part.name: part.digest for part in origin.parts if part.kind == "setting"}
        for origin in (before, now)
    )
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return f"asked again: another setting of {as_line(names, 3)}" if names else ""


def _is_named(origin: Origin) -> bool:
    """Whether an origin is a version that the user names, and nothing else."""
    return all(part.kind == "setting" for part in origin.parts)


def _origin_of(stage: str, asked: Evaluation, project: Project) -> Callable[[], Origin]:
    """What makes a stage's origin, as far as it was seen up to then."""
    rag, description = asked.rag, asked.description
    if "stated_version" in description:
        return lambda: named_origin(stage, description["stated_version"])
    if stage in ("retrieve", LOCATE, "generate") and rag is not None:
        from ragbench.rag.load import stage_origin

        more: Mapping[str, Any] = {} if stage == "generate" else {"top_k": asked.settings.top_k}
        name = "retrieve" if stage == LOCATE else stage  # it searches where retrieval does
        return lambda: stage_origin(rag, name, project, description, **more)
    if stage == POST_RETRIEVE and asked.post_retrieval is not None:
        return lambda: project.origin(stage, asked.said[POST_RETRIEVE])
    known = {} if asked.validator is None else {"identity": asked.validator.identity}
    return lambda: project.origin(stage, known)


# --- some of what would be reused, asked for again: the test of all that was compared

ASKED = 3
"""Cases that are asked again."""


def differing_case(
    stages: Stages, journal: Journal, calls: CallSettings, in_loop: InLoop, *, seed: str
) -> str:
    """The stage and the id of the first case drawn that has another outcome now; empty if none."""
    for window in journal.cases(journal.drawn_ids(ASKED, seed)):
        for row in window:
            for stage, given, before in _reused(row, stages, journal):
                now = stage.ask_once(given, in_loop, timeout=calls.timeout)
                if now.value is not None and _content(stage, now) != _content(stage, before):
                    return f"{stage.name} of {row.case.id}"
    return ""


def _reused(
    row: RunCase, stages: Stages, journal: Journal
) -> Iterator[tuple[CallStage[Any, Any], object, Outcome[Any]]]:
    """The stages whose stored outcome would be used again, with their input and that outcome."""
    for stage in stages:
        if isinstance(stage, AbsentStage):
            row.settled[stage.name] = skipped(stage.reason)
            continue
        given = stage.reads(row)
        if isinstance(given, StageOutcome):
            row.settled[stage.name] = given
            continue
        known = journal.outcomes(stage.name, [row.number])
        recorded = known.get((row.number, RECORDED))
        stored = recorded or known.get((row.number, fixed_digest(stage.identity, given.digest)))
        if stored is None:
            return
        entry = row.settled[stage.name] = restored(stage.name, stored, journal)
        has_value = recorded is None and entry.outcome.value is not None
        if has_value and stage.name in ("retrieve", "generate"):
            yield stage, given.input, entry.outcome


def _content(stage: CallStage[Any, Any], outcome: Outcome[Any]) -> object:
    """What is compared, as the journal gives it back: metadata may hold times."""
    encoded = encode_outcome(stage.name, outcome)
    value = CODECS[stage.name].decode(encoded.texts, encoded.body)
    if isinstance(value, RetrievalResult):
        return [*value.contexts], value.context_ids and [*value.context_ids]
    return value.response
