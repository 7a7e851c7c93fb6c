"""Faults of a RAG, and of a dataset, that make numbers wrong without an error.

An evaluation cannot see those of a RAG: results of a batch in another order, an answer that does
not come from the contexts that generation was given, a top_k that nobody heeds. Those of a dataset
are put down to every system alike: a question that is asked twice, with two answers; a text whose
letters were broken on the way; a reference that its own passage lacks.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.core.outcome import Failure
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.metrics.abstention import abstained
from ragbench.metrics.answer import holds_answer, is_telling
from ragbench.metrics.matching import Matching, normalised
from ragbench.safe_text import shortened_line
from ragbench.stages.call_stage import CallStage
from ragbench.stages.corpus_gold import corpus_gold
from ragbench.stages.rag import RAG, generate_stage, retrieve_stage
from ragbench.text.declining import read_answer
from ragbench.text.tokens import multilingual_tokens

_OTHER = "Which of these was built first, and by whom?"
_FOREIGN = "The harbour master counted forty-one blue boats before noon."


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    name: str
    holds: bool | None
    """None where it is unknown."""
    detail: str
    """What was found, and what follows for the numbers where it does not hold."""


async def probe_retrieval(rag: RAG, question: str) -> AsyncIterator[Probe]:
    """Tries retrieval: the same twice, the same in a batch, no more than asked for. Five calls."""
    stage = retrieve_stage(rag, b"", None)
    try:
        (first,), (again,), (other,) = [
            await _put(stage, [query]) for query in (question, question, _OTHER)
        ]
        together = await _put(stage, [question, _OTHER])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        yield _broken("retrieval again", error, stage)
        return
    found = [_ranked(result) for result in (first, again, other, *together)]
    yield _repetition("retrieval", found[0] == found[1])
    yield _in_batch("retrieval", found)
    if len(first.contexts) > 1:
        yield await _heeds_top_k(rag, question)


async def probe_generation(
    rag: RAG, question: str, contexts: Sequence[str]
) -> AsyncIterator[Probe]:
    """Tries generation: the same twice, in a batch, and whether contexts are used. Five calls."""
    stage = generate_stage(rag, b"")
    foreign = [_FOREIGN] * max(1, len(contexts))
    one, two = (question, list(contexts)), (_OTHER, foreign)
    try:
        (first,), (again,), (unfounded,), (other,) = [
            await _put(stage, [each]) for each in (one, one, (question, foreign), two)
        ]
        together = await _put(stage, [one, two])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        yield _broken("generation again", error, stage)
        return
    said = [result.response for result in (first, again, other, *together)]
    yield _repetition("generation", said[0] == said[1])
    yield _in_batch("generation", said)
    yield _uses_contexts(first, unfounded)


async def _put(stage: CallStage[Any, Any], inputs: Sequence[Any]) -> list[Any]:
    if stage.call is not None:
        return list(stage.call(inputs))
    if stage.call_async is not None:
        return list(await stage.call_async(inputs))
    return []


def _ranked(result: RetrievalResult[Any]) -> tuple[object, ...]:
    return tuple(result.contexts), result.context_ids and tuple(result.context_ids)


def _broken(name: str, error: Exception, stage: CallStage[Any, Any]) -> Probe:
    failure = Failure.of(error, stage=stage.name)
    return Probe(
        name=name, holds=False, detail=f"asked again, or for two at once, it raises: {failure}"
    )


def _repetition(what: str, same: bool) -> Probe:
    return Probe(
        name=f"{what} repeats",
        holds=same,
        detail="the same when asked twice"
        if same
        else "asked twice it gives two results: eval --rag-repeats measures how much that moves "
        "the scores",
    )


def _in_batch(what: str, results: Sequence[object]) -> Probe:
    """Two questions alone and in one batch: first, first again, second, then both together."""
    first, again, second, *together = results
    name = f"{what} in batches"
    if together == [first, second]:
        return Probe(name=name, holds=True, detail="the same alone and in a batch of two")
    if together == [second, first]:
        detail = (
            "in a batch of two each question gets the other's result: results must come in the "
            "order of the queries"
        )
        return Probe(name=name, holds=False, detail=detail)
    if first != again:
        return Probe(name=name, holds=None, detail="unknown: it varies by itself")
    detail = (
        "a question gets another result in a batch than alone: what it is asked beside changes "
        "its score, and so does --batch-size"
    )
    return Probe(name=name, holds=False, detail=detail)


async def _heeds_top_k(rag: RAG, question: str) -> Probe:
    name = "retrieval top_k"
    try:
        (found,) = await _put(retrieve_stage(rag, b"", 1), [question])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        failure = Failure.of(error, stage="retrieve")
        return Probe(name=name, holds=None, detail=f"asked for 1 context it raises: {failure}")
    count = len(found.contexts)
    if count <= 1:
        return Probe(name=name, holds=True, detail="asked for 1 context it gives no more")
    detail = f"asked for 1 context it gives {count}: --top-k changes nothing"
    return Probe(name=name, holds=False, detail=detail)


def _uses_contexts(first: GenerationResult[Any], unfounded: GenerationResult[Any]) -> Probe:
    name = "generation reads"
    if first.response != unfounded.response:
        detail = "with other contexts it answers something else"
        return Probe(name=name, holds=True, detail=detail)
    if abstained(first):
        return Probe(name=name, holds=None, detail="unknown: it declined the question")
    detail = (
        "its answer is the same with contexts of something else: it does not come from the "
        "contexts that generation is given, so faithfulness, causes, reranking and ablate say "
        "nothing of it"
    )
    return Probe(name=name, holds=False, detail=detail)


_SHORT = 6
"""Tokens up to which a reference is expected to stand in its gold as it is."""
_FEW = 0.05
"""Share of such references that may be in other words before it is a doubt."""
_SHOWN = 3
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
_PLACEHOLDERS = frozenset({"todo", "tbd", "fixme", "xxx", "placeholder", "lorem ipsum", "answer"})


def probe_dataset(
    cases: Iterable[Case], documents: Sequence[Document] | None = None
) -> tuple[Probe, ...]:
    """Looks for what would be scored wrongly whatever a system does."""
    every = list(cases)
    found = [_questions(every), _repeats(every), _letters(every), _references(every)]
    found += [_gold(every), _answerable(every)]
    if documents is not None:
        found.append(_documents(every, documents))
    return tuple(found)


@dataclass(slots=True)
class _Faulty:
    """Ids of the cases in which something is wrong, with what is shown of the first."""

    ids: list[str]
    example: str = ""

    def add(self, case: Case, example: str) -> None:
        self.example = self.example or shortened_line(example)
        self.ids.append(case.id)

    def probe(self, name: str, good: str, bad: str, *, least: float = 0.0) -> Probe:
        if not self.ids:
            return Probe(name=name, holds=True, detail=good)
        ending = "s" if len(self.ids) == 1 else ""
        detail = bad.format(cases=_named(self.ids), example=self.example, s=ending)
        return Probe(name=name, holds=len(self.ids) <= least, detail=detail)


def _named(ids: Collection[str]) -> str:
    shown = ", ".join(list(ids)[:_SHOWN])
    more = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
    return f"{len(ids):,} case{'' if len(ids) == 1 else 's'} ({shown}{more})"


def _asked(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """The cases of each question, in the order in which it was first asked."""
    together: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        before = repr(case.metadata.get("history"))  # of a conversation
        together.setdefault((normalised(case.query), before), []).append(case)
    return iter(together.values())


def _answers(case: Case) -> frozenset[tuple[str, ...]]:
    return frozenset(map(multilingual_tokens, case.references))


def _questions(cases: Sequence[Case]) -> Probe:
    faulty = _Faulty([])
    for same in _asked(cases):
        first, known = same[0], _answers(same[0])
        for case in same[1:]:
            if known and _answers(case) and known.isdisjoint(_answers(case)):
                faulty.add(case, f"'{case.references[0]}'; {first.id}: '{first.references[0]}'")
    return faulty.probe(
        "data questions",
        "no question has two answers",
        "{cases} ask{s} what another one asks, with other references ({example}): an answer is "
        "wrong by one of the two.",
    )


def _repeats(cases: Sequence[Case]) -> Probe:
    faulty = _Faulty([])
    for same in _asked(cases):
        first = same[0]
        for case in same[1:]:
            known, other = _answers(first), _answers(case)
            alike = known == other or not known.isdisjoint(other)
            apart = case.cluster is None or case.cluster != first.cluster
            if alike and apart:
                faulty.add(case, f"as {first.id}: {first.query}")
    return faulty.probe(
        "data repeats",
        "no case stands there twice",
        "{cases} repeat{s} another one ({example}): they count as observations of their own, so "
        "that intervals are too narrow. Leave them out, or give them one `cluster`.",
    )


def _texts(case: Case) -> list[str]:
    spans = [one.text for one in case.evidence]
    return [case.query, *case.references, *(case.reference_contexts or ()), *spans]


def _broken_word(text: str) -> str | None:
    """The first word that is UTF-8 read as another encoding, or has an HTML entity."""
    if (entity := _ENTITY.search(text)) is not None:
        return entity[0]
    for word in () if text.isascii() else text.split():
        if not word.isascii() and _repaired(word) not in (None, word):
            return word
    return None


def _repaired(word: str) -> str | None:
    try:
        return word.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return None


def _letters(cases: Sequence[Case]) -> Probe:
    faulty = _Faulty([])
    for case in cases:
        broken = next((word for text in _texts(case) if (word := _broken_word(text))), None)
        if broken is not None:
            meant = unescape(broken) if broken.startswith("&") else _repaired(broken) or ""
            right = f"'{meant}'" if meant.strip() else "a space"
            faulty.add(case, f"'{broken}' where {right} is meant")
    return faulty.probe(
        "data letters",
        "no text has broken letters",
        "{cases} with letters that were broken on the way ({example}): answers and passages in "
        "right ones do not equal them.",
    )


def _references(cases: Sequence[Case]) -> Probe:
    faulty = _Faulty([])
    for case in cases:
        asked = multilingual_tokens(case.query)
        for text in case.references:
            words = multilingual_tokens(text)
            if " ".join(words) in _PLACEHOLDERS or not words or words == asked:
                faulty.add(case, f"'{text}'")
                break
    return faulty.probe(
        "data references",
        "every reference looks like one",
        "{cases} with a placeholder, the question or no word for a reference ({example}): every "
        "answer to them is scored as wrong.",
    )


def _gold(cases: Sequence[Case]) -> Probe:
    faulty, looked = _Faulty([]), 0
    for case in cases:
        passages = [normalised(text) for text in case.reference_contexts or ()]
        short = [normalised(text) for text in case.references]
        if not passages or not short or not all(map(_is_quoted, short)):
            continue
        looked += 1
        if not any(holds_answer(passage, text) for passage in passages for text in short):
            faulty.add(case, f"'{case.references[0]}'")
    many = f"{looked:,} short references"
    return faulty.probe(
        "data gold",
        f"each of {many} stands in a gold text" if looked else "no short reference beside a text",
        f"of {many} with gold texts, those of {{cases}} stand in none ({{example}}): said in other "
        "words there, or not there at all, and then retrieval is scored by the wrong passage.",
        least=_FEW * looked,
    )


def _is_quoted(answer: str) -> bool:
    """Whether an answer is expected to stand in its gold word for word."""
    return is_telling(answer) and len(multilingual_tokens(answer)) <= _SHORT


def _answerable(cases: Sequence[Case]) -> Probe:
    faulty = _Faulty([])
    for case in cases:
        answers = [text for text in case.references if not read_answer(text).declines]
        if case.answerable is False and answers:
            faulty.add(case, f"{case.id} is unanswerable and has the reference '{answers[0]}'")
        elif case.answerable and case.references and not answers:
            faulty.add(case, f"{case.id} is answerable and its reference declines")
    return faulty.probe(
        "data answerable",
        "no case contradicts its own `answerable`",
        "{cases} contradict{s} their own `answerable` ({example}): declining is scored against one "
        "of the two.",
    )


def _documents(cases: Sequence[Case], documents: Sequence[Document]) -> Probe:
    absent = corpus_gold(cases, documents, Matching.AUTO).absent
    faulty = _Faulty([])
    for case in cases:
        if case.id in absent:
            faulty.add(case, f"'{absent[case.id][0][:60]}'")
    return faulty.probe(
        "data documents",
        f"the {len(documents):,} documents hold the gold, as far as it could be looked for",
        f"the gold of {{cases}} is in none of the {len(documents):,} documents ({{example}}): no "
        "retrieval can find it.",
    )
