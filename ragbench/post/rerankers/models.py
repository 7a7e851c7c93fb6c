"""Models that rerank: a cross-encoder here, a service behind HTTP."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from ragbench.safe_text import counted
from ragbench.text.onnx_model import (
    PairClassifier,
    find_onnx_files,
    import_onnx_packages,
    is_hub_name,
    load_pair_classifier,
)
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tables import table

# Scripts that write no spaces: Thai and Lao, Burmese, Khmer, Japanese kana, Chinese characters.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
# Where no spaces are written, two characters are taken for a word.
_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")


def best_windows(
    query: QueryWords, text: str, *, words: int, count: int, cut: bool = False
) -> list[Span]:
    """Finds runs of sentences that hold most of the query's weight, best first.

    A model that reads these alone takes a fraction of the time that whole chunks take.

    The model is a cross-encoder, and the runs are what it reads of a chunk.

    Args:
        words: how many words a run may have; a longer sentence is a run by itself.
        count: how many runs that do not overlap to find.
        cut: whether of a run that is too long only its best stretch is given.
    """
    sentences = split_sentences(text)
    sizes: list[int] = []
    words_held: list[set[str]] = []
    for sentence in sentences:
        part = text[sentence.start : sentence.end]
        # Splitting at white space gives the same count for ASCII, and sooner.
        parts = part.split() if part.isascii() else _WORD.findall(part)
        sizes.append(len(parts))
        words_held.append(query.held_by(part))
    # For each sentence the longest run of sentences that begins with it and has room.
    runs: list[tuple[float, Span]] = []
    for start, size in enumerate(sizes):
        end = start + 1
        while end < len(sentences) and size + sizes[end] <= words:
            size += sizes[end]
            end += 1
        words_of_run = set[str]().union(*words_held[start:end])
        span = Span(sentences[start].start, sentences[end - 1].end)
        runs.append((query.worth(words_of_run), span))
    runs.sort(key=lambda run: -run[0])
    windows: list[Span] = []
    for worth, span in runs:
        # A run that holds nothing of the query is read only where there is no better one.
        if len(windows) == count or (windows and not worth):
            break
        if all(span.end <= window.start or window.end <= span.start for window in windows):
            windows.append(span)
    if not cut:
        return windows
    return [_best_stretch(query, text, window, words) for window in windows]


def _best_stretch(query: QueryWords, text: str, span: Span, word_count: int) -> Span:
    """The stretch of a span that holds most of the query's weight, so that less of it is read.

    Of stretches that hold equally much it is the one in the middle of them: the words of the query
    then have as much text before them as behind.

    Args:
        word_count: how many words a stretch has; a span without more is given whole.
    """
    # Offsets in the whole text, as a window's are.
    word_spans = [match.span() for match in _WORD.finditer(text, span.start, span.end)]
    if len(word_spans) <= word_count:
        return span
    words_held = [query.held_by(text[start:end]) for start, end in word_spans]
    # One word further at a time; only whole stretches, so none runs over the end.
    worths: list[float] = []
    for position in range(len(word_spans) - word_count + 1):
        stretch = words_held[position : position + word_count]
        words_of_stretch = set[str]().union(*stretch)
        worths.append(query.worth(words_of_stretch))
    highest = max(worths)
    best_positions = [position for position, worth in enumerate(worths) if worth == highest]
    first_word = best_positions[len(best_positions) // 2]
    last_word = first_word + word_count - 1
    start, _ = word_spans[first_word]
    _, end = word_spans[last_word]
    return Span(start, end)


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
        """Refuses an overlap, or a folder without a model, before any question.

        A model of the hub is fetched at the first question.
        """
        Checked.__post_init__(self)
        # A question may take half of the tokens: pieces must still be longer than their overlap.
        most_overlap = self.max_length // 4
        if self.overlap > most_overlap:
            raise ConfigError(f"overlap must be at most {most_overlap}, not {self.overlap}")
        if not is_hub_name(self.model):
            find_onnx_files(self.model, file=self.file)

    def import_packages(self) -> None:
        """Imports what the model needs, before any question: a missing extra is found at once."""
        import_onnx_packages(self.model)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The sigmoid of the model's logit for each chunk's best piece, so a number in (0, 1).

        Chunks that are not read have scores below 0, in their order.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        files = find_onnx_files(self.model, file=self.file, revision=self.revision)
        classifier = load_pair_classifier(files.model, files.tokenizer, self.threads)
        question, notes = self._fitting_question(classifier, query.text)
        # All pieces of all chunks are one batch; each knows the place of its chunk.
        pairs: list[tuple[str, str]] = []
        places: list[int] = []
        passages = self._texts_to_read(query, chunks)
        for place, texts in enumerate(passages):
            for text in texts:
                for piece in self._fitting_pieces(classifier, question, text):
                    pairs.append((question, piece))
                    places.append(place)
        logits = classifier.logits(pairs)
        best_logits = [-math.inf] * len(passages)
        for place, logit in zip(places, logits, strict=True):
            best_logits[place] = max(best_logits[place], logit)
        scores: list[float] = []
        for logit in best_logits:
            # The sigmoid 1 / (1 + exp(-logit)), written so that no logit overflows.
            sigmoid = (1 + math.tanh(logit / 2)) / 2
            scores.append(sigmoid)
        unread = len(chunks) - len(passages)
        if unread:
            notes += (
                f"{unread} of {counted(len(chunks), 'chunk')} were not read: they are ranked last",
            )
        # Scores below 0, each below the one before: these chunks keep their order.
        for place in range(1, unread + 1):
            scores.append(-place / len(chunks))
        return NotedScores(scores, notes)

    def _texts_to_read(self, query: Query, chunks: Sequence[Chunk]) -> list[list[str]]:
        """For each chunk that is read, the parts of its text that the model reads.

        Reading only the runs that share most with the query takes a fraction of the time.
        """
        texts = [chunk.text for chunk in chunks]
        texts_read = texts[: self.first]
        if self.passages == "whole":
            return [[text] for text in texts_read]
        # How rare a word is shows among all chunks, also those that are not read.
        query_words = QueryWords.among(query.text, texts)
        cut = self.passages == "words"
        passages: list[list[str]] = []
        for text in texts_read:
            windows = best_windows(query_words, text, words=self.words, count=self.windows, cut=cut)
            runs = [text[window.start : window.end] for window in windows]
            if not runs:
                runs = [text]  # a text without a sentence is read as it is
            passages.append(runs)
        return passages

    def _fitting_question(
        self, classifier: PairClassifier, text: str
    ) -> tuple[str, tuple[str, ...]]:
        """The question, cut to half of the model's tokens, and a note where that cut it.

        The model reads question and chunk together: each has half of its tokens for certain.
        """
        offsets = classifier.offsets(text)
        room = self.max_length // 2
        if len(offsets) <= room:
            return text, ()
        note = f"the question has {len(offsets)} tokens: only the first {room} were read"
        # The end of the last token that has room: what follows it is cut off.
        _, end = offsets[room - 1]
        return text[:end], (note,)

    def _fitting_pieces(self, classifier: PairClassifier, question: str, passage: str) -> list[str]:
        """The passage, or overlapping pieces of it that the model can take with the question.

        Pieces overlap, so that a sentence at the end of one is whole in the next.
        """
        # A token is at least a character: short texts need no counting. Eight are left for the
        # tokens that the model puts around the two texts.
        if len(question) + len(passage) + 8 <= self.max_length:
            return [passage]
        excess = classifier.length(question, passage) - self.max_length
        if excess <= 0:
            return [passage]
        offsets = classifier.offsets(passage)
        room = len(offsets) - excess
        step = max(1, room - self.overlap)
        pieces: list[str] = []
        # No piece begins within the last overlap: the piece before it reaches the end.
        for first_token in range(0, len(offsets) - self.overlap, step):
            last_token = min(first_token + room, len(offsets)) - 1
            start, _ = offsets[first_token]
            _, end = offsets[last_token]
            # A word that is cut in two may have more tokens than before: look again.
            pieces += self._fitting_pieces(classifier, question, passage[start:end])
        return pieces


# --- services

Shape = Literal["cohere", "jina", "mixedbread", "nim", "pinecone", "tei", "voyage"]
_SHAPES_WITH_MODEL = ("cohere", "mixedbread", "nim", "pinecone", "voyage")
"""Forms that need the name of a model."""
_RESULT_KEYS = ("results", "data", "rankings")
"""Where the list of results stands in an answer that is an object."""
_SCORE_KEYS = ("relevance_score", "score", "logit")
"""The names that services have for a result's score."""


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
        """Reads the key from its environment variable, and prepares the endpoint.

        A missing key is found so before any question.
        """
        Checked.__post_init__(self)
        # Checked before the key is looked for: with both mistakes, a user sees this one first.
        if self.shape in _SHAPES_WITH_MODEL and not self.model:
            raise ConfigError(f"model must be given: the shape '{self.shape}' needs one")
        headers = dict(self.headers)
        if self.api_key_env is not None:
            key = os.environ.get(self.api_key_env)
            if not key:
                raise ConfigError(f"http: the environment variable {self.api_key_env} is not set")
            if self.shape == "pinecone":
                headers["Api-Key"] = key
            else:
                headers["Authorization"] = f"Bearer {key}"
        endpoint = JsonEndpoint(
            self.url, headers=headers, timeout=self.timeout, retries=self.retries
        )
        # The class is frozen: only so can a field be set here.
        object.__setattr__(self, "_endpoint", endpoint)

    def __repr__(self) -> str:
        """The reranker without its headers, which may hold the key: a repr ends up in logs."""
        return f"HttpReranker(url={self._endpoint.url!r}, model={self.model!r})"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The service's scores of the chunks for the query, in the chunks' order.

        The texts are sent in the form of the service, in as many requests as ``batch_size`` needs.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        texts, notes = shown_texts(chunks, self.max_characters)
        form = table("ragbench.post.rerankers", "http_forms")[self.shape]
        size = self.batch_size or len(texts)
        scores: list[float] = []
        for start in range(0, len(texts), size):
            batch = texts[start : start + size]
            # Of the names that a form of http_forms.toml may use, "$cut" and "$end" say whether
            # texts may be cut: services take that as a boolean, or as one of these two words.
            values = {
                "$query": query.text,
                "$texts": batch,
                "$objects": [{"text": text} for text in batch],
                "$count": len(batch),
                "$cut": self.truncate,
                "$end": "END" if self.truncate else "NONE",
            }
            body: dict[str, Any] = {}
            if self.model:
                body["model"] = self.model
            body.update(_filled_form(form, values))
            body.update(self.request)  # last: the user's own fields win
            answer = self._endpoint.post("", body)
            scores += _scores_in_order(answer, len(batch), self._endpoint.url)
        return NotedScores(scores, notes)


