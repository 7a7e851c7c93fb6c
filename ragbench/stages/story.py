"""A stored case, stage by stage: nothing is computed but ranks, moves and where quotes stand."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, cast

from ragbench.core.biography import Step, steps_of, written_text
from ragbench.core.case import Case
from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement, JudgeStep
from ragbench.core.readable_metadata import readable_metadata
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.story import (
    AnswerNote,
    CaseStory,
    ChunkStory,
    ExpectationStory,
    Hop,
    JudgedAnswer,
    JudgedClaim,
    JudgedSentence,
    Mark,
    SearchStory,
)
from ragbench.core.trace import RunCase, Trace
from ragbench.metrics.hops import gold_hop, searches_of
from ragbench.metrics.matching import Matching
from ragbench.stages.attribution import FoundGold, matches_of
from ragbench.text.sentences import split_sentences
from ragbench.text.tokens import tokenise

_NOTED = frozenset({"numbers_supported", "citation_validity", "citation_attribution"})
"""Metrics that look at an answer sentence by sentence: where one of them was asked for, the story
says what is wrong with which sentence."""
_MOST_MARKS = 50
"""Marks that a chunk is shown with."""


def story_of(row: RunCase, matching: Matching, metrics: Sequence[Metric] = ()) -> CaseStory:
    """One stored case from its question to its answer, as pages and tables show a case.

    Args:
        metrics: those of the run. They decide what else is looked for in the answer, and name its
            judgements.
    """
    trace = row.trace
    case = trace.case
    retrieved = trace.retrieval.value
    shown = trace.context.value
    generated = trace.generation.value
    # As computed in the run; a row that was read without its scores is compared here.
    matches = row.matches or matches_of(trace, matching)
    steps: Sequence[Step] = ()
    if trace.post_retrieval is not None and shown is not None:
        # Where post-retrieval failed there is nothing to show of its steps.
        steps = steps_of(shown)
    candidates: tuple[str, ...] = ()
    confidence: float | None = None
    if generated is not None:
        confidence = generated.confidence
        responses = generated.multi_responses or ()
        if len(responses) > 1:  # a single one is the answer itself
            candidates = tuple(responses)
    supported: tuple[JudgedAnswer, ...] = ()
    # Without any judgement the answer is not split into sentences: that takes time.
    if generated is not None and shown is not None and any(row.judgements):
        supported = tuple(
            judged_answers(generated.response, _chunk_ids(shown), metrics, row.judgements)
        )
    sent: tuple[str, ...] = ()
    searches: tuple[SearchStory, ...] = ()
    if retrieved is not None and retrieved.metadata is not None:
        sent = tuple(_sent_queries(retrieved))
        searches = tuple(_search_stories(case, retrieved))
    written = None
    if shown is not None and shown.metadata is not None:
        written = written_text(shown)
    # A dict, so that a text that several pieces of evidence share is shown once, in order.
    evidence_texts = dict.fromkeys(evidence.text for evidence in case.evidence)
    return CaseStory(
        sent=sent,
        hops=tuple(_hops_of_stages(trace)),
        chunks=tuple(_chunk_stories(trace, FoundGold.of(trace, matches), steps, row.judgements)),
        operators=tuple(step.operator for step in steps),
        written=written,
        gold_ids=case.relevant_ids,
        # The gold as spans of text, where the case has them; else as whole contexts.
        gold_texts=tuple(evidence_texts) or case.reference_contexts or (),
        references=case.references,
        candidates=candidates,
        supported=supported,
        notes=_answer_notes(case, generated, shown, metrics),
        expectations=tuple(_expectation_stories(trace, metrics)),
        history=case.history,
        searches=searches,
        confidence=confidence,
        metadata=tuple(sorted(readable_metadata(case.metadata).items())),
    )


def _hops_of_stages(trace: Trace) -> Iterator[Hop]:
    """How each stage ended that the case went through: status, time, and the reason of a failure.

    The search for missed gold is left out: it is no part of the case's way to its answer.
    """
    for name, outcome in trace.stages:
        if name == "locate":
            continue  # it looks for gold that was missed, and is no part of the case's way
        reason = outcome.reason
        if outcome.failure is not None:
            reason = str(outcome.failure)
        yield Hop(
            stage=name,
            status=outcome.status,
            known=outcome.known,
            seconds=outcome.seconds,
            sharing=outcome.sharing,
            reason=reason,
        )


def _answer_notes(
    case: Case,
    generated: GenerationResult[Any] | None,
    shown: RetrievalResult[Any] | None,
    metrics: Sequence[Metric],
) -> tuple[AnswerNote, ...]:
    """What is wrong with which sentence of the answer, such as a number that no chunk supports.

    Empty unless a metric of the run looks at answers sentence by sentence.
    """
    if generated is None or shown is None:
        return ()
    if _NOTED.isdisjoint(metric.name for metric in metrics):
        return ()
    from ragbench.metrics.citations import notes_of  # only where its metrics are asked for

    return tuple(notes_of(case, generated, shown))


def _expectation_stories(trace: Trace, metrics: Sequence[Metric]) -> Iterator[ExpectationStory]:
    """The expectations of a case, such as "mentions X", each with whether it holds and why.

    Empty unless the run measures them. One that takes too long to check has no verdict.
    """
    is_measured = any(metric.definition.name == "expectations" for metric in metrics)
    if not (is_measured and trace.case.expectations):
        return
    from ragbench.metrics.expectations import Expected  # only where it is measured

    for expectation in trace.case.expectations:
        # A copy of the case with this expectation alone: each is checked with its own time limit.
        alone = replace(trace, case=replace(trace.case, expectations=(expectation,)))
        expected = Expected(trace=alone)
        holds: bool | None = None
        # None stays: no verdict, where a pattern takes too long.
        with suppress(TimeoutError):
            holds = expected.results[0][1]
        yield ExpectationStory(
            text=expectation.sentence, holds=holds, reason=expected.reason(expectation)
        )


def _sent_queries(retrieved: RetrievalResult[Any]) -> Iterator[str]:
    """The queries that pre-retrieval made of the question, each as text with its kind.

    The system searched for these in the question's place, which explains chunks that seem off.
    """
    from ragbench.core.search_query import pre_retrieved

    for query in pre_retrieved(retrieved).queries:
        yield f"{query.kind}: {query.text}"


def _search_stories(case: Case, retrieved: RetrievalResult[Any]) -> Iterator[SearchStory]:
    """The searches of a retrieval that searched several times, each with the chunks it brought.

    The one that brought the gold is marked. Empty for a retrieval of a single search.
    """
    searches = searches_of(retrieved)
    if not searches:
        return
    # By the number of the search, from 1.
    gold_number = gold_hop(case, retrieved)
    ids = _chunk_ids(retrieved)
    for number, search in enumerate(searches, start=1):
        yield SearchStory(
            query=search.query,
            ids=tuple(ids[position] for position in search.places),
            new=search.new,
            has_gold=number == gold_number,
            seconds=search.seconds,
        )


# --- its chunks


def _chunk_stories(
    trace: Trace,
    gold: FoundGold | None,
    steps: Sequence[Step],
    judgements: Sequence[Sequence[Judgement]],
) -> Iterator[ChunkStory]:
    """The chunks of a case, each with its ranks, moves and marks: as retrieved, then those added.

    Args:
        gold: which gold each chunk holds; None where no gold is known.
        steps: what each operator did to the chunks.
        judgements: those of the case's judges, whose quotes are marked in the texts.
    """
    retrieved = trace.retrieval.value
    shown = trace.context.value
    start = retrieved
    # Ranks then begin with what was shown, which is all that is known.
    if start is None:  # a run may have recorded what was shown alone
        start = shown
    if start is None:
        return
    start_ids = _chunk_ids(start)
    shown_ids = () if shown is None else _chunk_ids(shown)
    shown_ranks: dict[str, int] = {}
    for rank, id in enumerate(shown_ids, start=1):
        shown_ranks.setdefault(id, rank)  # of a repeated id the best rank
    gold_shown: Sequence[frozenset[int]] = ()
    gold_at_start: Sequence[frozenset[int]] = ()
    if gold is not None:
        gold_shown = gold.shown
        # The gold of both is known by position, in the order of each result's chunks.
        gold_at_start = gold.shown if start is shown else gold.retrieved
    # Quotes are looked for in judgements only where there are any.
    quotes = _judge_quotes(judgements) if any(judgements) else {}
    case_events = _CaseEvents(trace, steps, quotes)
    # In retrieval's order: then come the chunks that operators added.
    for position, id in enumerate(start_ids):
        yield case_events.chunk_story(
            start,
            position,
            id,
            is_gold=bool(gold_at_start and gold_at_start[position]),
            retrieved_rank=position + 1,
            shown_rank=shown_ranks.get(id),
        )
    # Without post-retrieval both are one object, whose chunks have all been shown.
    if shown is None or shown is start:
        return
    retrieved_ids = set(start_ids)
    for position, id in enumerate(shown_ids):
        if id not in retrieved_ids:
            yield case_events.chunk_story(
                shown,
                position,
                id,
                is_gold=bool(gold_shown and gold_shown[position]),
                retrieved_rank=None,
                shown_rank=position + 1,
            )


class _CaseEvents(NamedTuple):
    """What happened to the chunks of a case."""

    trace: Trace
    steps: Sequence[Step]
    """What the operators did."""
    quotes: Mapping[int, Sequence[tuple[int, int]]]
    """Start and end of what judges quoted, by the position of the shown chunk."""

    def chunk_story(
        self,
        result: RetrievalResult[Any],
        position: int,
        id: str,
        *,
        is_gold: bool,
        retrieved_rank: int | None,
        shown_rank: int | None,
    ) -> ChunkStory:
        """One chunk of a case for its reader: text, ranks, operators' moves, and marked quotes.

        Args:
            result: the retrieval, or the shown chunks, that the chunk is in.
            position: the chunk's place in the result, from 0.
            retrieved_rank: the rank in the retrieval, from 1; None for a chunk that an operator
                added.
            shown_rank: the rank in the context, from 1; None for a chunk that was not shown.
        """
        text = result.contexts[position]
        # Judges count the contexts that they are shown from 0.
        # A chunk that was not shown was not judged, and has no quotes.
        chunk_quotes = () if shown_rank is None else self.quotes.get(shown_rank - 1, ())
        return ChunkStory(
            id=id,
            text=text,
            retrieved=retrieved_rank,
            shown=shown_rank,
            score=None if result.scores is None else result.scores[position],
            is_gold=is_gold,
            moves=tuple(_moves_of_chunk(id, self.steps)) if self.steps else (),
            marks=_marks_in_text(self.trace, id, text, chunk_quotes),
            address=_web_address(result, position),
        )


_ADDRESS = ("url", "source_url", "link", "uri", "href", "source", "web_url", "permalink")
"""Where in a chunk's metadata the address of its source may stand, the likeliest first."""
_WEB = re.compile(r"https?://[^\s\"'<>\\]{1,2000}", re.IGNORECASE)


