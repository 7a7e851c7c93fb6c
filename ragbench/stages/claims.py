"""Which sentences of an answer a judge found supported: what its judgements hold, by sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement, JudgeStep, Status
from ragbench.core.story import JudgedAnswer, JudgedClaim, JudgedSentence
from ragbench.text.sentences import split_sentences
from ragbench.text.tokens import tokenise

_SUPPORT = "support"
_FAITHFULNESS = "ragas:faithfulness"
_VERDICTS = {0: "not supported", 1: "supported"}
_MIXED = "partially supported"
_UNPROVED = "unproved"
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
            claims = [claim for step in judgement.steps for claim in _claims(step, response, shown)]
            if judgement.cell.status is Status.UNPROVED:  # its verdicts do not count
                claims = [replace(claim, verdict=_UNPROVED) for claim in claims]
            if claims:
                sentences = tuple(_by_sentence(response, claims))
                yield JudgedAnswer(metric=metric.name, judge=judge, sentences=sentences)


def _claims(step: JudgeStep, response: str, shown: Sequence[str]) -> Iterator[JudgedClaim]:
    answer = cast("Mapping[str, Any]", step.answer)
    if step.asked == "SupportVerdict":
        quotes = (
            (quote.text, None if quote.context is None else shown[quote.context])
            for quote in step.quotes
            if quote.context is None or quote.context < len(shown)
        )
        yield JudgedClaim(
            text=response,
            verdict=str(answer["verdict"]).replace("_", " "),
            reason=str(answer["reason"]),
            quotes=tuple(quotes),
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
    whole = [claim for claim in claims if claim.text == response]
    if whole:
        yield _sentence(response, whole)
    found: dict[int | None, list[JudgedClaim]] = {}
    for claim in claims:
        if claim.text != response:
            found.setdefault(_place(claim, words), []).append(claim)
    for at, sentence in enumerate(sentences):
        if at in found:
            yield _sentence(sentence, found[at])
    if None in found:
        yield _sentence(None, found[None])


def _place(claim: JudgedClaim, sentences: Sequence[frozenset[str]]) -> int | None:
    """The one sentence that says a claim; None where none does, or several do equally."""
    wanted = frozenset(tokenise(claim.text))
    if not wanted:
        return None
    shares = [len(wanted & words) / len(wanted) for words in sentences]
    best = max(shares, default=0.0)
    is_one = best >= _LEAST and shares.count(best) == 1
    return shares.index(best) if is_one else None


def _sentence(text: str | None, claims: Sequence[JudgedClaim]) -> JudgedSentence:
    verdicts = {claim.verdict for claim in claims}
    verdict = verdicts.pop() if len(verdicts) == 1 else _MIXED
    return JudgedSentence(text=text, verdict=verdict, claims=tuple(claims))
