"""Faults of a RAG, and of a dataset, that make numbers wrong without an error.

An evaluation cannot see those of a RAG: results of a batch in another order, an answer that does
not come from the contexts that generation was given, a top_k that nobody heeds. Those of a dataset
are put down to every system alike: a question that is asked twice, with two answers; a text whose
letters were broken on the way; a reference that its own passage lacks.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from html import unescape
from itertools import chain
from typing import Any, NamedTuple

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.core.outcome import Failure
from ragbench.metrics.answer import abstained, holds_answer, is_telling
from ragbench.metrics.matching import Matching, normalised
from ragbench.rag.parts import AdaptedRAG
from ragbench.safe_text import as_line, counted, shortened_line
from ragbench.stages.call_stage import CallStage
from ragbench.stages.corpus_gold import corpus_gold
from ragbench.stages.rag import RAG, GenerateInput, generate_stage, retrieve_stage
from ragbench.text.declining import read_answer
from ragbench.text.tokens import multilingual_tokens

_OTHER = "Which of these was built first, and by whom?"
_FOREIGN = "The harbour master counted forty-one blue boats before noon."


class Probe(NamedTuple):
    name: str
    holds: bool | None
    """None where it is unknown."""
    detail: str
    """What was found, and what follows for the numbers where it does not hold."""


async def probe_retrieval(rag: RAG, question: str) -> AsyncIterator[Probe]:
    """Tries retrieval: the same twice, the same in a batch, no more than asked for. Five calls."""
    stage = retrieve_stage(rag, b"", None)
    try:
        asked = [await called(stage, [(one, [])]) for one in (question, question, _OTHER)]
        found = [*chain(*asked), *await called(stage, [(question, []), (_OTHER, [])])]
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        yield _broken("retrieval again", error, stage)
        return
    ranked = [(tuple(one.contexts), one.context_ids and tuple(one.context_ids)) for one in found]
    for probe in _alike("retrieval", ranked):
        yield probe
    if len(found[0].contexts) > 1:
        yield await _heeds_top_k(rag, question)


async def probe_generation(
    rag: RAG, question: str, contexts: Sequence[str]
) -> AsyncIterator[Probe]:
    """Tries generation: the same twice, in a batch, and whether contexts are used. Five calls."""
    stage = generate_stage(rag, b"")
    foreign = [_FOREIGN] * max(1, len(contexts))
    one: GenerateInput = (question, list(contexts), [])
    unfit: GenerateInput = (question, foreign, [])
    two: GenerateInput = (_OTHER, foreign, [])
    try:
        asked = [await called(stage, [each]) for each in (one, one, unfit, two)]
        (first,), (again,), (unfounded,), (other,) = asked
        together = await called(stage, [one, two])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        yield _broken("generation again", error, stage)
        return
    for probe in _alike("generation", [r.response for r in (first, again, other, *together)]):
        yield probe
    if first.response != unfounded.response:
        yield Probe("generation reads", True, "with other contexts it answers something else")
    elif abstained(first):
        yield Probe("generation reads", None, "it declined the question")
    elif isinstance(rag, AdaptedRAG) and rag.answers_in_one_call:
        yield Probe("generation reads", None, "it retrieves and answers in one call")
    else:
        detail = (
            "its answer is the same with contexts of something else: it does not come from the "
            "contexts that generation is given, so faithfulness, causes, reranking and ablate say "
            "nothing of it"
        )
        yield Probe("generation reads", False, detail)


async def called(stage: CallStage[Any, Any], inputs: Sequence[Any]) -> list[Any]:
    """What a stage gives for some inputs, beside any run."""
    if stage.call_async is not None:
        return list(await stage.call_async(inputs))
    return [] if stage.call is None else list(stage.call(inputs))


def _broken(name: str, error: Exception, stage: CallStage[Any, Any]) -> Probe:
    failure = Failure.of(error, stage=stage.name)
    return Probe(name, False, f"asked again, or for two at once, it raises: {failure}")


def _alike(what: str, results: Sequence[object]) -> Iterator[Probe]:
    """Two questions alone and in one batch: first, first again, second, then both together."""
    first, again, second, *together = results
    is_steady, detail = first == again, "the same when asked twice"
    moves = "eval --rag-repeats measures how much that moves the scores"
    twice = detail if is_steady else f"asked twice it gives two results: {moves}"
    yield Probe(f"{what} repeats", is_steady, twice)
    holds: bool | None = False
    if together == [first, second]:
        holds, detail = True, "the same alone and in a batch of two"
    elif together == [second, first]:
        detail = (
            "in a batch of two each question gets the other's result: results must come in the "
            "order of the queries"
        )
    elif not is_steady:
        holds, detail = None, "it varies by itself"
    else:
        detail = (
            "a question gets another result in a batch than alone: what it is asked beside changes "
            "its score, and so does --batch-size"
        )
    yield Probe(f"{what} in batches", holds, detail)


async def _heeds_top_k(rag: RAG, question: str) -> Probe:
    name = "retrieval top_k"
    try:
        (found,) = await called(retrieve_stage(rag, b"", 1), [(question, [])])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        failure = Failure.of(error, stage="retrieve")
        return Probe(name, None, f"asked for 1 context it raises: {failure}")
    count = len(found.contexts)
    if count <= 1:
        return Probe(name, True, "asked for 1 context it gives no more")
    return Probe(name, False, f"asked for 1 context it gives {count}: --top-k changes nothing")


_SHORT = 6
"""Tokens up to which a reference is expected to stand in its gold as it is."""
_FEW = 0.05
"""Share of such references that may be in other words before it is a doubt."""
_SHOWN = 3
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
_PLACEHOLDERS = frozenset({"todo", "tbd", "fixme", "xxx", "placeholder", "lorem ipsum", "answer"})


_Faults = Iterator[tuple[str, str]]
"""Ids of the cases in which something is wrong, each with what is shown if it is the first."""


def probe_dataset(
    cases: Iterable[Case], documents: Sequence[Document] | None = None
) -> tuple[Probe, ...]:
    """Looks for what would be scored wrongly whatever a system does."""
    every = list(cases)
    found = [_of_data(name, look(every), *words) for name, look, *words in _LOOKED_FOR]
    found.insert(4, _gold(every))
    if documents is not None:
        absent = corpus_gold(every, documents, Matching.AUTO).absent
        many = f"the {len(documents):,} documents"
        found.append(
            _of_data(
                "documents",
                ((one.id, f"'{absent[one.id][0][:60]}'") for one in every if one.id in absent),
                f"{many} hold the gold, as far as it could be looked for",
                f"the gold of {{cases}} is in none of {many} ({{example}}): no retrieval can find "
                "it.",
            )
        )
    return tuple(found)


def _of_data(name: str, faults: _Faults, good: str, bad: str, *, least: float = 0.0) -> Probe:
    """Holds where no more cases are at fault than ``least``."""
    found = list(faults)
    if not found:
        return Probe(f"data {name}", True, good)
    ids = [id for id, _ in found]
    detail = bad.format(
        cases=f"{counted(len(ids), 'case')} ({as_line(ids, _SHOWN)})",
        example=shortened_line(found[0][1]),
        s="s" if len(ids) == 1 else "",
    )
    return Probe(f"data {name}", len(ids) <= least, detail)


def _asked_again(cases: Iterable[Case]) -> Iterator[tuple[Case, Case]]:
    """Cases whose question another one asks first, behind that one, a question at a time."""
    together: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        before = repr(case.metadata.get("history"))  # of a conversation
        together.setdefault((normalised(case.query), before), []).append(case)
    return ((first, case) for first, *others in together.values() for case in others)


def _answers(case: Case) -> frozenset[tuple[str, ...]]:
    return frozenset(map(multilingual_tokens, case.references))


def _two_answers(cases: Sequence[Case]) -> _Faults:
    for first, case in _asked_again(cases):
        known, others = _answers(first), _answers(case)
        if known and others and known.isdisjoint(others):
            yield case.id, f"'{case.references[0]}'; {first.id}: '{first.references[0]}'"


def _repeats(cases: Sequence[Case]) -> _Faults:
    for first, case in _asked_again(cases):
        known, others = _answers(first), _answers(case)
        is_alike = known == others or not known.isdisjoint(others)
        if is_alike and (case.cluster is None or case.cluster != first.cluster):
            yield case.id, f"as {first.id}: {first.query}"


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


def _broken_letters(cases: Sequence[Case]) -> _Faults:
    for case in cases:
        spans = [one.text for one in case.evidence]
        texts = [case.query, *case.references, *(case.reference_contexts or ()), *spans]
        broken = next(filter(None, map(_broken_word, texts)), None)
        if broken is not None:
            meant = unescape(broken) if broken.startswith("&") else _repaired(broken) or ""
            right = f"'{meant}'" if meant.strip() else "a space"
            yield case.id, f"'{broken}' where {right} is meant"


def _placeholders(cases: Sequence[Case]) -> _Faults:
    for case in cases:
        asked = multilingual_tokens(case.query)
        for text in case.references:
            words = multilingual_tokens(text)
            if " ".join(words) in _PLACEHOLDERS or not words or words == asked:
                yield case.id, f"'{text}'"
                break


def _gold(cases: Sequence[Case]) -> Probe:
    faults: list[tuple[str, str]] = []
    looked = 0
    for case in cases:
        passages = [normalised(text) for text in case.reference_contexts or ()]
        short = [normalised(text) for text in case.references]
        if not passages or not short or not all(map(_is_quoted, short)):
            continue
        looked += 1
        if not any(holds_answer(passage, text) for passage in passages for text in short):
            faults.append((case.id, f"'{case.references[0]}'"))
    many = f"{looked:,} short references"
    return _of_data(
        "gold",
        iter(faults),
        f"each of {many} stands in a gold text" if looked else "no short reference beside a text",
        f"of {many} with gold texts, those of {{cases}} stand in none ({{example}}): said in other "
        "words there, or not there at all, and then retrieval is scored by the wrong passage.",
        least=_FEW * looked,
    )


def _is_quoted(answer: str) -> bool:
    """Whether an answer is expected to stand in its gold word for word."""
    return is_telling(answer) and len(multilingual_tokens(answer)) <= _SHORT


def _contradicting(cases: Sequence[Case]) -> _Faults:
    for case in cases:
        answers = [text for text in case.references if not read_answer(text).declines]
        if case.answerable is False and answers:
            yield case.id, f"{case.id} is unanswerable and has the reference '{answers[0]}'"
        elif case.answerable and case.references and not answers:
            yield case.id, f"{case.id} is answerable and its reference declines"


_LOOKED_FOR = (
    (
        "questions", _two_answers, "no question has two answers",
        "{cases} ask{s} what another one asks, with other references ({example}): an answer is "
        "wrong by one of the two.",
    ),
    (
        "repeats", _repeats, "no case stands there twice",
        "{cases} repeat{s} another one ({example}): they count as observations of their own, "
        "so that intervals are too narrow. Leave them out, or give them one `cluster`.",
    ),
    (
        "letters", _broken_letters, "no text has broken letters",
        "{cases} with letters that were broken on the way ({example}): answers and passages in "
        "right ones do not equal them.",
    ),
    (
        "references", _placeholders, "every reference looks like one",
        "{cases} with a placeholder, the question or no word for a reference ({example}): "
        "every answer to them is scored as wrong.",
    ),
    (
        "answerable", _contradicting, "no case contradicts its own `answerable`",
        "{cases} contradict{s} their own `answerable` ({example}): declining is scored against "
        "one of the two.",
    ),
)  # fmt: skip
"""What is looked for in the cases: a name, what finds it, what is said of none and of some."""
