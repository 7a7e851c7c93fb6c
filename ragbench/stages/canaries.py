"""Canaries: claims of known truth, made of a run's own texts, that its judge has to distinguish.

Nobody labels them. A sentence copied from a case's own contexts is supported; one out of another
case's contexts is not, nor is a copied one with another number in it; and an instruction to call a
claim supported changes nothing of it. How often the judge is wrong about them stands in the report.

A judge of whether answers are right reads answers in their place: the case's own reference is
right; another case's is not, nor is the own one with another number.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from msgspec import json

from ragbench.core.case import Case
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, JudgedCell, Outcome, Status
from ragbench.core.record import Record
from ragbench.core.report import CanaryLine
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import Trace
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import write_atomic
from ragbench.llm.session import ModelClients
from ragbench.metrics.judging import (
    ANSWER_INJECTION,
    INJECTION,
    JudgePlan,
    reads_answer_canaries,
    reads_canaries,
)
from ragbench.stages.judge import Judging
from ragbench.text.quotes import find_quote
from ragbench.text.sentences import split_sentences
from ragbench.text.tokens import multilingual_tokens


class CanaryKind(StrEnum):
    """How a canary was made, and so whether it is supported."""

    COPIED = "copied"
    """A sentence of the case's own contexts: supported. As an answer: its own reference, right."""
    FOREIGN = "foreign"
    """A sentence of another case's contexts: not supported. As an answer: its reference, wrong."""
    ALTERED = "altered"
    """A copied sentence or reference with another number: contradicted."""
    INJECTED = "injected"
    """A foreign sentence or reference, with an instruction to call it supported, or right."""


class Canary(NamedTuple):
    """A claim whose truth is known, with the contexts that it is judged by."""

    id: str
    kind: CanaryKind
    question: str
    claim: str
    """What the judge is asked about."""
    contexts: tuple[str, ...]
    """The case's own; empty where the claim is an answer."""
    reference: str = ""
    """The right answer, where the claim is an answer; else empty."""

    @property
    def trace(self) -> Trace:
        """The canary as a case with the claim as its answer: judges are asked about it like any.

        The answer never counts as declined, however the claim reads: else the judge would not be
        asked.
        """
        # Not abstained however it reads, or the judge would not be asked.
        answer = GenerationResult(self.claim, abstained=False)
        retrieved = RetrievalResult(list(self.contexts))
        return Trace(
            case=Case(id=self.id, query=self.question, reference=self.reference or None),
            retrieval=Outcome(status=Status.MEASURED, value=retrieved),
            generation=Outcome(status=Status.MEASURED, value=answer),
        )


class _Source(NamedTuple):
    """A case that canaries can be made of."""

    id: str
    question: str
    contexts: tuple[str, ...]
    sentences: tuple[str, ...]
    """Those that are neither too short nor too long to be a claim."""


_POOL = 20
"""Cases that are kept for each canary that is wanted: not all of them can carry one."""
_WORDS = (5, 60)
"""The fewest and the most words of a sentence that is taken."""
_SHARED = 0.3
"""A foreign sentence shares less of its own words with the contexts: of those that do not stand in
most cases anyway."""
_FEWEST_OWN = 2
"""Such words that it has at least."""


