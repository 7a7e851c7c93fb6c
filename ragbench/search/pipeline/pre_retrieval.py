"""From a question to what is searched for.

Other packages add theirs through entry points in the group ``ragbench.query_transforms``::

    [project.entry-points."ragbench.query_transforms"]
    glossary = "my_package.glossary:Glossary"
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, cast, runtime_checkable

import msgspec
from msgspec import Meta

from ragbench.core.calling import history_keyword
from ragbench.core.case import Said
from ragbench.core.chat import ChatModel, task_messages
from ragbench.core.checked import AboveZero, Checked
from ragbench.core.outcome import Failure
from ragbench.core.search_query import QueryKind, SearchQuery, Transformed
from ragbench.errors import (
    InterfaceError,
    LLMRefusedError,
    LLMReplyError,
    LLMTruncatedError,
)
from ragbench.ledger.identity import described
from ragbench.llm.schema import ask_structure, field_schema
from ragbench.plugins import Registry
from ragbench.text.tables import table


@runtime_checkable
class QueryTransform(Protocol):
    """One step between a question and retrieval: a frozen dataclass whose fields are settings."""

    @property
    def name(self) -> str:
        """The name of the transform in results and reports, such as ``"multi_query"``.

        Results keep failures under it.
        """
        ...

    def transform(self, query: SearchQuery) -> Transformed:
        """The queries to search for in place of a query: at least one, often the query itself too.

        A transform with a parameter ``history`` gets the conversation so far, if there is one.
        """
        ...


PRE_RETRIEVAL_VERSION = 1
"""Raised whenever a transform gives something else for the same input."""

_UNUSABLE = (LLMReplyError, LLMRefusedError, LLMTruncatedError)
"""The model has answered, and asking again would give the same. What may pass (an endpoint that is
down, a budget that is spent) is no reason to search for something else: the question fails, and can
be asked again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreRetrieval(Checked):
    """Transforms, applied one after the other to each query that is there.

    Example:
        from ragbench.search.pipeline.pre_retrieval import Normalise
        >>> stage = PreRetrieval(transforms=(Normalise(),))
        >>> stage.run("What  is ＲＡＧ?").queries[0].text
        'What is RAG?'
    """

    transforms: tuple[QueryTransform, ...] = ()
    """None of them searches for the question as it is."""
    on_error: Literal["keep", "raise"] = "keep"
    """What happens when a language model's answer cannot be used (no JSON, a refusal, cut off).
    ``"keep"``: the query is searched for as it was, and the failure stands on the result.
    ``"raise"``: it is raised. Every other error is always raised."""

    def run(self, question: str, said: Said = ()) -> Transformed:
        """The queries to search for in place of a question.

        The transforms are applied one after the other. Each transform gets every query that the
        ones before it made, one at a time.

        Args:
            said: the conversation before the question.

        Raises:
            InterfaceError: a user's transform returns no query.
        """
        queries: list[SearchQuery] = [SearchQuery(text=question)]
        failures: list[Failure] = []
        for transform in self.transforms:
            transformed: list[SearchQuery] = []
            for query in queries:
                if query.kind != "query":  # a passage that a transform wrote is searched for as is
                    transformed.append(query)
                    continue
                result = self._applied_transform(transform, query, said)
                transformed += result.queries
                failures += result.failures
            queries = _merged_queries(transformed)
        return Transformed(queries=tuple(queries), failures=tuple(failures))

    @property
    def identity(self) -> dict[str, Any]:
        """All that the stage's queries depend on besides the question, as JSON.

        Stored results are used again only while it is the same. A new version number makes all of
        them stale.
        """
        return {
            "version": PRE_RETRIEVAL_VERSION,
            "on_error": self.on_error,
            "transforms": [described(transform) for transform in self.transforms],
        }

    def _applied_transform(
        self, transform: QueryTransform, query: SearchQuery, said: Said
    ) -> Transformed:
        """The queries that one transform makes of a query.

        Where a model's reply is bad, the query stays as it was, unless `on_error` is ``"raise"``.
        The failure then comes with the query, so that a report counts it.

        Args:
            said: the conversation before the question; only a transform with ``history`` gets it.

        Raises:
            InterfaceError: the transform returns no query.
        """
        call: Any = transform.transform
        arguments: dict[str, Said] = {}
        if said:
            keyword = history_keyword(call)
            if keyword is not None:
                arguments[keyword] = said
        try:
            result: object = call(query, **arguments)
        except _UNUSABLE as error:
            if self.on_error == "raise":
                raise
            failure = Failure.of(error, stage=transform.name)
            # A failure is stored with every result; its traceback would name only ragbench's code.
            return Transformed(queries=(query,), failures=(replace(failure, traceback=None),))
        if not isinstance(result, Transformed):
            raise _no_queries(transform, type(result).__name__)
        if not result.queries:
            raise _no_queries(transform, "no query")
        return result


