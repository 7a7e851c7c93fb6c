"""Faults of a dataset that make numbers wrong without an error, found by reading it.

What is wrong in the gold is put down to every system alike: a question that is asked twice, with
two answers; a text whose letters were broken on the way; a reference that its own passage lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape

from ragbench.core.case import Case
from ragbench.core.chunk import Document
from ragbench.metrics.answer import holds_answer, is_telling
from ragbench.metrics.matching import Matching, normalised
from ragbench.safe_text import shortened_line
from ragbench.stages.corpus_gold import corpus_gold
from ragbench.text.declining import read_answer
from ragbench.text.tokens import multilingual_tokens
from ragbench.verbs.rag_probes import Probe

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
