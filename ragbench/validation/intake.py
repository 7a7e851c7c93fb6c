"""Chunks as they really come: without ids, twice, empty, damaged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragbench.records.corpus import Chunk
from ragbench.text.language import guess_language
from ragbench.text.question import parse_question

__all__ = ["Intake", "take_in"]

_DAMAGED_SHARE = 0.1
"""From this share of unreadable characters on, a text counts as damaged."""
_UNREADABLE = re.compile("[\ufffd\ud800-\udfff\x00-\x08\x0b\x0e-\x1f]")
_CLEAR_TOKENS = 2
_VAGUE_TOKENS = 3
_POINTS = re.compile(r"\b(?:it|its|they|them|their|this|that|these|those|he|she|his|her)\b", re.I)
_LONG = 40_000
"""Characters from which on a chunk is spoken of: it is more a document than a passage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Intake:
    """Chunks that a validator can work with, and what had to be done to them."""

    chunks: tuple[Chunk, ...]
    """Each with a text and an id of its own; texts are never changed."""
    warnings: tuple[str, ...]
    """Sentences for the user."""


def take_in(query: str, chunks: Sequence[Chunk]) -> Intake:
    """Gives every chunk an id of its own and says what is wrong with the input.

    A chunk without an id is called by its place, ``"#3"``. Of chunks with one id and one text the
    first stays; a chunk with another text under a known id is called ``"id#2"``. Chunks without
    text stay, so that the verdict names them.

    Args:
        query: the question.
        chunks: in the retriever's order.
    """
    warnings = _about_query(query)
    kept: list[Chunk] = []
    texts: dict[str, set[str]] = {}
    ids: set[str] = set()
    unnamed, twice, renamed = 0, 0, 0
    for place, chunk in enumerate(chunks, start=1):
        name = chunk.id.strip()
        if not name:
            unnamed += 1
            name = f"#{place}"
        if chunk.text in texts.get(name, set()):
            twice += 1
            continue
        texts.setdefault(name, set()).add(chunk.text)
        own = _free(name, len(texts[name]), ids)
        ids.add(own)
        renamed += own != name
        kept.append(chunk if own == chunk.id else replace(chunk, id=own))
    _told(warnings, unnamed, "without an id: called by place, such as '#1'")
    _told(warnings, twice, "given twice with the same id and text: counted once")
    _told(warnings, renamed, "with the id of another one: called 'id#2' and so on")
    warnings.extend(_about_texts(query, kept))
    return Intake(chunks=tuple(kept), warnings=tuple(warnings))


def _about_query(query: str) -> list[str]:
    if not query.strip():
        return ["the query is empty: nothing can be relevant to it"]
    if not any(letter.isalnum() for letter in query):
        return ["the query has no words: nothing can be relevant to it"]
    asked = parse_question(query)
    if len(asked.tokens) < _CLEAR_TOKENS:
        return ["the query is unclear: it says too little to tell what would answer it"]
    if len(asked.tokens) <= _VAGUE_TOKENS and _POINTS.search(query):
        return ["the query is unclear: it points to something that it does not name"]
    return []


def _free(name: str, texts: int, ids: set[str]) -> str:
    """The name, or the first of "name#2", "name#3" ... that no other chunk has."""
    own = name if texts == 1 else f"{name}#{texts}"
    while own in ids:
        texts += 1
        own = f"{name}#{texts}"
    return own


def _about_texts(query: str, chunks: Sequence[Chunk]) -> list[str]:
    warnings: list[str] = []
    empty = [chunk for chunk in chunks if not chunk.text.strip()]
    only_metadata = sum(bool(chunk.metadata) for chunk in empty)
    _told(warnings, len(empty) - only_metadata, "without text: they can hold no answer")
    _told(warnings, only_metadata, "with metadata and no text: metadata is not read")
    _told(warnings, sum(_is_damaged(chunk.text) for chunk in chunks), "with unreadable characters")
    long = sum(len(chunk.text) > _LONG for chunk in chunks)
    _told(warnings, long, f"longer than {_LONG} characters: read in windows, whole")
    written = [chunk for chunk in chunks if chunk.text.strip()]
    if query.strip() and written:
        asked = guess_language(query)
        other = sum(_language(chunk.text) != asked for chunk in written)
        if other * 2 > len(written):
            warnings.append(
                f"{other} of {len(written)} chunks are in another language than the query "
                f"({asked}, as guessed): words cannot be matched across languages"
            )
    return warnings


def _language(text: str) -> str:
    return guess_language(text[:1000])


def _is_damaged(text: str) -> bool:
    sample = text[:4000]
    return len(_UNREADABLE.findall(sample)) > _DAMAGED_SHARE * max(1, len(sample))


def _told(warnings: list[str], count: int, what: str) -> None:
    if count:
        warnings.append(f"{count} {'chunk' if count == 1 else 'chunks'} {what}")