def _web_address(result: RetrievalResult[Any], position: int) -> str | None:
    """The web address of a chunk's source, for a link; None where its metadata names none.

    Only a whole http address passes: metadata are the user's, and a page would show anything.
    """
    if not result.context_metadata:
        return None
    metadata: Mapping[str, Any] = result.context_metadata[position]
    for name in _ADDRESS:
        # `type(...) is str`, as metadata are the user's and may hold any object.
        address = metadata.get(name)
        if type(address) is str and _WEB.fullmatch(address):
            return address
    return None


def _chunk_ids(result: RetrievalResult[Any]) -> Sequence[str]:
    """The ids of a retrieval's chunks; their positions, as texts, where they have no ids.

    A page links ranks, moves and quotes of a chunk by its id, so that each needs one.
    """
    return result.context_ids or [str(position) for position in range(len(result))]


def _moves_of_chunk(id: str, steps: Sequence[Step]) -> Iterator[str]:
    """What each post-retrieval operator did to a chunk, in words: ``rerank: 7 to 2``.

    Operators that left its rank as it was are left out.
    """
    for step in steps:
        before = _rank_of(id, step.given)
        after = _rank_of(id, step.left)
        if before == after:
            # Also where both are None: the chunk was not there before and after.
            continue
        if after is None:
            yield f"{step.operator}: dropped at {before}"
        elif before is None:
            yield f"{step.operator}: came in at {after}"
        else:
            yield f"{step.operator}: {before} to {after}"


