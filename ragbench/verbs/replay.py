"""Which single change of its context makes a lost case right: the RAG is asked again with each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
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
from ragbench.stats.mean import mean_of
from ragbench.verbs.cases import find_case, ranked, worst_metric
from ragbench.verbs.report import RunCases, report_of

# The changes, as reports name them.
UNCHANGED = "nothing: asked again"
"""The control: a RAG that answers differently each time may be right without any change."""
GOLD_ADDED = "the gold put into the context"
GOLD_FIRST = "the gold moved to the first place"
PUT_BACK = "what {} dropped put back"
"""``{}`` is an operator of post-retrieval."""
_EXCERPT_LENGTH = 4000
"""Characters of a document that are put into a context, around the evidence where it is known."""
_REPLAYED = (
    Cause.NOT_RETRIEVED,
    Cause.PART_NOT_RETRIEVED,
    Cause.NOT_SEEN,
    Cause.DROPPED,
    Cause.WRONG_PASSAGE,
    Cause.NOT_USED,
    Cause.DECLINED,
)
"""Causes of a lost case that another context may cure."""

Documents = Callable[[], Iterable[Document]]
"""Reads the corpus, which may be large: it is called only where a case needs it."""


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
    """A lost case, and what the RAG said with each change of its context."""

    id: str
    cause: Cause
    tries: tuple[Try, ...]


class Cure(Record):
    """A change over all cases."""

    change: str
    tried: int
    """Lost cases that it was tried on."""
    cured: int
    """Of these, those that it made right."""


class _Planned(NamedTuple):
    """A lost case, and the contexts to ask it with, by what is changed."""

    case: Case
    cause: Cause
    changes: Mapping[str, RetrievalResult[Any]]
    """By the name of the change, in the order in which they are asked."""


class Replay(Record, kw_only=False):
    """What is to be asked; nothing is, before `ask`: a user sees first what it will cost."""

    cases: tuple[_Planned, ...]
    tokens: float | None
    """That an answer of the run took, in the mean; None where the RAG does not report them."""

    @property
    def questions(self) -> int:
        """How often the RAG will be asked: the user sees that number before anything is paid."""
        return sum(len(planned.changes) for planned in self.cases)

    def ask(self, answering: Answering) -> Iterator[ReplayedCase]:
        """Asks the RAG for the answer with every changed context, a case at a time.

        Yields a case as soon as all its changes are tried, so that the user sees progress.
        """
        for case, cause, changes in self.cases:
            tries: list[Try] = []
            for change, context in changes.items():
                tries.append(_try_of_change(answering, case, change, context))
            answering.forget()  # answers take memory, and no later case asks for these
            yield ReplayedCase(id=case.id, cause=cause, tries=tuple(tries))


def cures(cases: Iterable[ReplayedCase]) -> tuple[Cure, ...]:
    """For each change of the context, on how many lost cases it was tried, and how many it cured.

    First comes the control, without a change: a change is worth something only where it cures more
    than asking again does.
    """
    # The control is there also where no case was tried, and comes first.
    outcomes: dict[str, list[bool]] = {UNCHANGED: []}
    for case in cases:
        for attempt in case.tries:
            outcomes_of_change = outcomes.setdefault(attempt.change, [])
            outcomes_of_change.append(attempt.cures)
    all_cures: list[Cure] = []
    for change, cured in outcomes.items():
        all_cures.append(Cure(change=change, tried=len(cured), cured=sum(cured)))
    return tuple(all_cures)


def plan_replay(
    run: str | Path, *, case: str | None, most: int, documents: Documents | None = None
) -> Replay:
    """Plans which changes of the context are tried on a case, or on the worst lost ones of a run.

    Nothing is asked yet: the user sees first how often the RAG would be.

    Args:
        documents: gives what is searched, for gold that is known by id and was not retrieved.

    Raises:
        ConfigError: no case is lost, or of none a change can be tried.
    """
    cases = RunCases.of(path_of(run))
    # Only lost cases that another context can cure; a case that the user names is taken in any
    # case.
    report = report_of(run)
    if case is None:
        metric = worst_metric(report)
        lost = (entry for entry in report.index(metric, None) if entry.cause in _REPLAYED)
        ids = ranked(lost, report, metric)[:most]
    else:
        ids = [find_case(report, case).id]
    # The documents are read for the first case that needs them, if any does.
    # Read once, at the first call: `cache` keeps it for the cases that follow.
    documents_by_id = cache(partial(_documents_by_id, documents))
    planned: list[_Planned] = []
    tokens: list[float] = []
    for row in cases.traces(ids):
        answer = row.trace.generation.value
        if answer is not None:
            # A mean over answers whose tokens are known; others count as unknown, and not as 0.
            total_tokens = token_counts(answer.metadata).get("total_tokens", 0.0)
            if total_tokens:
                tokens.append(total_tokens)
        # The cause as stored, since labels and judges may have decided it.
        attribution = cases.stored_cause(row, cases.matching, None)
        # Without a reference answer it cannot be said whether an answer is right.
        if is_unanswerable(row.case) or not row.case.references:
            continue
        matches = row.matches or matches_of(row.trace, cases.matching)
        gold = FoundGold.of(row.trace, matches)
        # A dict: two operators of one name would share an entry, and the later one counts.
        changes = dict(_changed_contexts(row.trace, gold, documents_by_id))
        if changes:
            planned.append(_Planned(row.case, attribution.cause, changes))
    if not planned:
        raise _nothing_to_replay(run, case)
    return Replay(tuple(planned), mean_of(tokens))


def _documents_by_id(documents: Documents | None) -> Mapping[str, Document]:
    """The documents that are searched, by id, to put the gold among them into a context.

    None of them where the corpus is not at hand.
    """
    if documents is None:
        return {}
    return {document.id: document for document in documents()}


def _nothing_to_replay(run: str | Path, case: str | None) -> ConfigError:
    """The error of a run, or of a case, for which no change of a context can be tried.

    Without a reference answer, it cannot be known whether a change makes the answer right.
    """
    if case is None:
        return ConfigError(
            f"there is nothing to replay in {run}: no case with a reference answer is lost there"
        )
    return ConfigError(
        f"case '{case}' cannot be replayed: that takes a reference answer and contexts"
    )


def _changed_contexts(
    trace: Trace, gold: FoundGold | None, documents: Callable[[], Mapping[str, Document]]
) -> Iterator[tuple[str, RetrievalResult[Any]]]:
    """The contexts to ask a lost case with, each under the name of its one change.

    First comes the context without a change, as the control. The others add the missing gold, move
    the gold to the front, or put back what an operator dropped, where that applies.

    Args:
        gold: where the gold is among the chunks; None where no gold is known.
        documents: gives the corpus by id; called only where gold has to be read there.
    """
    shown = trace.context.value
    retrieved = trace.retrieval.value
    if shown is None or retrieved is None:
        return
    yield UNCHANGED, shown
    if shown.metadata is not None and written_text(shown) is not None:
        return  # one text: there is no chunk in it to add or to move
    chunks = shown.to_chunks()
    if gold is not None and _gold_not_shown(gold):
        # Behind the shown chunks, so that the change adds and moves nothing else.
        added = _gold_chunks(trace.case, gold, retrieved, documents)
        if added:
            yield GOLD_ADDED, _context_of_chunks([*chunks, *added])
    # Only where gold is shown, and other chunks stand before it.
    if gold is not None and any(gold.shown[1:]) and not gold.shown[0]:
        yield GOLD_FIRST, _context_of_chunks(_with_gold_first(chunks, gold.shown))
    if shown is retrieved:
        return  # no operator stands between them
    retrieved_by_id = {chunk.id: chunk for chunk in retrieved.to_chunks()}
    for step in steps_of(shown):
        # A dropped chunk is put back as it was retrieved, before any operator changed it. One that
        # an operator wrote itself was not retrieved, and cannot be put back.
        dropped = [retrieved_by_id[id] for id in step.dropped if id in retrieved_by_id]
        if dropped:
            yield PUT_BACK.format(step.operator), _context_of_chunks([*chunks, *dropped])


def _with_gold_first(chunks: Sequence[Chunk], golds: Sequence[frozenset[int]]) -> list[Chunk]:
    """The chunks that hold gold, then the others, both in their order: a context to try.

    Args:
        golds: for each chunk, the positions of the gold contexts that it holds.
    """
    gold_chunks: list[Chunk] = []
    other_chunks: list[Chunk] = []
    for chunk, golds_of_chunk in zip(chunks, golds, strict=True):
        if golds_of_chunk:
            gold_chunks.append(chunk)
        else:
            other_chunks.append(chunk)
    return gold_chunks + other_chunks


def _gold_not_shown(gold: FoundGold) -> frozenset[int]:
    """The positions of the gold contexts (with the answer) that no shown chunk holds.

    A replay adds these to the context, to see whether the RAG is right then.
    """
    all_positions = frozenset(range(gold.total))
    return all_positions.difference(*gold.shown)


def _gold_chunks(
    case: Case,
    gold: FoundGold,
    retrieved: RetrievalResult[Any],
    documents: Callable[[], Mapping[str, Document]],
) -> list[Chunk]:
    """The gold that a case was not shown, as chunks to add to its context.

    As retrieved, else as the case has it, else out of the corpus: in this order, since what the
    system itself could have shown comes first.
    """
    missing = _gold_not_shown(gold)
    # Chunks that were retrieved and hold gold that was lost on the way.
    positions = [position for position, golds in enumerate(gold.retrieved) if golds & missing]
    if positions:
        chunks = retrieved.to_chunks()
        return [chunks[position] for position in positions]
    if case.reference_contexts:
        return [_gold_chunk(text) for text in case.reference_contexts]
    # By document, the words of the evidence, around which an excerpt is cut.
    spans = {evidence.document_id: evidence.text for evidence in case.evidence}
    texts: list[str] = []
    if case.relevant_ids:
        corpus = documents()
        for id in case.relevant_ids:
            if id in corpus:
                excerpt = _excerpt_around(corpus[id].text, spans.get(id, ""))
                texts.append(excerpt)
    # Where the corpus is not at hand, or lacks the documents.
    if not texts:
        texts = list(spans.values())
    return [_gold_chunk(text) for text in texts if text]


def _excerpt_around(text: str, span: str) -> str:
    """An excerpt of a document for a context: from well before a span on, or from its beginning.

    A whole document may be longer than the model takes.
    """
    start = 0
    if span:
        # As much before the span as behind it; a span that is not found has position -1: the
        # beginning.
        start = max(text.find(span) - _EXCERPT_LENGTH // 2, 0)
    return text[start : start + _EXCERPT_LENGTH]


def _gold_chunk(text: str) -> Chunk:
    """A text of the gold as a chunk, to be added to a context that lacks it.

    The chunk's id is never read: generation reads texts alone.
    """
    return Chunk(id="gold", text=text)


def _context_of_chunks(chunks: Sequence[Chunk]) -> RetrievalResult[Any]:
    """Chunks as the context that generation is given, which reads nothing but their texts."""
    return RetrievalResult([chunk.text for chunk in chunks])


def _try_of_change(
    answering: Answering, case: Case, change: str, context: RetrievalResult[Any]
) -> Try:
    """The RAG's answer to a changed context, and whether the change cures the case.

    Args:
        change: the name of the change in reports.
    """
    outcome = answering.answer(case.query, context, case.messages)
    if outcome.value is None:
        # A skipped answer has a reason in place of a failure.
        failure = str(outcome.failure or outcome.reason)
        return Try(change=change, response=None, right=None, cures=False, failure=failure)
    response = outcome.value.response
    # An answer that declines is not right, however much of the reference it repeats.
    right = 0.0
    if not declined(outcome):
        right = answer_correct(case.query, response, case.references)
    return Try(change=change, response=response, right=right, cures=sure_verdict(right) is True)
