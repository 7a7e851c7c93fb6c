"""Which single change of its context makes a lost case right: the RAG is asked again with each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.core.attribution import Cause
from ragbench.core.biography import steps_of, written_text
from ragbench.core.case import Case
from ragbench.core.chunk import Chunk, Document
from ragbench.core.record import Record
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError
from ragbench.ledger.folder import path_of
from ragbench.metrics.answer import declined
from ragbench.metrics.correct import answer_correct, sure_verdict
from ragbench.metrics.operational import token_counts
from ragbench.stages.attribution import FoundGold, is_unanswerable, matches_of
from ragbench.stages.trial import Answering
from ragbench.verbs.cases import find_case, ranked, worst_metric
from ragbench.verbs.report import RunCases, report_of

UNCHANGED = "nothing: asked again"
GOLD_ADDED = "the gold put into the context"
GOLD_FIRST = "the gold moved to the first place"
PUT_BACK = "what {} dropped put back"
_LONGEST = 4000
"""Characters of a document that are put into a context, around the evidence where it is known."""
_REPLAYED = (
    Cause.NOT_RETRIEVED, Cause.PART_MISSING, Cause.NOT_SEEN, Cause.DROPPED, Cause.NOT_USED,
    Cause.DECLINED,
)  # fmt: skip

_NOTHING: frozenset[int] = frozenset()
Documents = Callable[[], Iterable[Document]]


class Try(Record):
    """One change, and what the RAG says then."""

    change: str
    response: str | None
    """None where it failed."""
    right: float | None
    """How likely people would call it right, by its words; 0 where it declines."""
    cures: bool
    """Whether that is nearly sure: from 0.8 on."""
    failure: str | None = None


class ReplayedCase(Record):
    id: str
    cause: Cause
    tries: tuple[Try, ...]


class Cure(Record):
    """A change over all cases."""

    change: str
    tried: int
    cured: int


class _Planned(NamedTuple):
    case: Case
    cause: Cause
    changes: Mapping[str, RetrievalResult[Any]]


class Replay(Record, kw_only=False):
    """What is to be asked; nothing is, before `ask`."""

    cases: tuple[_Planned, ...]
    tokens: float | None
    """That an answer of the run took, in the mean; None where the RAG does not report them."""

    @property
    def questions(self) -> int:
        return sum(len(one.changes) for one in self.cases)

    def ask(self, answering: Answering) -> Iterator[ReplayedCase]:
        """Asks for the answer to every change, a case at a time."""
        for case, cause, changes in self.cases:
            tries = [
                _tried(answering, case, change, context) for change, context in changes.items()
            ]
            answering.forget()
            yield ReplayedCase(id=case.id, cause=cause, tries=tuple(tries))


def cures(cases: Iterable[ReplayedCase]) -> tuple[Cure, ...]:
    """How many cases each change cures, of those that it was tried on; the control first."""
    counts: dict[str, list[bool]] = {UNCHANGED: []}
    for one in (one for case in cases for one in case.tries):
        counts.setdefault(one.change, []).append(one.cures)
    return tuple(
        Cure(change=change, tried=len(found), cured=sum(found)) for change, found in counts.items()
    )


def plan_replay(
    run: str | Path, *, case: str | None, most: int, documents: Documents | None = None
) -> Replay:
    """What is asked of a case, or of the worst lost ones of a run.

    Args:
        documents: gives what is searched, for gold that is known by id and was not retrieved.

    Raises:
        ConfigError: no case is lost, or of none a change can be tried.
    """
    cases, report = RunCases.of(path_of(run)), report_of(run)
    at = worst_metric(report)
    lost = (one for one in report.index(at, None) if one.cause in _REPLAYED)
    ids = ranked(lost, report, at)[:most] if case is None else [find_case(report, case).id]

    @cache
    def by_id() -> Mapping[str, Document]:
        return {} if documents is None else {one.id: one for one in documents()}

    planned, tokens = list[_Planned](), list[float]()
    for row in cases.traces(ids):
        trace, generated = row.trace, row.trace.generation.value
        if generated is not None:
            tokens.append(token_counts(generated.metadata).get("total_tokens", 0.0))
        attribution = row.attribution or cases.cause(row, cases.matching, None)
        if is_unanswerable(row.case) or not row.case.references:
            continue
        matches = row.matches or matches_of(trace, cases.matching)
        changes = dict(_changes(trace, FoundGold.of(trace, matches), by_id))
        if changes:
            planned.append(_Planned(row.case, attribution.cause, changes))
    if not planned:
        raise ConfigError(
            f"there is nothing to replay in {run}: no case with a reference answer is lost there"
            if case is None
            else f"case '{case}' cannot be replayed: that takes a reference answer and contexts"
        )
    known = [one for one in tokens if one]
    return Replay(tuple(planned), sum(known) / len(known) if known else None)


def _changes(
    trace: Trace, gold: FoundGold | None, documents: Callable[[], Mapping[str, Document]]
) -> Iterator[tuple[str, RetrievalResult[Any]]]:
    """The contexts to ask with, by what is changed: each one thing, beside nothing at all."""
    shown, retrieved = trace.context.value, trace.retrieval.value
    if shown is None or retrieved is None:
        return
    yield UNCHANGED, shown
    if shown.metadata and written_text(shown) is not None:
        return  # one text: there is no chunk in it to add or to move
    chunks = shown.to_chunks()
    held = [] if gold is None else [bool(golds) for golds in gold.shown]
    if gold is not None and len(_NOTHING.union(*gold.shown)) < gold.total:
        added = _gold_chunks(trace.case, gold, retrieved, documents)
        if added:
            yield GOLD_ADDED, _result([*chunks, *added])
    if any(held[1:]) and not held[0]:
        first = [chunk for chunk, is_gold in zip(chunks, held, strict=True) if is_gold]
        rest = [chunk for chunk, is_gold in zip(chunks, held, strict=True) if not is_gold]
        yield GOLD_FIRST, _result([*first, *rest])
    before = {chunk.id: chunk for chunk in retrieved.to_chunks()}
    for step in () if shown is retrieved else steps_of(shown):
        dropped = [before[id] for id in step.dropped if id in before]
        if dropped:
            yield PUT_BACK.format(step.operator), _result([*chunks, *dropped])


def _gold_chunks(
    case: Case,
    gold: FoundGold,
    retrieved: RetrievalResult[Any],
    documents: Callable[[], Mapping[str, Document]],
) -> list[Chunk]:
    """The gold that was not shown: as retrieved, as the case has it, or as the corpus does."""
    missing = frozenset(range(gold.total)) - _NOTHING.union(*gold.shown)
    at = (place for place, golds in enumerate(gold.retrieved) if golds & missing)
    if found := [retrieved.to_chunks()[place] for place in at]:
        return found
    if case.reference_contexts:
        return [_chunk(text) for text in case.reference_contexts]
    spans = {one.document_id: one.text for one in case.evidence}
    wanted = case.relevant_ids
    known = documents() if wanted else dict[str, Document]()
    texts = [_around(known[id].text, spans.get(id, "")) for id in wanted if id in known]
    return [_chunk(text) for text in texts or spans.values() if text]


def _around(text: str, span: str) -> str:
    start = max(text.find(span) - _LONGEST // 2, 0) if span else 0
    return text[start : start + _LONGEST]


def _chunk(text: str) -> Chunk:
    return Chunk(id="gold", text=text)


def _result(chunks: Sequence[Chunk]) -> RetrievalResult[Any]:
    return RetrievalResult([chunk.text for chunk in chunks])


def _tried(answering: Answering, case: Case, change: str, context: RetrievalResult[Any]) -> Try:
    outcome = answering.answer(case.query, context, case.messages)
    if outcome.value is None:
        failure = str(outcome.failure or outcome.reason)
        return Try(change=change, response=None, right=None, cures=False, failure=failure)
    response = outcome.value.response
    right = 0.0 if declined(outcome) else answer_correct(case.query, response, case.references)
    return Try(change=change, response=response, right=right, cures=sure_verdict(right) is True)