def _rank_of(id: str, chunks: Sequence[tuple[str, float | None]]) -> int | None:
    """The rank of a chunk, by its id, in one order of chunks, from 1; None where it is not there.

    Two such ranks show what an operator did to the chunk.
    """
    # The first place counts, where an id comes twice.
    for rank, (chunk_id, _score) in enumerate(chunks, start=1):
        if chunk_id == id:
            return rank
    return None


def _marks_in_text(
    trace: Trace, id: str, text: str, quotes: Sequence[tuple[int, int]]
) -> tuple[Mark, ...]:
    """The stretches of a chunk's text to mark: the case, a validator or a judge points at them.

    Only the first of them, if there are very many.

    Args:
        quotes: start and end of the stretches of this chunk that judges quoted.
    """
    stretches: set[tuple[int, int, str]] = set()
    for evidence in trace.case.evidence:
        # The first place of the text in the chunk; an empty text would be found everywhere.
        start = text.find(evidence.text) if evidence.text else -1
        if start >= 0:
            stretches.add((start, start + len(evidence.text), "gold"))
    verdict = None if trace.validation is None else trace.validation.value
    if verdict is not None:
        for quote in verdict.evidence:
            # A chunk that was rewritten since may hold something else there.
            if quote.chunk_id == id and text[quote.start : quote.end] == quote.text:
                stretches.add((quote.start, quote.end, "evidence"))
    for start, end in quotes:
        # A quote beyond the end belongs to another form of the text.
        if end <= len(text):
            stretches.add((start, end, "quote"))
    if not stretches:  # as of most chunks
        return ()
    marks: list[Mark] = []
    # Sorted by place, so that a page marks from the top; the rest of very many is left out.
    for start, end, kind in sorted(stretches)[:_MOST_MARKS]:
        marks.append(Mark(start=start, end=end, kind=kind))
    return tuple(marks)


