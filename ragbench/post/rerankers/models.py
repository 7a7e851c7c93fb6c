"""Models that rerank: a cross-encoder here, a service behind HTTP."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from ragbench.core.checked import Checked, NotNegative, Positive
from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError, InterfaceError
from ragbench.io.http import JsonEndpoint
from ragbench.io.settings import ModelPath
from ragbench.io.values import as_object, is_list, is_object
from ragbench.post.filter import QueryWords
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores, shown_texts
from ragbench.text.onnx_model import (
    PairClassifier,
    find_onnx_files,
    import_onnx_packages,
    is_hub_name,
    load_pair_classifier,
)
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tables import table

# Where no spaces are written, two characters are taken for a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")


def best_windows(
    query: QueryWords, text: str, *, words: int, count: int, cut: bool = False
) -> list[Span]:
    """Finds runs of sentences that hold most of the query's weight."""
    spans = split_sentences(text)
    parts = [text[slice(*one)] for one in spans]
    sizes = [len(part.split() if part.isascii() else _WORD.findall(part)) for part in parts]
    held = [query.held_by(part) for part in parts]
    found: list[tuple[float, Span]] = []
    for first, total in enumerate(sizes):
        last = first
        while last + 1 < len(spans) and total + sizes[last + 1] <= words:
            last += 1
            total += sizes[last]
        worth = query.worth(set[str]().union(*held[first : last + 1]))
        found.append((worth, Span(spans[first].start, spans[last].end)))
    found.sort(key=lambda pair: -pair[0])
    chosen: list[Span] = []
    for worth, span in found:
        if len(chosen) == count or (chosen and not worth):
            break
        if all(span.end <= other.start or other.end <= span.start for other in chosen):
            chosen.append(span)
    return [_cut(query, text, span, words) for span in chosen] if cut else chosen


