"""A chunk as stores keep it; one order of results.

Every implementation agrees on the following, and one contract suite holds them to it.

- A score is the cosine similarity of query and chunk, in [-1, 1], higher is better, rounded to six
  decimals (float32 carries no more). A vector of zeros has similarity 0 to everything.
- Results are ordered by score, then by id (code points); which of several equally good chunks make
  the cut follows from that order, too, and not from the engine.
- An id is any text without NUL characters that is not empty, at most `MAX_ID` bytes of UTF-8 long.
- A chunk comes back as it was given: id, text, document id, offsets and metadata, which may be any
  JSON. Its ``score`` is not stored. Numbers of more than 64 bits, NUL characters and halves of
  surrogate pairs, which not every engine keeps, are refused.
- Filters mean what `ragbench.core.filters.matches` says, and the store executes them.
- A write is visible to the next read, and is kept when the method has returned (the store
  ``memory`` writes its folder in `OwnCollection.mark` and `OwnCollection.close` only).
- Errors are `ragbench.errors.StoreError`: one line that names the address without its password.

What engines are given is the `StoredChunk`; what they keep are plain fields that any program can
read, the fields that every collection of ``ragbench index`` has:

=================  ===============================================================================
``chunk_id``       the chunk's id
``document_id``    the document that it was cut from; null where none is known
``text``           the passage
``start`` ``end``  its offsets in the document's text
``metadata``       the metadata as they are, JSON
``digest``         changes with any of these; ragbench sees by it what need not be embedded again
=================  ===============================================================================

Filters are executed on these. What plain values cannot say is kept beside them, in the few chunks
that have it:

- ``dates``: of each field that holds a date its milliseconds since 1970, for ranges;
- ``lists``: the names of the fields that hold a list, which lie within no range;
- ``fields``: the fields that a path of names does not lead to: of ``{"a.b": 1}`` the field ``a.b``,
  with its value. A quotation mark, a backslash or a percent sign in such a name is written as a
  percent sign and its two hexadecimal digits.
"""

from __future__ import annotations

import importlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias, cast

import orjson

from ragbench.core.chunk import Chunk, origin_of
from ragbench.core.filters import field_values, instant
from ragbench.core.record import Record
from ragbench.errors import ConfigError, StoreError
from ragbench.plugins import require
from ragbench.text.tokens import TOKENISER_VERSION, chunk_tokens

MAX_ID = 2048
"""The longest id, in bytes of UTF-8; what PostgreSQL can keep in an index."""


def similarity(score: float) -> float:
    """A cosine similarity as all stores give it out: within [-1, 1], to six decimals, never -0.0.

    Engines round differently: with so many decimals all of them give the same scores, and the same
    chunks tie. The decimals are part of every stored result: others would change rankings.
    """
    rounded = round(score, 6)
    within_limits = min(1.0, max(-1.0, rounded))
    return within_limits + 0.0  # which makes 0.0 of -0.0