def _judge_quotes(judgements: Sequence[Sequence[Judgement]]) -> dict[int, list[tuple[int, int]]]:
    """Start and end of what judges quoted, by the position of the context that holds the quote.

    A quote that no context holds (the judge made it up) is left out: it cannot be marked.
    """
    quotes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for cell_judgements in judgements:
        for judgement in cell_judgements:
            for step in judgement.steps:
                for quote in step.quotes:
                    if quote.context is None or quote.start is None or quote.end is None:
                        continue  # it stands nowhere
                    quotes[quote.context].append((quote.start, quote.end))
    return quotes


# --- what judges said of an answer's claims, by sentence

_SUPPORT = "support"
_FAITHFULNESS = "ragas:faithfulness"
_VERDICTS = {0: "not supported", 1: "supported"}
"""RAGAS' verdicts in words."""
_MIXED = "partially supported"
_UNPROVED = "unproved"
_NO_CLAIM = "no_claim"
_LEAST = 0.5
"""Share of a claim's words that a sentence holds which says it: judges put claims in their own
words, and replace pronouns by names."""


def judged_answers(
    response: str,
    shown: Sequence[str],
    metrics: Sequence[Metric],
    judgements: Sequence[Sequence[Judgement]],
) -> Iterator[JudgedAnswer]:
    """What judges decided about an answer's claims, for each judge and metric, by sentence.

    A reader of the case sees by it which sentence of the answer is not supported, and why.

    Args:
        shown: ids of the chunks that generation was given.
        judgements: for each metric, in the order of ``metrics``, what its judges gave.
    """
    # Not strict: rows without judgements have an empty list for all metrics.
    for metric, metric_judgements in zip(metrics, judgements, strict=False):
        # Support and faithfulness are judged claim by claim; other metrics give one value.
        if metric.name.partition("(")[0] not in (_SUPPORT, _FAITHFULNESS):
            continue
        by_judge: dict[str, Judgement] = {}
        for judgement in metric_judgements:
            by_judge.setdefault(judgement.judge, judgement)  # of its repetitions the first
        for judge, judgement in sorted(by_judge.items()):
            claims: list[JudgedClaim] = []
            for step in judgement.steps:
                # A step of another kind of question gives none.
                claims.extend(_claims_of_step(step, shown))
            if claims:
                sentences = tuple(_claims_by_sentence(response, claims))
                yield JudgedAnswer(metric=metric.name, judge=judge, sentences=sentences)


