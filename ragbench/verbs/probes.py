"""Faults of a RAG, and of a dataset, that make numbers wrong without an error.

An evaluation cannot see those of a RAG: results of a batch in another order, an answer that does
not come from the contexts that generation was given, a top_k that nobody heeds. Those of a dataset
are put down to every system alike: a question that is asked twice, with two answers; a text whose
letters were broken on the way; a reference that its own passage lacks.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from html import unescape
from itertools import product
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
"""A second question, for calls that need two."""
_FOREIGN = "The harbour master counted forty-one blue boats before noon."
"""A context that answers no question."""


class Probe(NamedTuple):
    """What was tried of a RAG or looked for in a dataset, and what came of it."""

    name: str
    holds: bool | None
    """None where it is unknown."""
    detail: str
    """What was found, and what follows for the numbers where it does not hold."""


async def probe_retrieval(rag: RAG, question: str) -> AsyncIterator[Probe]:
    """Tries a RAG's retrieval for faults that no score shows: five calls, some probes.

    The same question twice, the same in a batch with another, and one chunk where one is asked for.
    """
    stage = retrieve_stage(rag, b"", None)
    results: list[Any] = []
    try:
        for query in (question, question, _OTHER):
            # The first question twice, then the other, then both in a batch: `_probes_of_repeats`
            # knows this order.
            results += await called(stage, [(query, [])])
        results += await called(stage, [(question, []), (_OTHER, [])])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        yield _probe_of_error("retrieval again", error, stage)
        return
    rankings: list[object] = []
    for result in results:
        # As tuples, so that a list equals a tuple with the same texts.
        ids = result.context_ids and tuple(result.context_ids)
        rankings.append((tuple(result.contexts), ids))
    for probe in _probes_of_repeats("retrieval", rankings):
        yield probe
    # With a single chunk there is nothing that a smaller top_k could leave out.
    if len(results[0].contexts) > 1:
        yield await _probe_of_top_k(rag, question)


async def probe_generation(
    rag: RAG, question: str, contexts: Sequence[str]
) -> AsyncIterator[Probe]:
    """Tries a RAG's generation for faults that no score shows: five calls, some probes.

    The same question twice, the same in a batch with another, and whether other contexts change the
    answer.
    """
    stage = generate_stage(rag, b"")
    # As many as the question's own, so that only their content differs.
    foreign = [_FOREIGN] * max(1, len(contexts))
    own_input: GenerateInput = (question, list(contexts), [])
    foreign_input: GenerateInput = (question, foreign, [])
    other_input: GenerateInput = (_OTHER, foreign, [])
    try:
        (answer,) = await called(stage, [own_input])
        (repeated,) = await called(stage, [own_input])
        (unfounded,) = await called(stage, [foreign_input])
        (second_answer,) = await called(stage, [other_input])
        together = await called(stage, [own_input, other_input])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        yield _probe_of_error("generation again", error, stage)
        return
    answers = (answer, repeated, second_answer, *together)
    for probe in _probes_of_repeats("generation", [result.response for result in answers]):
        yield probe
    if answer.response != unfounded.response:
        yield Probe("generation reads", True, "with other contexts it answers something else")
    elif abstained(answer):
        # An abstention has no content that could come from contexts.
        yield Probe("generation reads", None, "it declined the question")
    elif isinstance(rag, AdaptedRAG) and rag.answers_its_own_contexts_alone:
        # A system that retrieves and answers in one call reads its own contexts, by design.
        yield Probe("generation reads", None, "it retrieves and answers in one call")
    else:
        detail = (
            "its answer is the same with contexts of something else: it does not come from the "
            "contexts that generation is given, so faithfulness, causes, reranking and ablate say "
            "nothing of it"
        )
        yield Probe("generation reads", False, detail)


async def called(stage: CallStage[Any, Any], inputs: Sequence[Any]) -> list[Any]:
    """The results of a stage for some inputs, without a run around it that would store them.

    Probes try a RAG by the same calls as a run, plain or coroutines.
    """
    # Coroutines or plain calls: a stage has one of the two.
    if stage.call_async is not None:
        return list(await stage.call_async(inputs))
    if stage.call is None:
        return []
    return list(stage.call(inputs))


def _probe_of_error(name: str, error: Exception, stage: CallStage[Any, Any]) -> Probe:
    """The failed probe (finding) for a RAG that raises when asked again, or for two at once.

    The RAG has answered once before, so that only a probe shows this fault.
    """
    failure = Failure.of(error, stage=stage.name)
    return Probe(name, False, f"asked again, or for two at once, it raises: {failure}")


def _probes_of_repeats(call: str, results: Sequence[object]) -> Iterator[Probe]:
    """Two probes: whether a call gives the same result again, and the same result in a batch.

    Results that vary, or that a batch mixes up, make scores wrong without an error.

    Args:
        call: the name of the call, "retrieval" or "generation".
        results: those for a question, the same again, another question; then both in one batch.
    """
    # Two results of the batch, in its order.
    alone, repeated, second_alone, *together = results
    is_steady = alone == repeated
    if is_steady:
        detail = "the same when asked twice"
    else:
        detail = (
            "asked twice it gives two results: eval --rag-repeats measures how much that moves "
            "the scores"
        )
    yield Probe(f"{call} repeats", is_steady, detail)

    holds: bool | None = False
    if together == [alone, second_alone]:
        holds = True
        detail = "the same alone and in a batch of two"
    elif together == [second_alone, alone]:
        detail = (
            "in a batch of two each question gets the other's result: results must come in the "
            "order of the queries"
        )
    elif not is_steady:
        holds = None
        detail = "it varies by itself"
    else:
        detail = (
            "a question gets another result in a batch than alone: what it is asked beside changes "
            "its score, and so does --batch-size"
        )
    yield Probe(f"{call} in batches", holds, detail)


async def _probe_of_top_k(rag: RAG, question: str) -> Probe:
    """The probe for whether a RAG that is asked for one context gives no more.

    If it gives more, evaluations with different values of --top-k compare nothing.
    """
    # A stage of its own: top_k is a setting of the stage.
    name = "retrieval top_k"
    try:
        (result,) = await called(retrieve_stage(rag, b"", 1), [(question, [])])
    except Exception as error:  # noqa: BLE001  # a user's code may raise anything
        failure = Failure.of(error, stage="retrieve")
        return Probe(name, None, f"asked for 1 context it raises: {failure}")
    count = len(result.contexts)
    if count <= 1:
        return Probe(name, True, "asked for 1 context it gives no more")
    return Probe(name, False, f"asked for 1 context it gives {count}: --top-k changes nothing")


# --- faults of a dataset

_SHORT = 6
"""Tokens up to which a reference is expected to stand in its gold as it is."""
_FEW = 0.05
"""Share of such references that may be in other words before it is a doubt."""
_SHOWN = 3
"""Ids of cases that are listed for a fault."""
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
_PLACEHOLDERS = frozenset({"todo", "tbd", "fixme", "xxx", "placeholder", "lorem ipsum", "answer"})

_Faults = Iterator[tuple[str, str]]
"""Ids of the cases in which something is wrong, each with what is shown if it is the first."""


def probe_dataset(
    cases: Iterable[Case], documents: Sequence[Document] | None = None
) -> tuple[Probe, ...]:
    """Looks for faults of a dataset that are scored wrongly whatever a system does.

    The order of the probes (one finding each) is that of the report.

    Args:
        documents: the corpus, in which the gold is looked for; None leaves that out.
    """
    # A list, since several looks go through the cases.
    cases = list(cases)
    probes: list[Probe] = []
    for look in _LOOKED_FOR:
        faults = look.faults(cases)
        probes.append(_probe_of_faults(look.name, faults, look.good, look.bad))
    probes.insert(4, _probe_of_gold(cases))  # where it is beside the probe of references
    if documents is not None:
        probes.append(_probe_of_corpus(cases, documents))
    return tuple(probes)


def _probe_of_corpus(cases: Sequence[Case], documents: Sequence[Document]) -> Probe:
    """The probe (finding) on whether the documents hold the gold of each case.

    No retrieval can find gold that no document holds: such a case is lost for every system.
    """
    absent = corpus_gold(cases, documents, Matching.AUTO).absent
    faults: list[tuple[str, str]] = []
    for case in cases:
        if case.id in absent:
            first_gold = absent[case.id][0]
            faults.append((case.id, f"'{first_gold[:60]}'"))  # 60 characters show which it is
    corpus = f"the {counted(len(documents), 'document')}"
    return _probe_of_faults(
        "documents",
        faults,
        f"the gold is in {corpus}, as far as it could be looked for",
        f"the gold of {{cases}} is not in {corpus} ({{example}}): no retrieval can find it.",
    )


def _probe_of_faults(
    name: str, faults: Iterable[tuple[str, str]], good: str, bad: str, *, least: float = 0.0
) -> Probe:
    """The probe of one kind of fault in a dataset, with the cases that have it and an example.

    The probe counts as passed where no more cases are at fault than ``least``.

    Args:
        faults: the id of each case with the fault, and what is wrong in it.
        good: the probe's sentence where there is no fault.
        bad: the sentence where there are some, with ``{cases}``, ``{example}`` and the ending
            ``{s}``.
        least: so many cases with the fault are no reason to fail: they may be right after all.
    """
    faults = list(faults)
    if not faults:
        return Probe(f"data {name}", True, good)
    ids = [id for id, _ in faults]
    _, example = faults[0]
    detail = bad.format(
        cases=f"{counted(len(ids), 'case')} ({as_line(ids, _SHOWN)})",
        example=shortened_line(example),
        s="s" if len(ids) == 1 else "",
    )
    return Probe(f"data {name}", len(ids) <= least, detail)


def _repeated_questions(cases: Iterable[Case]) -> Iterator[tuple[Case, Case]]:
    """Pairs of an earlier case and a later one with the same question, question by question.

    Repeated questions are faults by their answers: the same, or contradicting ones.
    """
    by_question: dict[str, list[Case]] = {}
    for case in cases:
        # The turns before it make the same words another question of a conversation.
        question = normalised(case.conversation)
        by_question.setdefault(question, []).append(case)
    # The earliest is compared with each later one; later ones not with each other.
    for earliest, *repeats in by_question.values():
        for case in repeats:
            yield earliest, case


def _answer_words(case: Case) -> frozenset[tuple[str, ...]]:
    """The references of a case as words: two cases have the same answer where one is in both.

    Case and punctuation make no other answer.
    """
    return frozenset(map(multilingual_tokens, case.references))


def _cases_with_two_answers(cases: Sequence[Case]) -> _Faults:
    """The cases with a question that an earlier case has, and with none of its answers: a fault.

    Any answer is wrong by one of the two.
    """
    for earliest, case in _repeated_questions(cases):
        answers_before = _answer_words(earliest)
        answers = _answer_words(case)
        # One answer in common is enough: others may be further ways to say it.
        both_answer = bool(answers_before) and bool(answers)
        if both_answer and answers_before.isdisjoint(answers):
            yield case.id, f"'{case.references[0]}'; {earliest.id}: '{earliest.references[0]}'"


def _repeated_cases(cases: Sequence[Case]) -> _Faults:
    """The cases that an earlier case has already, question and answer: a fault.

    Repeated cases count as independent observations, which makes intervals too narrow. Cases of one
    cluster count as one observation, and are no fault.
    """
    for earliest, case in _repeated_questions(cases):
        answers_before = _answer_words(earliest)
        answers = _answer_words(case)
        # The first comparison is for two cases without any answer, which are alike, too.
        is_alike = answers_before == answers or not answers_before.isdisjoint(answers)
        # Cases of one cluster are not counted as independent observations.
        is_independent = case.cluster is None or case.cluster != earliest.cluster
        if is_alike and is_independent:
            yield case.id, f"as {earliest.id}: {earliest.query}"


def _broken_word(text: str) -> str | None:
    """The first word of a text that a wrong encoding has broken, or that holds an HTML entity.

    None for a text that is right. Plain ASCII cannot be broken, and is passed over quickly.
    """
    # Entities are plain ASCII, and are looked for before the quick test.
    entity = _ENTITY.search(text)
    if entity is not None:
        return entity[0]
    if text.isascii():
        return None
    for word in text.split():
        # None: right as it is; the word itself: encodings agree on it.
        if not word.isascii() and _repaired(word) not in (None, word):
            return word
    return None


def _repaired(word: str) -> str | None:
    """A word of UTF-8 that was read as Windows-1252, repaired: "café" of "cafÃ©".

    None for a word that is right as it is: its bytes are no UTF-8.
    """
    try:
        return word.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return None


def _cases_with_broken_letters(cases: Sequence[Case]) -> _Faults:
    """The cases with a text that a wrong encoding has broken, or that holds HTML: a fault.

    Right answers and passages do not equal such texts. The first broken word of each is shown.
    """
    for case in cases:
        passages = case.reference_contexts or ()
        spans = [evidence.text for evidence in case.evidence]
        # Only the first broken text of a case is shown: the others have the same cause.
        for text in (case.query, *case.references, *passages, *spans):
            broken = _broken_word(text)
            if broken is None:
                continue
            if broken.startswith("&"):  # an entity of HTML; else letters in a wrong encoding
                meant = unescape(broken)
            else:
                meant = _repaired(broken) or ""
            right = f"'{meant}'" if meant.strip() else "a space"
            yield case.id, f"'{broken}' where {right} is meant"
            break


def _cases_with_placeholders(cases: Sequence[Case]) -> _Faults:
    """The cases with a reference that is no answer: a placeholder, no word, or the question itself.

    Every answer to them is scored as wrong.
    """
    for case in cases:
        question = multilingual_tokens(case.query)
        for text in case.references:
            words = multilingual_tokens(text)
            is_placeholder = " ".join(words) in _PLACEHOLDERS
            # Without a word, such as "-", or the question repeated.
            if is_placeholder or not words or words == question:
                yield case.id, f"'{text}'"
                break


def _probe_of_gold(cases: Sequence[Case]) -> Probe:
    """The probe for whether the gold texts of cases hold their short references.

    A few may be in other words; more hint at wrong passages, by which retrieval would be scored.
    """
    faults: list[tuple[str, str]] = []
    compared = 0
    for case in cases:
        passages = [normalised(text) for text in case.reference_contexts or ()]
        answers = [normalised(text) for text in case.references]
        # Cases with texts of gold and references alone show whether one holds the other.
        if not passages or not answers:
            continue
        # A long answer is said in words of its own.
        are_quoted = all(map(_is_quoted, answers))
        if not are_quoted:
            continue
        compared += 1
        pairs = product(passages, answers)
        # One answer in one passage is enough.
        is_held = any(holds_answer(passage, answer) for passage, answer in pairs)
        if not is_held:
            faults.append((case.id, f"'{case.references[0]}'"))
    references = f"{compared:,} short references"
    good = "no short reference beside a text"
    if compared:
        good = f"each of {references} stands in a gold text"
    return _probe_of_faults(
        "gold",
        faults,
        good,
        f"of {references} with gold texts, those of {{cases}} stand in none ({{example}}): said in "
        "other words there, or not there at all, and then retrieval is scored by the wrong "
        "passage.",
        # A share of the compared ones may be said in other words.
        least=_FEW * compared,
    )


def _is_quoted(answer: str) -> bool:
    """Whether a reference is short enough to be in its gold text word for word.

    Not "yes" and the like, which any text may hold or lack by chance.
    """
    return is_telling(answer) and len(multilingual_tokens(answer)) <= _SHORT


def _contradicting_cases(cases: Sequence[Case]) -> _Faults:
    """The cases whose references contradict their label ``answerable``, each with its example.

    A fault of the dataset: by one of the two, a system that declines is scored wrongly.
    """
    for case in cases:
        answers = [text for text in case.references if not read_answer(text).declines]
        # Only what the dataset itself labels can be contradicted.
        if case.answerable is False and answers:
            yield case.id, f"{case.id} is unanswerable and has the reference '{answers[0]}'"
        elif case.answerable and case.references and not answers:
            yield case.id, f"{case.id} is answerable and its reference declines"


class _Look(NamedTuple):
    """Something that is looked for in all cases."""

    name: str
    faults: Callable[[Sequence[Case]], _Faults]
    good: str
    """Said where there is no fault."""
    bad: str
    """Said where there are some: with the cases, an example, and the ending of the verb."""


_LOOKED_FOR = (
    _Look(
        "questions",
        _cases_with_two_answers,
        "no question has two answers",
        "{cases} ask{s} what another one asks, with other references ({example}): an answer is "
        "wrong by one of the two.",
    ),
    _Look(
        "repeats",
        _repeated_cases,
        "no case stands there twice",
        "{cases} repeat{s} another one ({example}): they count as observations of their own, "
        "so that intervals are too narrow. Leave them out, or give them one `cluster`.",
    ),
    _Look(
        "letters",
        _cases_with_broken_letters,
        "no text has broken letters",
        "{cases} with letters that were broken on the way ({example}): answers and passages in "
        "right ones do not equal them.",
    ),
    _Look(
        "references",
        _cases_with_placeholders,
        "every reference looks like one",
        "{cases} with a placeholder, the question or no word for a reference ({example}): "
        "every answer to them is scored as wrong.",
    ),
    _Look(
        "answerable",
        _contradicting_cases,
        "no case contradicts its own `answerable`",
        "{cases} contradict{s} their own `answerable` ({example}): declining is scored against "
        "one of the two.",
    ),
)