_ODD = re.compile("[\x00\ud800-\udfff]")
"""Characters that not every store keeps in an id."""
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""A NUL character as JSON writes it, its backslash being none that was written as two."""
_UNQUOTED = re.compile(r'["%\\]')
"""Characters of field names that no engine can be given as they are."""


class StoredChunk(Record):
    """A chunk prepared for a store."""

    id: str
    chunk: Chunk
    """As it was given; what a store keeps of it is its own copy."""
    body: bytes
    """The chunk as JSON."""
    digest: str
    """Of `body`, 32 hexadecimal digits."""
    words: Mapping[int, float] | None = None
    """What a store ranks it by, see `stores.record.WordsForm`; None where it does not."""


def encode(chunk: Chunk) -> StoredChunk:
    """A chunk with its JSON and a digest of that, as stores keep it; without its score.

    The digest shows a later indexing which chunks need no new embedding: another form of the JSON
    here would embed every stored corpus again. What only some engines can keep (NUL characters,
    NaN) is refused for all of them, so that a corpus can move to another store.

    Raises:
        StoreError: the id, the text or the metadata hold what not every engine keeps.
    """
    check_id(chunk.id)
    where = f"chunk '{_shortened_id(chunk.id)}'"
    values: dict[str, Any] = {"chunk_id": chunk.id, "text": chunk.text, **origin_of(chunk)}
    if chunk.metadata:
        values["metadata"] = dict(chunk.metadata)
    try:
        body = orjson.dumps(values)
        json.dumps(values, allow_nan=False)  # NaN and infinity, which the other makes null
    except (TypeError, ValueError) as error:
        raise StoreError(f"{where} holds a value that is not JSON: {error}") from error
    if type(chunk.text) is not str or _NUL.search(body):
        raise StoreError(f"{where}: its text is none, or NUL characters are in it: take them out")
    digest = blake2b(body, digest_size=16).hexdigest()
    return StoredChunk(id=chunk.id, chunk=chunk, body=body, digest=digest)


def searched_fields(chunk: Chunk) -> Mapping[str, Any]:
    """The fields that filters of a search can name: a chunk's metadata and its document's id.

    A ``document_id`` in the metadata themselves comes first, as it does in every store.
    """
    if chunk.document_id is None or "document_id" in chunk.metadata:
        return chunk.metadata
    return {**chunk.metadata, "document_id": chunk.document_id}


def check_id(value: object) -> None:
    """Refuses a chunk's id that some engine could not keep, whichever engine is in use.

    So a corpus can move to another store: ids are texts, not empty, of at most `MAX_ID` bytes,
    without NUL characters and halves of surrogate pairs.
    """
    if not isinstance(value, str):
        raise StoreError(f"a chunk's id is a text, found {type(value).__name__} {value!r}")
    if not value:
        raise StoreError("a chunk's id is empty")
    if _ODD.search(value):
        raise StoreError(
            f"the chunk's id {_shortened_id(value)!r} holds a NUL character or half of a surrogate "
            "pair, which no store keeps"
        )
    # In bytes, as PostgreSQL counts what it can index.
    if len(value.encode()) > MAX_ID:
        raise StoreError(f"the chunk's id '{_shortened_id(value)}' is longer than {MAX_ID} bytes")


def _shortened_id(text: str) -> str:
    """The beginning of an id, at most 60 characters, so that errors about it stay on one line.

    An id may have 2,048 bytes.
    """
    if len(text) <= 60:
        return text
    return f"{text[:57]}..."


def plain(stored: StoredChunk) -> dict[str, Any]:
    """The plain fields under which every store keeps a chunk, by name; None for an empty field.

    Any program can read them. ``dates``, ``lists`` and ``fields`` hold what an engine's filters
    could not read off the metadata: dates in milliseconds, the names of lists, and fields to which
    no path of keys leads. Other names or forms would make stored collections unreadable.
    """
    chunk = stored.chunk
    dates: dict[str, int] = {}
    lists: list[str] = []
    fields: dict[str, Any] = {}
    for name, value in field_values(chunk.metadata).items():
        moment = instant(value)
        if moment is not None:
            dates[field_key(name)] = moment
        # Spelled out is a name without a path, and a key of the user's that is called as the
        # chunk's own field: engines would look for its value there.
        if name == "document_id" or not _leads_to(chunk.metadata, name, value):
            fields[field_key(name)] = value
        if isinstance(value, list | tuple):
            lists.append(name)
    # The document's id, too, is a field to filters, but for metadata with a key of this name.
    moment = instant(chunk.document_id)
    if moment is not None and "document_id" not in chunk.metadata:
        dates["document_id"] = moment
    return {
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "text": chunk.text,
        "start": chunk.start,
        "end": chunk.end,
        "metadata": dict(chunk.metadata),
        "digest": stored.digest,
        "dates": dates or None,
        "lists": lists or None,
        "fields": fields or None,
    }


def straight_path(name: str) -> tuple[str, ...] | None:
    """The keys that lead to a field of the metadata: its name in a filter, split at its dots.

    None for a name with a quotation mark, a backslash or a percent sign: not every engine can be
    given such a key, and `plain` keeps the field under its whole name instead.
    """
    if _UNQUOTED.search(name):
        return None
    return tuple(name.split("."))


def field_key(name: str) -> str:
    """The name of a metadata field as stores spell it among their ``fields`` and ``dates``.

    Characters that an engine cannot be given in a path become a percent sign and two hexadecimal
    digits. The spelling is stored with chunks, and filters look for the same.
    """
    return _UNQUOTED.sub(_hexadecimal, name)


def _hexadecimal(match: re.Match[str]) -> str:
    """A matched character as a percent sign and two hexadecimal digits, such as ``%22`` for ``"``.

    Stores keep field names in this spelling, and filters look for it: it cannot change for
    collections that are written.
    """
    return f"%{ord(match.group()):02X}"


def _leads_to(metadata: Mapping[str, Any], name: str, value: object) -> bool:
    """Whether the name of a metadata field, split at its dots, leads to this very value.

    A name like ``a.b`` may also be one key with a dot, beside an object ``a`` with another ``b``:
    then an engine's path would find the wrong value, and the field is stored under its whole name.
    """
    path = straight_path(name)
    if path is None:
        return False
    node: object = metadata
    for key in path:
        if isinstance(node, Mapping):
            node = cast("Any", node).get(key)
        else:
            node = None
    # The very object: an equal value in another place is another field.
    return node is value


# --- the words of a chunk as a store ranks them: BM25 cut in two
#
# BM25 (`ragbench.search.pipeline.baseline`) is a sum, over the words of a query, of a product of
# two factors. The first says how rare the word is, its inverse document frequency: the store
# counts that in the chunks that it holds. The second says how much of the word a chunk has, which
# depends on the chunk and on the average length of chunks alone:
#
#     tf / (tf + k1 * (1 - b + b * length / average))
#
# The second factor is kept for each word of a chunk, in a sparse vector; the store multiplies it by
# the first, and adds up the products.

WordVector: TypeAlias = Mapping[int, float]
"""Numbers of words, each with a weight above 0."""

HASHING = "blake2b-32"
"""How `word_number` numbers words."""


class WordsForm(Record):
    """What the vectors of all chunks of a collection are made by; kept with it."""

    average: float
    """Tokens of a chunk, titles included, when the collection was made. It stays: another one
    would change the vectors of all chunks."""
    k1: float = 1.2
    """How slowly repeated tokens stop counting."""
    b: float = 0.75
    """How much long chunks are held down."""
    title_weight: int = 2
    """How often a title counts."""
    tokeniser: str = TOKENISER_VERSION
    """Changes with what tokens are."""
    hashing: str = HASHING
    """How tokens are numbered."""

    def vector(self, chunk: Chunk) -> dict[int, float]:
        """A chunk's words as a sparse vector: of each word the chunk's own part of BM25.

        The store multiplies it by the word's rarity and adds up. The formula is that of BM25's term
        frequency, damped by length; stored vectors depend on it. A chunk without words has none.
        """
        tokens = self.tokens(chunk)
        counts = Counter(map(word_number, tokens))
        average = self.average or 1.0  # 0 of a collection that was made of chunks without words
        relative_length = len(tokens) / average
        # The part of the denominator that a long chunk makes larger.
        damping = self.k1 * (1 - self.b + self.b * relative_length)
        return {number: count / (count + damping) for number, count in counts.items()}

    def tokens(self, chunk: Chunk) -> list[str]:
        """The tokens of a chunk and of its title, which is repeated as often as a title counts.

        Stored vectors are made of these, and questions have to be cut alike.
        """
        return chunk_tokens(chunk.text, chunk.metadata.get("title"), self.title_weight)

    def check(self, collection: str) -> None:
        """Refuses the words of a collection that another release cut or numbered otherwise.

        Questions would be cut by this release's rules, and find the wrong words or none.
        """
        if (self.tokeniser, self.hashing) != (TOKENISER_VERSION, HASHING):
            raise StoreError(
                f"the words of the collection '{collection}' were cut by another release of "
                "ragbench: remove it with 'ragbench index --drop' and index the corpus again, or "
                "index it under another name"
            )


@lru_cache(maxsize=1 << 17)
def word_number(token: str) -> int:
    """The number by which stores keep a word: the first 32 bits of the BLAKE2b digest of its token.

    Sparse vectors have numbers in the place of words. A question's word has the number of one of
    ``v`` other words with a probability of ``v`` in 2**32 (one in 4,300 for a million words), and
    then finds that word, too. Stored vectors hold the numbers: they cannot change without a new
    `HASHING`.
    """
    data = token.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=4).digest(), "little")


def check_words(database: object, words: WordsForm | None) -> None:
    """Refuses an indexing with words where the database cannot rank by words itself.

    Only some databases can (``--words store``); in another one the words would be kept for nothing.

    Args:
        database: where the collection is to be made.
        words: how its chunks' words are to be kept; None where none are.

    Raises:
        ConfigError: words are to be kept, and the database has no ranking of its own.
    """
    # By `getattr`, as databases of other packages may lack the attribute.
    if words is None or getattr(database, "ranks_words", False):
        return
    raise ConfigError(
        f"{getattr(database, 'address', 'this store')}: this store does not rank by BM25 itself "
        "(--words store): leave the option out, or index into Qdrant (qdrant:FOLDER or "
        "qdrant+http://HOST:6333)"
    )


def fastembed_words(text: str, language: str) -> list[int]:
    """The sparse dimensions of a question's words, as fastembed's ``Qdrant/bm25`` numbers them.

    Other programs fill Qdrant with that model; a question finds their passages only by the same
    numbers. Each word in small letters is stemmed (Snowball) and hashed (the amount of its 32-bit
    MurmurHash3, seed 0). Stop words need not be left out: no passage has them. The collection
    itself knows the words' rarity (``modifier: idf``), so each counts 1. fastembed need not be
    installed.

    Raises:
        ConfigError: there is no stemmer for the language.
    """
    stemmer: Any = importlib.import_module("Stemmer")
    hashed: Any = require("mmh3", extra="qdrant").hash
    if language not in stemmer.algorithms():
        languages = ", ".join(sorted(stemmer.algorithms()))
        raise ConfigError(f"--field language={language}: there are stemmers for {languages}")
    letters = re.sub(r"[^\w]", " ", text.lower())
    words = [word for word in letters.split() if len(word) <= _MAX_WORD_LENGTH]
    # In fastembed's order: cut, measured, then stemmed. Another order gives other numbers.
    stems = stemmer.Stemmer(language).stemWords(words)
    return sorted({abs(hashed(stem)) for stem in stems})


_MAX_WORD_LENGTH = 40
"""Characters of the longest word that fastembed keeps."""