def _claims_of_step(step: JudgeStep, shown: Sequence[str]) -> Iterator[JudgedClaim]:
    """The claims in one answer of a judge, each with verdict, reason and quotes.

    Empty where the judge was asked for something else. The two forms are those of our own and of
    RAGAS' prompts.
    """
    answer = cast("Mapping[str, Any]", step.answer)
    if step.asked == "SupportVerdicts":
        step_quotes = iter(step.quotes)  # as many as the judge gave, in its order
        for verdict in answer["verdicts"]:
            # Taken off the list even for a sentence without a claim: else the next sentence would
            # get its quotes.
            verdict_quotes = list(islice(step_quotes, len(verdict["quotes"])))
            if verdict["verdict"] == _NO_CLAIM:
                continue
            quotes: list[tuple[str, str | None]] = []
            for quote in verdict_quotes:
                if quote.context is None:
                    quotes.append((quote.text, None))
                elif quote.context < len(shown):
                    quotes.append((quote.text, shown[quote.context]))
            unproved = verdict.get("unproved")
            yield JudgedClaim(
                text=str(verdict["sentence"]),
                # A favourable verdict without a quote that holds counts as unproved, whatever the
                # judge decided.
                verdict=_UNPROVED if unproved else str(verdict["verdict"]).replace("_", " "),
                reason=str(unproved or verdict["reason"]),
                quotes=tuple(quotes),
            )
    elif step.asked == "NLIStatementOutput":
        for statement in answer["statements"]:
            yield JudgedClaim(
                text=str(statement["statement"]),
                verdict=_VERDICTS[int(statement["verdict"])],
                reason=str(statement["reason"]),
            )


def _claims_by_sentence(response: str, claims: Sequence[JudgedClaim]) -> Iterator[JudgedSentence]:
    """The claims under the sentences of the answer that make them, each sentence with a verdict.

    Last come the claims that no sentence makes, under None.
    """
    sentences = [response[span.start : span.end] for span in split_sentences(response)]
    # By sets of words: how often a word comes does not matter.
    sentence_words = [frozenset(tokenise(sentence)) for sentence in sentences]
    claims_by_position: dict[int | None, list[JudgedClaim]] = defaultdict(list)
    for claim in claims:
        position: int | None
        # A judge of ours repeats the sentence as it is; RAGAS puts claims into its own words.
        if claim.text in sentences:
            position = sentences.index(claim.text)
        else:
            position = _position_of_sentence(claim, sentence_words)
        claims_by_position[position].append(claim)
    texts: dict[int | None, str | None] = dict(enumerate(sentences))
    texts[None] = None  # the last: claims that no sentence says
    for position, text in texts.items():
        if position not in claims_by_position:
            continue
        sentence_claims = claims_by_position[position]
        verdicts = {claim.verdict for claim in sentence_claims}
        # Unlike verdicts under one sentence, unproved ones too, make it mixed.
        verdict = _MIXED
        if len(verdicts) == 1:
            verdict = verdicts.pop()
        yield JudgedSentence(text=text, verdict=verdict, claims=tuple(sentence_claims))


def _position_of_sentence(claim: JudgedClaim, sentences: Sequence[frozenset[str]]) -> int | None:
    """The position of the one sentence of an answer that makes a claim, by shared words.

    None where no sentence makes it, or several do equally. Judges put claims in their own words, so
    that a share of the words is enough.
    """
    # Claims without a word, such as a number sign alone, are under no sentence.
    claim_words = frozenset(tokenise(claim.text))
    if not claim_words:
        return None
    shares = [len(claim_words & words) / len(claim_words) for words in sentences]
    best_share = max(shares, default=0.0)
    if best_share < _LEAST or shares.count(best_share) > 1:
        return None
    return shares.index(best_share)