def _cut(query: QueryWords, text: str, span: Span, words: int) -> Span:
    """The stretch of so many words that holds most; of equals, the one in their middle."""
    found = [word.span() for word in _WORD.finditer(text, span.start, span.end)]
    if len(found) <= words:
        return span
    held = [query.held_by(text[start:end]) for start, end in found]
    values = [
        query.worth(set[str]().union(*held[first : first + words]))
        for first in range(len(found) - words + 1)
    ]
    best = max(values)
    equal = [first for first, value in enumerate(values) if value == best]
    middle = equal[len(equal) // 2]
    return Span(found[middle][0], found[middle + words - 1][1])


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossEncoderReranker(Checked):
    """Scores in (0, 1): the sigmoid of the model's logit (Nogueira and Cho 2019).

    Nothing of a chunk is cut off unseen: what does not fit the model is read in overlapping pieces,
    and the best piece counts (Dai and Callan 2019). Reading only what shares most with the query
    (``passages`` other than ``"whole"``) takes a fraction of the time.
    """

    name = "cross_encoder"

    asks_elsewhere: ClassVar[bool] = True
    scores_alone: ClassVar[bool] = True

    NEEDS: ClassVar[tuple[str, ...]] = ("extra onnx",)

    model: ModelPath
    """A folder with model.onnx and tokenizer.json, or ``owner/name`` on the Hugging Face hub."""
    file: str | None = None
    """The ONNX file's path in there; None tries model.onnx, onnx/model.onnx and the quantised."""
    revision: str | None = None
    """Branch, tag or commit of the hub repository."""
    passages: Literal["whole", "sentences", "words"] = "whole"
    """The part of each chunk that is read. ``"sentences"``: the run of whole sentences that shares
    most with the query. ``"words"``: the same, and of a sentence that is too long only its best
    stretch."""
    words: Positive = 24
    """But for ``"whole"``: how many words a run may have, at least 1."""
    windows: Positive = 1
    """But for ``"whole"``: how many runs of a chunk are read, at least 1; the best one counts."""
    first: Positive | None = None
    """How many candidates are read, at least 1; those behind them keep their order and get scores
    below 0. All are read when not given."""
    max_length: Annotated[int, Meta(ge=16)] = 512
    """Tokens of query and text together that the model takes."""
    overlap: NotNegative = 64
    """Tokens that neighbouring pieces of a long chunk share, at most a quarter of max_length."""
    threads: Positive = 2
    """How many pairs are read side by side, each on one thread."""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        most = self.max_length // 4
        if self.overlap > most:
            raise ConfigError(f"overlap must be at most {most}, not {self.overlap}")
        if not is_hub_name(self.model):
            find_onnx_files(self.model, file=self.file)

    def import_packages(self) -> None:
        import_onnx_packages(self.model)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        files = find_onnx_files(self.model, file=self.file, revision=self.revision)
        classifier = load_pair_classifier(files.model, files.tokenizer, self.threads)
        text, notes = self._question(classifier, query.text)
        read = [[chunk.text] for chunk in chunks[: self.first]]
        if self.passages != "whole":
            words = QueryWords.among(query.text, [chunk.text for chunk in chunks])
            cut = self.passages == "words"
            windows = partial(best_windows, words, words=self.words, count=self.windows, cut=cut)
            read = [[one[slice(*span)] for span in windows(one)] or [one] for (one,) in read]
        pieces = [
            (place, piece)
            for place, texts in enumerate(read)
            for one in texts
            for piece in self._fitting(classifier, text, one)
        ]
        best = [-math.inf] * len(read)
        logits = classifier.logits([(text, piece) for _, piece in pieces])
        for (place, _), logit in zip(pieces, logits, strict=True):
            best[place] = max(best[place], logit)
        unread = len(chunks) - len(read)
        if unread:
            notes += (f"{unread} of {len(chunks)} chunks were not read: they are ranked last",)
        behind = [-place / len(chunks) for place in range(1, unread + 1)]
        # The sigmoid, without overflow.
        scores = [(1 + math.tanh(logit / 2)) / 2 for logit in best]
        return NotedScores((*scores, *behind), notes)

    def _question(self, classifier: PairClassifier, text: str) -> tuple[str, tuple[str, ...]]:
        """The question; one that leaves no room for a chunk is cut, and a note says so."""
        offsets = classifier.offsets(text)
        room = self.max_length // 2
        if len(offsets) <= room:
            return text, ()
        note = f"the question has {len(offsets)} tokens: only the first {room} were read"
        return text[: offsets[room - 1][1]], (note,)

    def _fitting(self, classifier: PairClassifier, question: str, passage: str) -> list[str]:
        """The passage, or overlapping pieces of it that the model can take."""
        # A token is at least a character: short texts need no counting.
        if len(question) + len(passage) + 8 <= self.max_length:
            return [passage]
        excess = classifier.length(question, passage) - self.max_length
        if excess <= 0:
            return [passage]
        offsets = classifier.offsets(passage)
        room = len(offsets) - excess
        starts = range(0, len(offsets) - self.overlap, max(1, room - self.overlap))
        return [
            piece
            for start in starts
            # A word that is cut in two may have more tokens than before: look again.
            for piece in self._fitting(
                classifier,
                question,
                passage[offsets[start][0] : offsets[min(start + room, len(offsets)) - 1][1]],
            )
        ]


Shape = Literal["cohere", "jina", "mixedbread", "nim", "pinecone", "tei", "voyage"]
_NAMED = ("cohere", "mixedbread", "nim", "pinecone", "voyage")
"""Forms that need the name of a model."""
_RESULTS = ("results", "data", "rankings")
"""Where the list of results stands in an answer that is an object."""
_SCORES = ("relevance_score", "score", "logit")


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpReranker(Checked):
    """Scores by a rerank endpoint: Cohere, Jina, Voyage, Mixedbread, Pinecone, TEI, NIM, or alike.

    A query and its chunks go in one request, or in several where ``batch_size`` says so. What is
    refused as too many requests is tried again after 1, 2, 4, ... seconds.
    """

    name = "http"

    asks_elsewhere: ClassVar[bool] = True
    scores_alone: ClassVar[bool] = True

    NEEDS: ClassVar[tuple[str, ...]] = ("extra http", "a server")

    url: str
    """The whole URL, such as ``"http://localhost:8080/rerank"``."""
    model: str | None = None
    """The model's name; all services want one but TEI."""
    shape: Shape = "jina"
    """The form of request and answer: that of Cohere (v2), of Jina (also vLLM, LiteLLM, Infinity),
    of Voyage, Mixedbread, Pinecone, of Text Embeddings Inference (``"tei"``) or of NVIDIA NIM."""
    truncate: bool = True
    """Whether the service may cut texts that are too long for its model, where its form has a word
    for it (Voyage, Pinecone, TEI, NIM). Else it refuses the whole request over one of them."""
    max_characters: Positive | None = None
    """How much of each chunk is sent; None for all of it. A note counts the cut ones."""
    request: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More fields of the request, such as ``{"rank_fields": ["text"]}``; they override ours."""
    api_key_env: str | None = None
    """The environment variable that holds the key, sent as a bearer token (Pinecone: as
    ``Api-Key``)."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request."""
    timeout: float = 60.0
    """Seconds for connecting and for each read."""
    retries: int = 3
    """How often a request is repeated that the server could not take."""
    batch_size: Positive | None = None
    """How many chunks a request may hold; None for all. Text Embeddings Inference takes 32 unless
    configured otherwise."""
    _endpoint: JsonEndpoint = field(init=False, compare=False)

    def __post_init__(self) -> None:
        needs_model = self.shape in _NAMED and not self.model
        Checked.__post_init__(self)
        if needs_model:
            raise ConfigError(f"model must be given: the shape '{self.shape}' needs one")
        headers = dict(self.headers)
        if self.api_key_env is not None:
            key = os.environ.get(self.api_key_env)
            if not key:
                raise ConfigError(f"http: the environment variable {self.api_key_env} is not set")
            own = {"Api-Key": key} if self.shape == "pinecone" else {}
            headers |= own or {"Authorization": f"Bearer {key}"}
        endpoint = JsonEndpoint(
            self.url, headers=headers, timeout=self.timeout, retries=self.retries
        )
        object.__setattr__(self, "_endpoint", endpoint)

    def __repr__(self) -> str:
        return f"HttpReranker(url={self._endpoint.url!r}, model={self.model!r})"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        texts, notes = shown_texts(chunks, self.max_characters)
        size = self.batch_size or len(texts)
        named = {"model": self.model} if self.model else {}
        scores: list[float] = []
        for start in range(0, len(texts), size):
            batch = texts[start : start + size]
            asked = {
                "$query": query.text,
                "$texts": batch,
                "$objects": [{"text": text} for text in batch],
                "$count": len(batch),
                "$cut": self.truncate,
                "$end": "END" if self.truncate else "NONE",
            }
            filled = _filled(table("ragbench.post.rerankers", "http_forms")[self.shape], asked)
            answer = self._endpoint.post("", {**named, **filled, **self.request})
            scores += _in_order(answer, len(batch), self._endpoint.url)
        return NotedScores(scores, notes)


def _filled(form: Mapping[str, Any], asked: Mapping[str, object]) -> dict[str, Any]:
    """A form of ``http_forms.toml`` with what is asked."""
    return {
        name: _filled(one, asked) if is_object(one) else asked.get(one, one)
        for name, one in form.items()
    }


def _in_order(answer: Any, size: int, where: str) -> list[float]:
    known = as_object(answer)
    results = next((known[name] for name in _RESULTS if name in known), answer)
    if not is_list(results):
        raise InterfaceError(f"{where} must answer with a list of results")
    scores: dict[int, float] = {}
    for fields in map(as_object, results):
        index = fields.get("index")
        score = next((fields[name] for name in _SCORES if name in fields), None)
        if type(index) is not int or not isinstance(score, int | float) or not math.isfinite(score):
            keys = ", ".join(map(repr, _SCORES))
            raise InterfaceError(f"{where}: a result must hold 'index' and a number as {keys}")
        if not 0 <= index < size or index in scores:
            raise InterfaceError(f"{where} answered with the index {index} for {size} chunks")
        scores[index] = float(score)
    if len(scores) != size:
        raise InterfaceError(f"{where} answered with {len(scores)} scores for {size} chunks")
    return [scores[index] for index in range(size)]