def _no_queries(transform: QueryTransform, returned: str) -> InterfaceError:
    """The error for a user's transform that leaves nothing to search for.

    Nothing could be searched for, and the answer would look like one of an empty corpus.

    Args:
        returned: what the transform returned, for people.
    """
    return InterfaceError(
        f"{transform.name}.transform returned {returned}: it must be a Transformed with at least "
        "one query"
    )


def _merged_queries(queries: Sequence[SearchQuery]) -> list[SearchQuery]:
    """The queries, each text of a kind once, at its first place and with the weights of all.

    Transforms often write the same text: it is searched for once, and counts as often as before.
    """
    merged: dict[tuple[str, str], SearchQuery] = {}
    for query in queries:
        # A question and a passage with the same text are embedded differently: they stay two
        # queries.
        key = (query.kind, query.text)
        if key in merged:
            earlier = merged[key]
            merged[key] = replace(earlier, weight=earlier.weight + query.weight)
        else:
            merged[key] = query
    return list(merged.values())


def transformed_object(transformed: Transformed) -> dict[str, Any]:
    """The queries of a question and the failures on the way, as JSON, without tracebacks.

    Every result of a pipeline with transforms holds it, so that a report shows the searched
    queries.
    """
    failures = tuple(replace(failure, traceback=None) for failure in transformed.failures)
    builtins: dict[str, Any] = msgspec.to_builtins(replace(transformed, failures=failures))
    # Fields without a value are left out: every result holds this, mostly without failures.
    return {key: list(values) for key, values in builtins.items() if values}


QUERY_TRANSFORMS = Registry(kind="query_transforms")


LONGEST = 4000
"""Characters of a query that a model may write: a longer one is not a query."""


def _written_texts(value: object) -> list[str]:
    """The different texts that a model wrote as queries, in its order; a reply has one or a list.

    Spaces are evened out, as a line break in a query changes nothing that is searched for.

    Raises:
        ValueError: there is none, or something else among them: the reply cannot be used.
    """
    items: Sequence[object] = [value]
    if isinstance(value, list):
        items = cast("Sequence[object]", value)
    texts: list[str] = []
    for item in items:
        if isinstance(item, str) and len(item) <= LONGEST and item.strip():
            texts.append(" ".join(item.split()))
    if not texts or len(texts) < len(items):
        raise ValueError("it holds no query, or something that is not one")
    return list(dict.fromkeys(texts))  # each once, in the model's order


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmTransform(Checked):
    """Searches for what a model writes, beside the query or in its place."""

    name = ""
    """Of the task in ``prompts.toml``, too; ``{count}`` stands there for the number of texts."""
    key: ClassVar[str]
    """The key of its answer that holds the texts."""
    kind: ClassVar[QueryKind] = "query"
    """How the texts are searched for."""

    chat: ChatModel = field(metadata={"given": True})
    """The language model."""
    count: int = field(default=1, metadata={"setting": False})
    weight: AboveZero = field(default=1.0, metadata={"setting": False})
    keep_original: bool = True
    """Whether the query itself is searched for too."""
    prompt: int = field(default=1, init=False)
    """Version of the prompt; part of the identity."""

    def transform(self, query: SearchQuery, history: Said = ()) -> Transformed:
        """The texts that a model writes for a query, as queries, with or without the query.

        `keep_original` decides whether the query stays; it does where the model only repeats it.
        The model gets the conversation, if there is one.
        """
        # A model would make up a question of nothing.
        if not query.text.strip():
            return Transformed(queries=(query,))
        prompts = table("ragbench.text", "prompts")
        task = prompts[self.name].format(count=self.count)
        content: dict[str, Any] = {"query": query.text}
        if history:
            task = f"{task} {prompts['query_before']}"
            content["conversation"] = list(history)
        instructions = f"{task} {prompts['query']}"
        messages = task_messages(instructions, json.dumps(content, ensure_ascii=False))
        form: dict[str, Any] = {"type": "string"}
        if self.key != "query":  # a key in the plural holds several texts
            form = {"type": "array", "items": form}
        schema = field_schema(self.key, form, _written_texts)
        written = ask_structure(self.chat, messages, schema)
        different = [text for text in written if text != query.text]
        new = different[: self.count]
        queries: list[SearchQuery] = []
        if self.keep_original or not new:
            queries.append(query)
        weight = query.weight * self.weight
        for text in new:
            queries.append(replace(query, kind=self.kind, weight=weight, text=text))
        return Transformed(queries=tuple(queries))


