"""A stored case, stage by stage: nothing is computed but ranks, moves and where quotes stand."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, cast

from ragbench.core.biography import Step, steps_of, written_text
from ragbench.core.case import Case
from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement, JudgeStep
from ragbench.core.record import replace
from ragbench.core.result import RetrievalResult
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

_NOTED = {"numbers_supported", "citation_validity", "citation_attribution"}
_MOST_MARKS = 50
"""Marks that a chunk is shown with."""


def story_of(row: RunCase, matching: Matching, metrics: Sequence[Metric] = ()) -> CaseStory:
    trace, judgements = row.trace, row.judgements
    case, shown, retrieved = trace.case, trace.context.value, trace.retrieval.value
    matches = row.matches or matches_of(trace, matching)
    generated = trace.generation.value
    steps = () if trace.post_retrieval is None or shown is None else steps_of(shown)
    candidates = tuple((generated and generated.multi_responses) or ())
    spans = dict.fromkeys(evidence.text for evidence in case.evidence)
    notes: tuple[AnswerNote, ...] = ()
    if generated is not None and shown is not None and _NOTED & {each.name for each in metrics}:
        from ragbench.metrics.citations import notes_of  # only where its metrics are asked for

        notes = tuple(notes_of(case, generated, shown))
    return CaseStory(
        sent=_sent(retrieved) if retrieved is not None and retrieved.metadata else (),
        hops=tuple(
            Hop(
                stage=name,
                status=outcome.status,
                known=outcome.known,
                seconds=outcome.seconds,
                sharing=outcome.sharing,
                reason=outcome.reason if outcome.failure is None else str(outcome.failure),
            )
            for name, outcome in trace.stages
            if name != "locate"
        ),
        chunks=tuple(_chunks(trace, FoundGold.of(trace, matches), steps, judgements)),
        operators=tuple(step.operator for step in steps),
        written=None if shown is None or not shown.metadata else written_text(shown),
        gold_ids=case.relevant_ids,
        gold_texts=tuple(spans) or case.reference_contexts or (),
        references=case.references,
        candidates=candidates if len(candidates) > 1 else (),
        supported=()
        if generated is None or shown is None or not any(judgements)
        else tuple(judged_answers(generated.response, _ids(shown), metrics, judgements)),
        notes=notes,
        expectations=tuple(_expectations(trace, metrics)),
        history=case.history,
        searches=tuple(_searches(case, retrieved))
        if retrieved is not None and retrieved.metadata
        else (),
        confidence=None if generated is None else generated.confidence,
        metadata=tuple(sorted(case.metadata.items())),
    )


def _expectations(trace: Trace, metrics: Sequence[Metric]) -> Iterator[ExpectationStory]:
    is_measured = any(metric.definition.name == "expectations" for metric in metrics)
    if not (is_measured and trace.case.expectations):
        return
    from ragbench.metrics.expectations import Expected  # only where it is measured

    for expectation in trace.case.expectations:
        alone = replace(trace, case=replace(trace.case, expectations=(expectation,)))
        expected = Expected(trace=alone)
        holds: bool | None = None
        with suppress(TimeoutError):
            holds = expected.results[0][1]
        yield ExpectationStory(
            text=expectation.sentence, holds=holds, reason=expected.reason(expectation)
        )


def _sent(retrieved: RetrievalResult[Any]) -> tuple[str, ...]:
    from ragbench.core.search_query import pre_retrieved

    return tuple(f"{one.kind}: {one.text}" for one in pre_retrieved(retrieved).queries)


def _searches(case: Case, retrieved: RetrievalResult[Any]) -> Iterator[SearchStory]:
    found = searches_of(retrieved)
    gold, ids = gold_hop(case, retrieved) if found else 0, _ids(retrieved)
    for number, one in enumerate(found, start=1):
        yield SearchStory(
            query=one.query,
            ids=tuple(ids[at] for at in one.places),
            new=one.new,
            has_gold=number == gold,
            seconds=one.seconds,
        )


def _chunks(
    trace: Trace,
    gold: FoundGold | None,
    steps: Sequence[Step],
    judgements: Sequence[Sequence[Judgement]],
) -> Iterator[ChunkStory]:
    """As retrieved, best first; then those that came in later."""
    retrieved, last = trace.retrieval.value, trace.context.value
    first = last if retrieved is None else retrieved
    if first is None:
        return
    shown = () if last is None else _ids(last)
    places = {id: rank for rank, id in reversed([*enumerate(shown, 1)])}
    quotes = _judge_quotes(judgements) if any(judgements) else {}
    verdict = None if trace.validation is None else trace.validation.value
    may_mark = bool(trace.case.evidence or quotes or verdict)
    seen: Sequence[frozenset[int]] = () if gold is None else gold.shown
    held = seen if gold is None or first is last else gold.retrieved
    ranks: list[tuple[RetrievalResult[Any], int, bool, int | None, int | None]] = [
        (first, at, bool(held and held[at]), at + 1, places.get(id))
        for at, id in enumerate(_ids(first))
    ]
    if last is not None and last is not first:
        known = {*_ids(first)}
        others = (at for at, id in enumerate(shown) if id not in known)
        ranks += [(last, at, bool(seen and seen[at]), None, at + 1) for at in others]
    for result, at, is_gold, place, rank in ranks:
        id, text = _ids(result)[at], result.contexts[at]
        about: Mapping[str, Any] = result.context_metadata[at] if result.context_metadata else {}
        addresses: list[str] = [about[name] for name in _ADDRESS if type(about.get(name)) is str]
        yield ChunkStory(
            id=id,
            text=text,
            retrieved=place,
            shown=rank,
            score=None if result.scores is None else result.scores[at],
            is_gold=is_gold,
            moves=tuple(_moves(id, steps)) if steps else (),
            marks=_marks(trace, id, text, quotes.get(rank - 1, ()) if rank else ())
            if may_mark
            else (),
            address=next(filter(_WEB.fullmatch, addresses), None),
        )


_ADDRESS = ("url", "source_url", "link", "uri", "href", "source", "web_url", "permalink")
_WEB = re.compile(r"https?://[^\s\"'<>\\]{1,2000}", re.IGNORECASE)


def _ids(result: RetrievalResult[Any]) -> Sequence[str]:
    """The chunks' ids; their positions where they have none."""
    return result.context_ids or [str(position) for position in range(len(result))]