def plant(traces: Iterable[Trace], count: int, *, seed: int = 0) -> list[Canary]:
    """Makes canaries (claims of known truth) of a run's own texts, for a judge of support.

    How often the judge is wrong about them shows how far its verdicts can be trusted. The same run
    and seed give the same canaries, as many of every kind.

    Args:
        count: how many canaries; fewer are made where the texts do not carry as many.
    """
    ranked = heapq.nsmallest(count * _POOL, _usable_sources(traces, seed), key=lambda item: item[0])
    sources = [source for _, source in ranked]
    # Words that most cases have say nothing about whose sentence it is.
    sources_by_word = Counter[str]()
    for source in sources:
        sources_by_word.update(_words_of(source.contexts))
    common: set[str] = set()
    for word, holders in sources_by_word.items():
        if 2 * holders > len(sources):
            common.add(word)
    count_of_kind = -(-count // len(CanaryKind))  # rounded up
    by_kind: list[list[Canary]] = []
    for kind in CanaryKind:
        by_kind.append(list(_canaries_of_kind(kind, sources, count_of_kind, frozenset(common))))
    return _mixed_by_kind(by_kind)[:count]


def _mixed_by_kind(by_kind: Sequence[Sequence[Canary]]) -> list[Canary]:
    """The canaries of all kinds in one list, one of each kind after the other.

    A cut of that list to a count then leaves about as many of each kind.
    """
    canaries: list[Canary] = []
    for turn in zip_longest(*by_kind):
        canaries.extend(canary for canary in turn if canary is not None)
    return canaries


def _draw_digest(case_id: str, seed: int) -> bytes:
    """The digest by which cases are drawn for canaries: those with the smallest digests are taken.

    By its id and the seed, a case is drawn wherever it is in the dataset. Another digest draws
    other canaries, so that judges are asked anew for a run that is repeated.
    """
    return blake2b(f"{seed} {case_id}".encode("utf-8", "replace")).digest()


def _usable_sources(traces: Iterable[Trace], seed: int) -> Iterator[tuple[bytes, _Source]]:
    """The cases of which a canary can be made, each with the digest by which cases are drawn.

    A case needs a context with a sentence that is neither too short nor too long to be a claim.
    """
    for trace in traces:
        result = trace.context.value
        if result is None:
            continue
        contexts = tuple(text for text in result.contexts if text.strip())
        sentences: list[str] = []
        for text in contexts:
            for span in split_sentences(text):
                # On one line, since it becomes a claim.
                sentence = " ".join(text[span.start : span.end].split())
                if _WORDS[0] <= len(multilingual_tokens(sentence)) <= _WORDS[1]:
                    sentences.append(sentence)
        if sentences:
            rank = _draw_digest(trace.case.id, seed)
            yield rank, _Source(trace.case.id, trace.case.query, contexts, tuple(sentences))


def _words_of(texts: Sequence[str]) -> set[str]:
    """The distinct words of all texts together.

    A sentence of another case is a false claim for sure only if it shares few words with the case's
    own contexts: this is what is compared.
    """
    words: set[str] = set()
    for text in texts:
        words.update(multilingual_tokens(text))
    return words


def _canaries_of_kind(
    kind: CanaryKind, sources: Sequence[_Source], count: int, common: frozenset[str]
) -> Iterator[Canary]:
    """Makes up to ``count`` canaries (claims of known truth) of one kind, at most one of each case.

    Cases that can carry none of the kind are passed over. A stored verdict on a canary holds while
    its id and text stay as they are: a change to the ids made here, or to which canaries get the
    instruction in a context and which in the claim, has judges asked anew.

    Args:
        sources: the cases, in the order in which they were drawn.
        common: words that most cases have, which do not show whose sentence it is.
    """
    missing = count
    for place, source in enumerate(sources):
        if not missing:
            return
        # The cases that follow in the draw; after the last one the first. A foreign sentence comes
        # from one of them, so that the same run gives the same canaries.
        neighbours: list[_Source] = []
        for step in range(1, min(_NEIGHBOURS + 1, len(sources))):
            neighbours.append(sources[(place + step) % len(sources)])
        claim = _claim_of_kind(kind, source, neighbours, common)
        if claim is None:
            continue
        missing -= 1
        contexts = source.contexts
        # By turns, counted by what is still missing: as many of both, wherever cases are passed
        # over.
        if kind is CanaryKind.INJECTED:
            # In turn the instruction stands in a context and in the claim itself.
            if missing % 2:
                contexts = (f"{contexts[0]}\n{INJECTION}", *contexts[1:])
            else:
                claim = f"{claim} {INJECTION}"
        yield Canary(f"{kind}: {source.id}", kind, source.question, claim, contexts)


_NEIGHBOURS = 7
"""Cases that a foreign sentence is looked for in."""


def _claim_of_kind(
    kind: CanaryKind, source: _Source, neighbours: Sequence[_Source], common: frozenset[str]
) -> str | None:
    """The claim of a canary of one kind, before any instruction; None where the case has none.

    A copied claim is the case's longest sentence; an altered one is a sentence with another number;
    any other is a sentence of a neighbour, whose own words the case's contexts hardly hold, so that
    they cannot support it.

    Args:
        neighbours: other cases, of which a foreign sentence may be taken.
        common: words that most cases have, which do not show whose sentence it is.
    """
    if kind is CanaryKind.COPIED:
        return max(source.sentences, key=len)
    if kind is CanaryKind.ALTERED:
        for sentence in source.sentences:
            altered = _with_other_number(sentence, source.contexts)
            if altered:
                return altered
        return None
    # A foreign sentence, whose own words the case's contexts hardly hold: they cannot support it.
    context_words = _words_of(source.contexts)
    for neighbour in neighbours:
        for sentence in neighbour.sentences:
            own_words = _words_of([sentence]) - common
            shared = len(own_words & context_words)
            if len(own_words) >= _FEWEST_OWN and shared < _SHARED * len(own_words):
                return sentence
    return None


_NUMBER = re.compile(r"(?<![\w.,])\d{1,4}(?![\w]|[.,]\d)")
"""A whole number of at most four digits, and no part of a longer one, a decimal or a name."""
_NUMBER_SHIFT = 37
"""By how much an altered number differs from the right one."""


def _with_other_number(sentence: str, contexts: Sequence[str]) -> str | None:
    """The sentence with another number, which makes it wrong; None where it may still be right.

    It may still be right where a context holds the other number or the changed sentence; a sentence
    without a number cannot be changed so. The shift and the four digits are arbitrary, but stored
    canaries and their verdicts hold for them alone.
    """
    # The first number alone is changed: one wrong number makes the claim wrong.
    match = _NUMBER.search(sentence)
    if match is None:
        return None
    number = int(match[0])
    # Of at most four digits, too.
    # From 1000 on it shrinks, so that 9990 does not become a number of five digits.
    if number >= 1000:
        other_number = str(number - _NUMBER_SHIFT)
    else:
        other_number = str(number + _NUMBER_SHIFT)
    changed = f"{sentence[: match.start()]}{other_number}{sentence[match.end() :]}"
    # As digits of their own: "37" in "1370" is another number.
    if any(re.search(rf"(?<!\d){other_number}(?!\d)", text) for text in contexts):
        return None
    if find_quote(changed, contexts) is not None:
        return None
    return changed


# --- answers beside a reference


def plant_answers(traces: Iterable[Trace], count: int, *, seed: int = 0) -> list[Canary]:
    """Makes canary answers (of known truth) of a run's own references, for a correctness judge.

    How often the judge is wrong about them shows how far its verdicts can be trusted. The same run
    and seed give the same canaries.

    Args:
        count: how many canaries; fewer are made where the references do not carry as many.
    """
    cases = (trace.case for trace in traces if trace.case.query and trace.case.references)
    drawn = heapq.nsmallest(count * _POOL, cases, key=lambda case: _draw_digest(case.id, seed))
    count_of_kind = -(-count // len(CanaryKind))  # rounded up
    by_kind: list[list[Canary]] = []
    for kind in CanaryKind:
        canaries: list[Canary] = []
        for place, case in enumerate(drawn):
            # In a small draw the case is its own neighbour: its answer shares all words, and is not
            # taken.
            neighbours = [drawn[(place + step) % len(drawn)] for step in range(1, _NEIGHBOURS + 1)]
            # Tried for every case, also when enough are made: only the first ones are kept.
            answer = _answer_of_kind(kind, case, neighbours)
            if answer is not None and len(canaries) < count_of_kind:
                id = f"{kind} answer: {case.id}"
                # No contexts: a judge of correctness compares the answer with the reference alone.
                canaries.append(Canary(id, kind, case.query, answer, (), case.references[0]))
        by_kind.append(canaries)
    return _mixed_by_kind(by_kind)[:count]


def _answer_of_kind(kind: CanaryKind, case: Case, neighbours: Sequence[Case]) -> str | None:
    """The answer of a canary of one kind, whose truth is known by the case's own reference.

    The reference itself is right; with another number, or taken from another case, it is wrong.
    None where the case can carry no canary of the kind.

    Args:
        neighbours: cases whose references are wrong answers to this one.
    """
    reference = case.references[0]
    if kind is CanaryKind.COPIED:
        return reference
    if kind is CanaryKind.ALTERED:
        return _with_other_number(reference, case.references)
    # The question's words as well: an answer made of them may be right by chance.
    own_words = _words_of([case.query, *case.references])
    for neighbour in neighbours:
        answer = neighbour.references[0]
        # An answer that shares a word with the right one, or the question, may be right as well.
        if not _words_of([answer]) & own_words:
            if kind is CanaryKind.INJECTED:
                return f"{answer} {ANSWER_INJECTION}"
            return answer
    return None


def _is_judged_wrong(kind: CanaryKind, cell: Cell) -> bool:
    """Whether a judge's value for a canary contradicts what is known of the claim: the judge erred.

    Only a copied claim is true, and should have more than half. Of an altered sentence a part may
    be supported: only calling all of it supported is wrong.
    """
    value = cell.value
    if value is None:  # a verdict without proof: of a true claim it is a miss
        return kind is CanaryKind.COPIED
    if kind is CanaryKind.COPIED:
        return value < 0.5
    if kind is CanaryKind.ALTERED:
        return value > 0.99  # all of it: shares are floats
    return value > 0.5


def plant_for(
    metrics: Sequence[Metric], traces: Callable[[], Iterable[Trace]], count: int, *, seed: int = 0
) -> list[Canary]:
    """Makes the canaries (claims of known truth) that a run's metrics can judge.

    None of a form that no metric judges: asking would cost, and show nothing.

    Args:
        metrics: the run's metrics, some of which may judge canaries.
        traces: gives the run's cases, anew at each call.
        count: how many claims beside contexts, and how many answers beside references.
        seed: of the draw of cases; the same seed gives the same canaries.
    """
    canaries: list[Canary] = []
    if any(reads_canaries(metric) for metric in metrics):
        canaries += plant(traces(), count, seed=seed)
    if any(reads_answer_canaries(metric) for metric in metrics):
        canaries += plant_answers(traces(), count, seed=seed)
    return canaries


def has_canaries(metric: Metric) -> bool:
    """Whether canaries (claims of known truth) can be made for a metric, to check its judge.

    Not where the metric judges something that no canary has.
    """
    return reads_canaries(metric) or reads_answer_canaries(metric)


def canaries_of(metric: Metric, canaries: Sequence[Canary]) -> list[Canary]:
    """The canaries that a metric can judge: answers beside a reference, or claims beside contexts.

    An empty list for a metric that asks no model, or needs something that no canary has.
    """
    if reads_answer_canaries(metric):
        return [canary for canary in canaries if canary.reference]
    if reads_canaries(metric):
        return [canary for canary in canaries if not canary.reference]
    return []


def judge_canaries(
    canaries: Sequence[Canary],
    metrics: Sequence[Metric],
    judging: Judging,
    folder: Path,
    *,
    run: Mapping[str, str],
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Has canaries (claims of known truth) judged by a run's metrics, and stores how they did.

    The report reads there how often each judge was wrong. A judge that has seen the same canaries
    in this run before is not asked again.

    Args:
        folder: the run's folder, where `canaries.json` is written.
        run: the run's fingerprints, by the name of the part: dataset, judge, rag.
        stopped: asked before each call; once true, no more are made.
    """
    jobs: list[tuple[Metric, Canary]] = []
    for metric in metrics:
        jobs.extend((metric, canary) for canary in canaries_of(metric, canaries))
    # By name, in the order of the jobs: a metric that can judge no canary has none.
    judged_metrics = {metric.name: metric for metric, _ in jobs}
    names = list(judged_metrics)
    # A claim that is worded otherwise, or another set of metrics, is judged anew.
    basis = fingerprint(([tuple(canary) for canary in canaries], names))
    stored = _read_stored(folder)
    if stored is not None and (stored.run, stored.basis) == (_run_key(run), basis):
        return
    plan = judging.plan(list(judged_metrics.values()))
    cells: dict[tuple[str, CanaryKind], list[Cell]] = defaultdict(list)

    # Batches come in any order; the counts below do not depend on it.
    for batch in judging.judged(jobs, partial(_judged_canary, plan), stopped):
        for (metric, canary), judged in batch:
            cells[metric.name, canary.kind].append(judged.cell)
    lines: list[CanaryLine] = []
    for name in names:
        for kind in CanaryKind:
            # A kind of which no canary could be made, or was judged before a stop, has no line.
            if cells[name, kind]:
                lines.append(_report_line(name, kind, cells[name, kind]))
    result = _Stored(_run_key(run), basis, tuple(lines))
    write_atomic(folder / CANARIES, json.format(json.encode(result)) + b"\n")


def _judged_canary(
    plan: JudgePlan, job: tuple[Metric, Canary], panel: ModelClients
) -> Awaitable[JudgedCell]:
    """Asks a metric's judge about a canary (a claim of known truth) as if it were a case's answer.

    Prompt, cache and panel are those of the run, so that the judge's errors on canaries are those
    that it makes on cases.
    """
    metric, canary = job
    return plan.judge(metric, canary.trace, panel)


def _report_line(metric: str, kind: CanaryKind, cells: Sequence[Cell]) -> CanaryLine:
    """The report's line on one metric's judge and one kind of canary: how many it called wrongly.

    A canary for which the judge failed has no verdict, and counts neither as right nor as wrong.
    """
    # UNPROVED is a verdict, too: the judge decided, and gave no quote that holds.
    verdicts = [cell for cell in cells if cell.status in (Status.MEASURED, Status.UNPROVED)]
    return CanaryLine(
        metric=metric,
        kind=kind.value,
        planted=len(cells),
        judged=len(verdicts),
        wrong=sum(_is_judged_wrong(kind, cell) for cell in verdicts),
        unproved=sum(cell.status is Status.UNPROVED for cell in verdicts),
    )


# --- in the run's folder

CANARIES = "canaries.json"
"""The file in a run's folder."""


def _run_key(run: Mapping[str, str]) -> dict[str, str | None]:
    """The fingerprints of a run on which the stored verdicts on canaries depend.

    A file of another dataset, judge or RAG has another key, and is not read: its canaries are other
    claims, or another judge's.
    """
    return {name: run.get(name) for name in ("dataset", "judge", "rag")}


class _Stored(Record, kw_only=False):
    """The file's content."""

    run: dict[str, str | None]
    basis: str
    """Fingerprint of the canaries and of the metrics that they were judged by."""
    lines: tuple[CanaryLine, ...]
    """What the report shows."""


def _read_stored(folder: Path) -> _Stored | None:
    """What the run's folder keeps of its canaries and how they were judged.

    None where there is no file, or a broken one: then the canaries are judged anew.
    """
    with suppress(Exception):  # whatever is wrong with it, they are asked anew
        return json.decode((folder / CANARIES).read_bytes(), type=_Stored)
    return None


def read_canaries(folder: Path, run: Mapping[str, str]) -> tuple[CanaryLine, ...]:
    """How a run's judge did on its canaries, a line for each metric and kind, for the report.

    Nothing where the file is of another dataset, judge or RAG: its lines would be about another
    judge.
    """
    stored = _read_stored(folder)
    if stored is None or stored.run != _run_key(run):
        return ()
    return stored.lines
