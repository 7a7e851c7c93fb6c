"""What an answer cites and which numbers it names, held against the chunks that it was shown.

Exact, without a model: a marker points to a chunk or not, a number is in one or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.core.case import Case
from ragbench.core.metric import Skip
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.story import AnswerNote
from ragbench.io.values import as_list, as_object, is_object
from ragbench.metrics.grounds import (
    LEAST,
    LONGEST,
    Numbers,
    all_numbers,
    numbers_of,
    sentences_of,
    shared,
    words_of,
)
from ragbench.metrics.metric import metric
from ragbench.text.citations import MARKS, without_citations, without_sources
from ragbench.text.language import differ_in_language

_CITE = "ragbench; after Gao et al. 2023, ALCE, arXiv:2305.14627 (its recall and precision)"
_NOT_CITED = Skip("the answer cites nothing")
_NOT_COMPARABLE = Skip("no sentence that cites a shown chunk can be compared with it")

_BRACKET = re.compile(r"[\[【(]")
"""Without it no mark is in an answer."""
_NUMBER_RANGE = re.compile(r"\d{1,3}(?:\s?[–-]\s?\d{1,3})?")
"""A number in a mark, or a range of them: 3, 3-5."""
_BRACKETED = re.compile(r"\[([^\[\]\n]{1,80})\]")
"""What is in brackets, and may be an id."""
_SOURCE_LINE = re.compile(r"^[ \t]*[\[【]\^?(\d{1,3})[\]】]:?[ \t]+(\S.*)$", re.MULTILINE)
"""A line of a list of sources, or the text of a footnote."""
_MARK_START = re.compile(r"[\[【]\^?(\d{1,3})(?!\d)")
_LABEL = re.compile(r"\s*[\[【]\^?(\d{1,3})[\]】]")
"""The number that a chunk begins with."""
_ID_KEYS = ("id", "chunk_id", "index")
"""Where a citation in the metadata of an answer names its chunk; the first key counts."""

_FEWEST_WORDS = 2
"""Words from which on a sentence states something."""
_WIDEST_RANGE = 20
"""How far a range of numbers reaches at most: "[1-999]" is no list of a thousand citations."""
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
        """Whether a sentence of an answer states something: no question, no heading, no greeting.

        Only such a sentence needs a citation: the lack of one in any other does not count.
        """
        plain = MARKS.sub("", self.text).rstrip()
        # A heading of Markdown, a question, or a line that only announces a list.
        if plain.startswith("#") or plain.endswith(("?", ":")):
            return False
        if len(words_of(plain)) >= _FEWEST_WORDS:
            return True
        # A number alone is a fact: "1998."
        return len(numbers_of(plain).amounts) > 0


def cited(generation: GenerationResult[Any], retrieval: RetrievalResult[Any]) -> list[Cited] | Skip:
    """The sentences of an answer with the chunks that each cites; a `Skip` where nothing is cited.

    All metrics of citations, and the notes on a case's page, are computed from these. The list of
    sources behind an answer is no sentence of it: its lines only say what the numbers mean. Where
    the text has no mark, the citations in the system's metadata count for the answer as a whole.
    """
    metadata = as_object(generation.metadata)
    if not _BRACKET.search(generation.response) and not metadata.get("citations"):
        return _NOT_CITED
    response = generation.response[:LONGEST]
    ids = list(retrieval.context_ids or ())
    sources = _listed_sources(response)
    body = _without_listed_sources(response, sources)
    sentences: list[tuple[str, list[str]]] = []
    all_markers: list[str] = []
    for text in _sentences_with_marks(body):
        markers = list(_markers_of_sentence(text, ids))
        sentences.append((text, markers))
        all_markers += markers
    if not all_markers:
        # No mark in the text: the metadata speaks for the answer as a whole.
        all_markers = _markers_in_metadata(metadata)
        sentences = [(body, all_markers)]
    if not all_markers:
        return _NOT_CITED
    positions = _positions_of_chunks(ids, retrieval.contexts, sources, all_markers)
    citations: list[Cited] = []
    for text, markers in sentences:
        chunks = tuple(map(positions.get, markers))
        citations.append(Cited(text, tuple(markers), chunks))
    return citations


def _without_listed_sources(response: str, sources: Mapping[str, str]) -> str:
    """An answer without the lines of its list of sources, which cite nothing themselves.

    Left in, each line would count as a sentence that cites a chunk.

    Args:
        sources: the lines of the list, by their numbers.
    """
    parts: list[str] = []
    position = 0
    for line in _SOURCE_LINE.finditer(response):
        # A line of the same form whose number is no source is the answer's own text, and stays.
        if line[1] in sources:
            parts.append(response[position : line.start()])
            position = line.end()
    parts.append(response[position:])
    return "".join(parts)


def _listed_sources(response: str) -> dict[str, str]:
    """The lines of an answer's list of sources: each number with the text behind it.

    A line such as ``[3] handbook-12, page 3`` says which chunk the mark 3 means. It is one only
    where the number was cited before it. Else ``[1] The shop closes at six.`` is a sentence that
    begins with its mark. Another result needs higher versions of the metrics of citations.
    """
    first_marks: dict[str, int] = {}
    for mark in _MARK_START.finditer(response):
        first_marks.setdefault(mark[1], mark.start())
    sources: dict[str, str] = {}
    for line in _SOURCE_LINE.finditer(response):
        # Up to two characters lie between the start of a mark and its number: "[^1".
        if first_marks[line[1]] < line.start(1) - 2:
            sources[line[1]] = line[2]
    return sources


def _sentences_with_marks(response: str) -> list[str]:
    """The sentences of an answer; a mark such as ``[1]`` behind a period goes with the one before.

    The splitter of sentences would begin the next sentence with that mark, and the wrong sentence
    would cite the chunk. Another result needs higher versions of the metrics of citations.
    """
    sentences: list[str] = []
    response = without_sources(response)
    for span in sentences_of(response):
        text = response[span.start : span.end]
        while sentences:
            mark = MARKS.match(text)
            if mark is None:
                break
            sentences[-1] += mark[0]
            text = text[mark.end() :].lstrip()
        # A mark that was all of the text leaves nothing, or its period.
        if text.strip(" ."):
            sentences.append(text)
    return sentences


def _markers_of_sentence(text: str, ids: Sequence[str]) -> Iterator[str]:
    """The numbers and ids that a sentence cites, in its order; numbers first.

    A marker is the text of a citation, "3" of ``[3]``; `_positions_of_chunks` finds the chunk that
    it points to. A range ``[3-5]`` is three markers. Another result needs higher versions of the
    metrics of citations.

    Args:
        ids: of the shown chunks; any other word in brackets is a remark.
    """
    for mark in MARKS.finditer(text):
        # In "【1†page 3】" the name of a source is behind the dagger, whose digits cite nothing.
        before_dagger = mark[0].partition("†")[0]
        for number_range in _NUMBER_RANGE.findall(before_dagger):
            ends = [int(number) for number in re.split(r"\s?[–-]\s?", number_range)]
            lowest = ends[0]
            highest = min(ends[-1], lowest + _WIDEST_RANGE)
            for number in range(lowest, highest + 1):
                yield str(number)
    for mark in _BRACKETED.finditer(text):
        for name in re.split("[,;]", mark[1]):
            name = name.strip()
            if name in ids and not name.isdecimal():
                yield name


def _markers_in_metadata(metadata: Mapping[str, Any]) -> list[str]:
    """The citations that a RAG reports in its answer's metadata, as positions or ids of chunks.

    Some systems keep citations out of the text. A citation may be the id itself, or a mapping that
    holds one under a key of `_ID_KEYS`; entries of any other form are left out.
    """
    markers: list[str] = []
    for citation in as_list(metadata.get("citations")):
        marker = citation
        if is_object(citation):
            # Of several keys the first of `_ID_KEYS` counts: an index beside an id is ignored.
            keys = [key for key in _ID_KEYS if key in citation]
            if not keys:
                continue
            marker = citation[keys[0]]
        if isinstance(marker, (str, int)):
            markers.append(str(marker))
    return markers


def _positions_of_chunks(
    ids: Sequence[str], contexts: Sequence[str], sources: Mapping[str, str], markers: Sequence[str]
) -> dict[str, int]:
    """The position of the chunk that each marker of an answer points to, by the marker's text.

    Systems count their chunks differently, so the way of counting is inferred: by the label that
    the chunks begin with (``[3] ...``), else by id where every marker is one, else by rank, from 1
    (from 0 where the answer cites 0). A marker that is missing in the result points nowhere.
    Another result needs higher versions of the metrics of citations.

    Args:
        ids: of the shown chunks; empty where retrieval gave none.
        sources: the lines of the answer's list of sources, by their numbers.
        markers: all that the answer cites.
    """
    labels: list[str] = []
    for text in contexts:
        label = _LABEL.match(text)
        if label is not None:
            labels.append(label[1])
    names: Sequence[str]
    if contexts and len(labels) == len(contexts):
        names = labels
    elif markers and all(marker in ids for marker in markers):
        names = ids
    else:
        first_rank = 0 if "0" in markers else 1
        ranks = range(first_rank, first_rank + len(contexts))
        names = [str(rank) for rank in ranks]
    # Where a name repeats, the first chunk has it.
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        positions.setdefault(name, position)
    for position, chunk_id in enumerate(ids):
        positions.setdefault(chunk_id, position)
    # A list of sources says itself which chunk a number is: "[1] handbook-12, page 3".
    for number, source in sources.items():
        words = re.split(r"[\s,;:()]+", source)
        for position, chunk_id in enumerate(ids):
            if chunk_id in words:
                positions[number] = position
                break
    return positions


@metric(group="generator", abstains=True, cite=_CITE, version=3)
def citation_validity(citations: Sequence[Cited]) -> float:
    """Share of an answer's citations that point to a chunk that was shown.

    A citation is a mark such as ``[3]`` or a chunk's id in brackets. One that points nowhere was
    made up. A change of its values needs a higher ``version`` in the decorator.
    """
    valid = 0
    count = 0
    for sentence in citations:
        count += len(sentence.chunks)
        valid += sum(position is not None for position in sentence.chunks)
    # `count` is never 0: an answer without any citation is a `Skip` before.
    return valid / count


@metric(group="generator", abstains=True, cite=_CITE, version=3)
def citation_coverage(citations: Sequence[Cited]) -> float:
    """Share of the sentences that state something which cite; of answers that cite at all.

    Low where an answer asserts much that its reader cannot look up. A change of its values needs a
    higher ``version`` in the decorator.
    """
    citing = 0
    count = 0
    for sentence in citations:
        # A sentence that cites states something, however few its words are.
        if sentence.markers:
            citing += 1
            count += 1
        elif sentence.is_factual:
            count += 1
    return citing / count


@metric(group="generator", abstains=True, cite=_CITE, version=3)
def citation_attribution(citations: Sequence[Cited], contexts: Sequence[str]) -> float | Skip:
    """Share of the citing sentences whose cited chunk shares as much of them as any other does.

    Low where the chunks are right and the marks point to the wrong ones. Words alone decide, with
    the margin `_NEAR`: two chunks may say the same. A change of its values needs a higher
    ``version``.
    """
    compared = 0
    right = 0
    for sentence in citations:
        if _is_comparable(sentence, contexts):
            compared += 1
            right += _misattribution(sentence, contexts) is None
    if not compared:
        return _NOT_COMPARABLE
    return right / compared


def _is_comparable(sentence: Cited, contexts: Sequence[str]) -> bool:
    """Whether a sentence of an answer can be compared with the chunk that it cites, by their words.

    Not where it cites no shown chunk, states nothing, or is in another language than the chunk: no
    word in common would then be no mistake. Another result needs higher versions of the metrics of
    citations.
    """
    # The first one that exists stands for all: chunks of one retrieval are mostly in one language.
    positions = [position for position in sentence.chunks if position is not None]
    if not positions or not sentence.is_factual:
        return False
    first_cited = contexts[positions[0]]
    return not differ_in_language(sentence.text, first_cited)


def _misattribution(sentence: Cited, contexts: Sequence[str]) -> str | None:
    """Why a sentence seems to cite the wrong chunk, in words; None where it does not.

    Another chunk shares clearly more of the sentence, or the cited one shares too little to support
    it (`LEAST`). The text is shown behind "cites 3:", and says "it" of the sentence. Another result
    needs higher versions of the metrics of citations.
    """
    # The shares pair with the contexts by position, which is what a citation names.
    shares = [shared(sentence.text, text) for text in contexts]
    # A sentence that cites several chunks is as good as its best one.
    cited_share = max(shares[position] for position in sentence.chunks if position is not None)
    best = max(shares)
    if cited_share < best - _NEAR:
        return f"chunk {shares.index(best) + 1} shares more of it than the cited ones"
    if cited_share < LEAST:
        return "what it cites shares too little of it"
    return None


@metric(group="generator", abstains=True, cite="ragbench; see docs/judging.md", version=3)
def numbers_supported(case: Case, response: str, contexts: Sequence[str]) -> float | Skip:
    """Share of the answer's numbers and dates that are in a chunk or in the user's messages.

    A number from nowhere is a made-up fact that is found without a judge. Numbers that the user
    named are the user's own. A change of the metric's values needs a higher ``version``.
    """
    response = without_citations(response[:LONGEST])
    numbers_of_sentences: list[Numbers] = []
    # All sentences are read before a chunk is: an answer without numbers costs no more.
    count = 0
    for span in sentences_of(response):
        numbers = numbers_of(response[span.start : span.end])
        numbers_of_sentences.append(numbers)
        count += numbers.size
    if not count:
        return Skip("the answer names no number")
    # Most cases have no history, and need not build the texts of one.
    messages = case.told if case.history else ()
    shown = all_numbers([case.query, *messages, *contexts])
    lacking = sum(len(numbers.lacking(shown)) for numbers in numbers_of_sentences)
    return 1 - lacking / count


def notes_of(
    case: Case, generation: GenerationResult[Any], retrieval: RetrievalResult[Any]
) -> Iterator[AnswerNote]:
    """The problems of an answer's sentences that need no judge, for the page of a case.

    For each sentence in turn: numbers that are in no shown chunk, citations that point nowhere, and
    citations of a chunk that says something else. The metrics of this module give shares; these
    notes say which sentence, and why.
    """
    contexts = retrieval.contexts
    shown = all_numbers([case.query, *case.told, *contexts])
    place = "the shown chunk" if len(contexts) == 1 else f"{len(contexts)} shown chunks"
    # Without citations the sentences are still looked through for numbers.
    citations = cited(generation, retrieval)
    if isinstance(citations, Skip):
        sentences = _sentences_with_marks(generation.response[:LONGEST])
        citations = [Cited(text, (), ()) for text in sentences]
    # Up to three notes for one sentence, in this order: the page shows them as they come.
    for sentence in citations:
        lacking = numbers_of(sentence.text).lacking(shown)
        if lacking:
            problem = f"{', '.join(lacking)}: not in {place}, nor in the question"
            yield AnswerNote(sentence=sentence.text, problem=problem)
        dangling: list[str] = []
        for marker, chunk in zip(sentence.markers, sentence.chunks, strict=True):
            if chunk is None:
                dangling.append(marker)
        if dangling:
            problem = f"cites {', '.join(dangling)}: not among {place}"
            yield AnswerNote(sentence=sentence.text, problem=problem)
        if not _is_comparable(sentence, contexts):
            continue
        misattribution = _misattribution(sentence, contexts)
        if misattribution is not None:
            problem = f"cites {', '.join(sentence.markers)}: {misattribution}"
            yield AnswerNote(sentence=sentence.text, problem=problem)