@dataclass(frozen=True, kw_only=True, slots=True)
class HyDE(LlmTransform):
    """Hypothetical document embeddings: searches for made-up passages, embedded as passages.

    Gao et al. 2023, "Precise Zero-Shot Dense Retrieval without Relevance Labels". The paper takes
    the mean of their embeddings and the query's; here each is searched for, and the rankings are
    fused, which works for any kind of search.
    """

    name = "hyde"
    key: ClassVar[str] = "passages"
    kind: ClassVar[QueryKind] = "passage"

    count: Annotated[int, Meta(ge=1, le=8)] = 1
    """How many passages are asked for, 1 to 8."""
    weight: AboveZero = 1.0
    """What each of them counts beside the query itself, which counts 1; above 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiQuery(LlmTransform):
    """Searches for the query and for other wordings of it.

    The rankings are fused as "RAG-Fusion" does it (Rackauckas 2024), by reciprocal ranks.
    """

    name = "multi_query"
    key: ClassVar[str] = "queries"

    count: Annotated[int, Meta(ge=1, le=20)] = 3
    """How many other wordings are asked for, 1 to 20. A model that writes more is cut, one that
    writes fewer gives fewer."""
    weight: AboveZero = 1.0
    """What each of them counts beside the query itself, which counts 1; above 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewrite(LlmTransform):
    """Searches for what a model makes of the query, in its place.

    Ma et al. 2023, "Query Rewriting for Retrieval-Augmented Large Language Models".
    """

    name = "rewrite"
    key: ClassVar[str] = "query"

    keep_original: bool = False
    """Whether the query as it was is searched for too, with the same weight."""


# What no reader sees and what splits words in two: soft hyphens, zero-width spaces, marks of
# direction and of byte order. Joiners stay: Persian and Indic words, and emoji, need them.
_INVISIBLE = dict.fromkeys(
    [0x00AD, 0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Normalise(Checked):
    """Brings a query into one form; no model is needed.

    Invisible characters and control characters go, runs of white space become one space, and what
    is left is normalised by Unicode (Unicode Standard Annex 15). Full-width letters and digits
    become plain ones under ``NFKC``. A query that holds nothing else stays as it was.
    """

    name = "normalise"

    form: Literal["NFC", "NFKC"] = "NFKC"
    """``NFKC`` also makes one of full-width and plain characters, ligatures and letters, raised and
    plain digits; ``NFC`` only of the ways to write an accent."""
    casefold: bool = False
    """Whether upper and lower case become one. Off, because names tell by their case what they are
    to a model; the BM25 of ragbench looks at no case either way."""

    def transform(self, query: SearchQuery) -> Transformed:
        """The query in one form of its characters and spaces.

        Texts that look alike find the same chunks. Results depend on the form:
        `PRE_RETRIEVAL_VERSION` rises with a change.
        """
        text = unicodedata.normalize(self.form, query.text.translate(_INVISIBLE))
        if self.casefold:
            # Folding may leave what is not normalised (Unicode Standard, section 5.18).
            text = unicodedata.normalize(self.form, text.casefold())
        letters: list[str] = []
        for letter in text:
            # A space, and not nothing: control characters such as tabs divide words.
            if unicodedata.category(letter) == "Cc":
                letter = " "
            letters.append(letter)
        words = "".join(letters).split()
        text = " ".join(words)
        if not text:
            text = query.text
        return Transformed(queries=(replace(query, text=text),))
