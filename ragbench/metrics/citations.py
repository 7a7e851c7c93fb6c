"""What an answer cites and which numbers it names, held against the chunks that it was shown.

Exact, without a model: markers point somewhere or not, numbers stand somewhere or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.core.case import Case
from ragbench.core.metric import Skip
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.story import AnswerNote
from ragbench.io.values import as_list, is_object
from ragbench.metrics.grounds import (
    LEAST,
    LONGEST,
    all_numbers,
    is_foreign,
    numbers_of,
    sentences_of,
    shared,
    words_of,
)
from ragbench.metrics.metric import metric
from ragbench.text.citations import MARKS, without_citations, without_sources

_CITE = "ragbench; after Gao et al. 2023, ALCE, arXiv:2305.14627 (its recall and precision)"
_NOT_CITED = Skip("the answer cites nothing")
_NUMBER = re.compile(r"\d{1,3}(?:\s?[–-]\s?\d{1,3})?")
_NAMED = re.compile(r"\[([^\[\]\n]{1,80})\]")
_LISTED = re.compile(r"^[ \t]*[\[【]\^?(\d{1,3})[\]】]:?[ \t]+(\S.*)$", re.MULTILINE)
"""A line of a list of sources, or the text of a footnote."""
_OPENED = re.compile(r"[\[【]\^?(\d{1,3})(?!\d)")
_LABEL = re.compile(r"\s*[\[【]\^?(\d{1,3})[\]】]")
_TELLING = 2
"""Words from which on a sentence states something."""
_NEAR = 0.1
"""How much more of a sentence another chunk must share for a citation to be misattributed."""


class Cited(NamedTuple):
    """A sentence of an answer with what it cites."""

    text: str
    markers: tuple[str, ...]
    chunks: tuple[int | None, ...]
    """Position of the chunk that each marker points to; None where it points to none."""

    @property
    def is_factual(self) -> bool:
        """Whether it states something: no question, no heading, no greeting."""
        plain = MARKS.sub("", self.text).rstrip()
        states = len(words_of(plain)) >= _TELLING or bool(numbers_of(plain).amounts)
        return states and not plain.endswith(("?", ":")) and not plain.startswith("#")


_OPENS = re.compile(r"[\[【(]")
"""Without it no mark is in an answer."""


def cited(generation: GenerationResult[Any], retrieval: RetrievalResult[Any]) -> list[Cited] | Skip:
    """The sentences of an answer with their citations; its list of sources is none of them."""
    metadata: Mapping[str, Any] = generation.metadata or {}
    if not _OPENS.search(generation.response) and not metadata.get("citations"):
        return _NOT_CITED
    response, ids = generation.response[:LONGEST], [*(retrieval.context_ids or ())]
    first = {m[1]: m.start() for m in reversed([*_OPENED.finditer(response)])}
    listed = {m[1]: m[2] for m in _LISTED.finditer(response) if first[m[1]] < m.start(1) - 2}
    body = _LISTED.sub(lambda m: "" if m[1] in listed else m[0], response)
    found = [(text, [*_markers(text, ids)]) for text in _with_their_marks(body)]
    if not any(markers for _, markers in found):
        found = [(body, _of_metadata(metadata))]
    if not any(markers for _, markers in found):
        return _NOT_CITED
    places = _places(ids, retrieval.contexts, listed, [one for _, each in found for one in each])
    return [Cited(text, tuple(each), tuple(map(places.get, each))) for text, each in found]


def _with_their_marks(response: str) -> list[str]:
    """Sentences; marks behind a period belong to the sentence before it."""
    found: list[str] = []
    response = without_sources(response)
    for span in sentences_of(response):
        text = response[span.start : span.end]
        while found and (mark := MARKS.match(text)) is not None:
            found[-1] += mark[0]
            text = text[mark.end() :].lstrip()
        found += [text] if text.strip(" .") else []
    return found


def _markers(text: str, ids: Sequence[str]) -> Iterator[str]:
    """The numbers and ids that a sentence cites, in its order."""
    for mark in MARKS.finditer(text):
        for part in _NUMBER.findall(mark[0].partition("†")[0]):
            first, *last = re.split(r"\s?[–-]\s?", part)
            low, high = int(first), int(last[0]) if last else int(first)
            yield from map(str, range(low, min(high, low + 20) + 1))
    for mark in _NAMED.finditer(text):
        named = [part.strip() for part in re.split("[,;]", mark[1])]
        yield from (part for part in named if part in ids and not part.isdecimal())


def _of_metadata(metadata: Mapping[str, Any]) -> list[str]:
    """What a RAG says that it cites: positions or ids, or mappings that hold one."""
    found: list[str] = []
    for one in as_list(metadata.get("citations")):
        named = next((one[key] for key in _ID_KEYS if key in one), None) if is_object(one) else one
        found += [str(named)] if isinstance(named, (str, int)) else []
    return found


_ID_KEYS = ("id", "chunk_id", "index")


def _places(
    ids: Sequence[str], contexts: Sequence[str], listed: Mapping[str, str], markers: Sequence[str]
) -> dict[str, int]:
    """Which chunk a marker points to.

    By the label that the chunks begin with (``[3] ...``), else by id where every marker is one,
    else by rank, from 1 (from 0 where the answer cites 0).
    """
    labels = [None if (m := _LABEL.match(text)) is None else m[1] for text in contexts]
    ranks = [str(at) for at in range("0" not in markers, len(contexts) + 1)][: len(contexts)]
    is_by_id = bool(markers) and all(one in ids for one in markers)
    numbers = labels if contexts and all(labels) else ids if is_by_id else ranks
    places = {str(name): at for at, name in reversed([*enumerate(ids)])}
    places |= {str(name): at for at, name in reversed([*enumerate(numbers)])}
    for number, source in listed.items():
        named = [at for at, one in enumerate(ids) if one in re.split(r"[\s,;:()]+", source)]
        if named:
            places[number] = named[0]
    return places


@metric(group="generator", abstains=True, cite=_CITE, version=2)
def citation_validity(citations: Sequence[Cited]) -> float:
    """Share of an answer's citations that point to a chunk that was shown."""
    found = [place for one in citations for place in one.chunks]
    return sum(place is not None for place in found) / len(found)