def _filled_form(form: Mapping[str, Any], values: Mapping[str, object]) -> dict[str, Any]:
    """The body of a rerank request: a form of ``http_forms.toml`` with its ``$`` names replaced.

    The forms are data: a service with another form needs a table, and no code.

    Args:
        values: by those names; any other value of the form is sent as it is.
    """
    body: dict[str, Any] = {}
    for field_name, value in form.items():
        # A form may have objects in it (Pinecone has the settings in one): they are filled, too.
        if is_object(value):
            body[field_name] = _filled_form(value, values)
        else:
            body[field_name] = values.get(value, value)
    return body


def _scores_in_order(answer: Any, size: int, where: str) -> list[float]:
    """The scores of a service's answer in the order of the texts: services answer best first.

    Args:
        size: how many texts were sent.
        where: the service's address, for messages.

    Raises:
        InterfaceError: the answer has another form, or not one score for each text.
    """
    # Text Embeddings Inference answers with the list itself, all others with an object around it.
    results = _first_value(as_object(answer), _RESULT_KEYS, answer)
    if not is_list(results):
        raise InterfaceError(f"{where} must answer with a list of results")
    scores: dict[int, float] = {}
    for result in results:
        fields = as_object(result)
        index = fields.get("index")
        score = _first_value(fields, _SCORE_KEYS, None)
        is_number = isinstance(score, int | float) and math.isfinite(score)
        # `type`, because true is an int, too, and no index.
        if type(index) is not int or not is_number:
            keys = ", ".join(repr(key) for key in _SCORE_KEYS)
            raise InterfaceError(f"{where}: a result must hold 'index' and a number as {keys}")
        if not 0 <= index < size or index in scores:
            raise InterfaceError(
                f"{where} answered with the index {index} for {counted(size, 'chunk')}"
            )
        scores[index] = float(score)
    if len(scores) != size:
        raise InterfaceError(
            f"{where} answered with {counted(len(scores), 'score')} for {counted(size, 'chunk')}"
        )
    return [scores[index] for index in range(size)]


def _first_value(fields: Mapping[str, Any], keys: Sequence[str], default: Any) -> Any:
    """The value of the first of the keys that an answer has; the default where it has none.

    Services have different names for the same field.
    """
    for key in keys:
        if key in fields:
            return fields[key]
    return default