def _moves(id: str, steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        before, after = (
            next((rank for rank, (known, _) in enumerate(order, 1) if known == id), None)
            for order in (step.given, step.left)
        )
        if before == after:
            continue
        if after is None:
            yield f"{step.operator}: dropped at {before}"
        elif before is None:
            yield f"{step.operator}: came in at {after}"
        else:
            yield f"{step.operator}: {before} to {after}"


def _marks(trace: Trace, id: str, text: str, quotes: Sequence[tuple[int, int]]) -> tuple[Mark, ...]:
    found = {
        (at, at + len(span.text), "gold")
        for span in trace.case.evidence
        if span.text and (at := text.find(span.text)) >= 0
    }
    verdict = None if trace.validation is None else trace.validation.value
    for quote in () if verdict is None else verdict.evidence:
        if quote.chunk_id == id and text[quote.start : quote.end] == quote.text:
            found.add((quote.start, quote.end, "evidence"))
    found |= {(start, end, "quote") for start, end in quotes if end <= len(text)}
    kept = sorted(found)[:_MOST_MARKS]
    return tuple(Mark(start=start, end=end, kind=kind) for start, end, kind in kept)


def _judge_quotes(judgements: Sequence[Sequence[Judgement]]) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    steps = (step for cell in judgements for judgement in cell for step in judgement.steps)
    for quote in (quote for step in steps for quote in step.quotes):
        if quote.context is not None and quote.start is not None and quote.end is not None:
            found[quote.context].append((quote.start, quote.end))
    return found


# --- what judges said of an answer's claims, by sentence

_SUPPORT = "support"
_FAITHFULNESS = "ragas:faithfulness"
_VERDICTS = {0: "not supported", 1: "supported"}
_MIXED = "partially supported"
_UNPROVED, _NO_CLAIM = "unproved", "no_claim"
_LEAST = 0.5
"""Share of a claim's words that a sentence holds which says it: judges put claims in their own
words, and replace pronouns by names."""


def judged_answers(
    response: str,
    shown: Sequence[str],
    metrics: Sequence[Metric],
    judgements: Sequence[Sequence[Judgement]],
) -> Iterator[JudgedAnswer]:
    """What judges said of an answer's claims, a judge and metric each."""
    for metric, made in zip(metrics, judgements, strict=False):
        if metric.name.partition("(")[0] not in (_SUPPORT, _FAITHFULNESS):
            continue
        first = {judgement.judge: judgement for judgement in reversed(made)}
        for judge, judgement in sorted(first.items()):
            claims = [claim for step in judgement.steps for claim in _claims(step, shown)]
            if claims:
                sentences = tuple(_by_sentence(response, claims))
                yield JudgedAnswer(metric=metric.name, judge=judge, sentences=sentences)


def _claims(step: JudgeStep, shown: Sequence[str]) -> Iterator[JudgedClaim]:
    answer = cast("Mapping[str, Any]", step.answer)
    if step.asked == "SupportVerdicts":
        left = iter(step.quotes)  # as many as the judge gave, in its order
        for one in answer["verdicts"]:
            quotes = [*islice(left, len(one["quotes"]))]
            if one["verdict"] != _NO_CLAIM:
                unproved = one.get("unproved")
                yield JudgedClaim(
                    text=str(one["sentence"]),
                    verdict=_UNPROVED if unproved else str(one["verdict"]).replace("_", " "),
                    reason=str(unproved or one["reason"]),
                    quotes=tuple(
                        (quote.text, None if quote.context is None else shown[quote.context])
                        for quote in quotes
                        if quote.context is None or quote.context < len(shown)
                    ),
                )
    elif step.asked == "NLIStatementOutput":
        for one in answer["statements"]:
            yield JudgedClaim(
                text=str(one["statement"]),
                verdict=_VERDICTS[int(one["verdict"])],
                reason=str(one["reason"]),
            )


def _by_sentence(response: str, claims: Sequence[JudgedClaim]) -> Iterator[JudgedSentence]:
    sentences = [response[span.start : span.end] for span in split_sentences(response)]
    words = [frozenset(tokenise(sentence)) for sentence in sentences]
    found: dict[int | None, list[JudgedClaim]] = defaultdict(list)
    for claim in claims:
        is_exact = claim.text in sentences
        at = sentences.index(claim.text) if is_exact else _place(claim, words)
        found[at].append(claim)
    texts: dict[int | None, str | None] = {**dict(enumerate(sentences)), None: None}
    for at, text in texts.items():
        if at in found:
            verdicts = {claim.verdict for claim in found[at]}
            verdict = verdicts.pop() if len(verdicts) == 1 else _MIXED
            yield JudgedSentence(text=text, verdict=verdict, claims=tuple(found[at]))


def _place(claim: JudgedClaim, sentences: Sequence[frozenset[str]]) -> int | None:
    """The one sentence that says a claim; None where none does, or several do equally."""
    wanted = frozenset(tokenise(claim.text))
    if not wanted:
        return None
    shares = [len(wanted & words) / len(wanted) for words in sentences]
    best = max(shares, default=0.0)
    is_one = best >= _LEAST and shares.count(best) == 1
    return shares.index(best) if is_one else None