@metric(group="generator", abstains=True, cite=_CITE, version=2)
def citation_coverage(citations: Sequence[Cited]) -> float:
    """Share of the sentences that state something which cite; of answers that cite at all."""
    factual = [bool(one.markers) for one in citations if one.is_factual or one.markers]
    return sum(factual) / len(factual)


@metric(group="generator", abstains=True, cite=_CITE, version=2)
def citation_attribution(citations: Sequence[Cited], contexts: Sequence[str]) -> float | Skip:
    """Share of the citing sentences whose cited chunk shares as much of them as any other does."""
    checked = [
        _better(one, contexts) is None for one in citations if _is_attributable(one, contexts)
    ]
    return sum(checked) / len(checked) if checked else _NOT_HELD


_NOT_HELD = Skip("no sentence that cites a shown chunk can be compared with it")


def _is_attributable(one: Cited, contexts: Sequence[str]) -> bool:
    places = [place for place in one.chunks if place is not None]
    return bool(places) and one.is_factual and not is_foreign(one.text, contexts[places[0]])


def _better(one: Cited, contexts: Sequence[str]) -> str | None:
    """What is wrong with where a sentence points; None where nothing is."""
    shares = [shared(one.text, text) for text in contexts]
    own = max(shares[place] for place in one.chunks if place is not None)
    best = max(shares)
    if own < best - _NEAR:
        return f"chunk {shares.index(best) + 1} shares more of it than the cited ones"
    return "what it cites shares too little of it" if own < LEAST else None


@metric(group="generator", abstains=True, cite="ragbench; see docs/judging.md", version=2)
def numbers_supported(case: Case, response: str, contexts: Sequence[str]) -> float | Skip:
    """Share of the answer's numbers and dates that are in a chunk or in the user's messages."""
    response = without_citations(response[:LONGEST])
    found = [numbers_of(response[span.start : span.end]) for span in sentences_of(response)]
    count = sum(len(one.amounts) + len(one.dates) for one in found)
    if not count:
        return Skip("the answer names no number")
    held = all_numbers([case.query, *(case.told if case.history else ()), *contexts])
    return 1 - sum(len(one.lacking(held)) for one in found) / count


def notes_of(
    case: Case, generation: GenerationResult[Any], retrieval: RetrievalResult[Any]
) -> Iterator[AnswerNote]:
    """Numbers that stand nowhere, citations that point nowhere, and those that point elsewhere."""
    contexts = retrieval.contexts
    held = all_numbers([case.query, *case.told, *contexts])
    looked = f"{len(contexts)} shown chunks" if len(contexts) != 1 else "the shown chunk"
    found = cited(generation, retrieval)
    if isinstance(found, Skip):
        found = [Cited(text, (), ()) for text in _with_their_marks(generation.response[:LONGEST])]
    for one in found:
        problems: list[str] = []
        if missing := numbers_of(one.text).lacking(held):
            problems.append(f"{', '.join(missing)}: not in {looked}, nor in the question")
        pairs = zip(one.markers, one.chunks, strict=True)
        if dangling := [marker for marker, place in pairs if place is None]:
            problems.append(f"cites {', '.join(dangling)}: not among {looked}")
        if one.chunks and _is_attributable(one, contexts) and (better := _better(one, contexts)):
            problems.append(f"cites {', '.join(one.markers)}: {better}")
        yield from (AnswerNote(sentence=one.text, problem=problem) for problem in problems)
