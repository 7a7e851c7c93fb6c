"""A passage that could answer the query, written by a language model, to find real ones by."""

from __future__ import annotations

from dataclasses import dataclass, field

from ragbench.errors import ConfigError
from ragbench.llm.chat import ChatModel
from ragbench.preretrieval.asking import ask_for_texts
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.preretrieval.transform import Transformed

__all__ = ["HyDE"]

_MOST = 8
_TASK = (
    "You write {count} short passages as they could stand in a document that answers a query, in "
    "the query's language and in the manner of such a document. What you write is only used to "
    "find real documents, so write what is plausible when you do not know. Answer with a JSON "
    'object {{"passages": ["...", ...]}} that holds exactly {count} texts of at most 100 words '
    "each, and nothing else."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HyDE:
    """Hypothetical document embeddings: searches for made-up passages, embedded as passages.

    Gao et al. 2023, "Precise Zero-Shot Dense Retrieval without Relevance Labels". The paper takes
    the mean of their embeddings and the query's; here each is searched for, and the rankings are
    fused, which works for any kind of search.

    Raises:
        ConfigError: ``count`` or ``weight`` is out of its range.
    """

    chat: ChatModel = field(metadata={"given": True})
    """The language model."""
    count: int = 1
    """How many passages are asked for, 1 to 8."""
    weight: float = 1.0
    """What each of them counts beside the query itself, which counts 1; above 0."""
    keep_original: bool = True
    """Whether the query itself is searched for too."""
    prompt: int = field(default=1, init=False)
    """Version of the prompt; part of the identity."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        if not 1 <= self.count <= _MOST:
            raise ConfigError(f"count must lie between 1 and {_MOST}, not {self.count}")
        SearchQuery(text="", weight=self.weight)

    @property
    def name(self) -> str:
        """See `QueryTransform.name`."""
        return "hyde"

    def transform(self, query: SearchQuery) -> Transformed:
        """See `QueryTransform.transform`.

        Raises:
            LLMReplyError: the model's answer cannot be used.
            LLMError: there is none.
        """
        if not query.text.strip():
            return Transformed(queries=(query,))
        task = _TASK.format(count=self.count)
        written = ask_for_texts(self.chat, task, query.text, "passages")[: self.count]
        weight = query.weight * self.weight
        found = [SearchQuery(text=text, kind="passage", weight=weight) for text in written]
        return Transformed(queries=(*([query] if self.keep_original else []), *found))
