"""Several ways to ask the same, written by a language model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ragbench.errors import ConfigError
from ragbench.llm.chat import ChatModel
from ragbench.preretrieval.asking import ask_for_texts
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.preretrieval.transform import Transformed

__all__ = ["MultiQuery"]

_MOST = 20
_TASK = (
    "You write {count} other ways to ask for the same information, for a search engine: other "
    "words, synonyms, another angle; a question with several parts may be taken apart. Keep the "
    "query's language and every name, number and date in it. Add no facts. Answer with a JSON "
    'object {{"queries": ["...", ...]}} that holds exactly {count} texts, and nothing else.'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MultiQuery:
    """Searches for the query and for other wordings of it.

    The rankings are fused as "RAG-Fusion" does it (Rackauckas 2024), by reciprocal ranks.

    Raises:
        ConfigError: ``count`` or ``weight`` is out of its range.
    """

    chat: ChatModel = field(metadata={"given": True})
    """The language model."""
    count: int = 3
    """How many other wordings are asked for, 1 to 20. A model that writes more is cut, one that
    writes fewer gives fewer."""
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
        return "multi_query"

    def transform(self, query: SearchQuery) -> Transformed:
        """See `QueryTransform.transform`.

        Raises:
            LLMReplyError: the model's answer cannot be used.
            LLMError: there is none.
        """
        if not query.text.strip():
            return Transformed(queries=(query,))
        task = _TASK.format(count=self.count)
        written = ask_for_texts(self.chat, task, query.text, "queries")
        others = [text for text in written if text != query.text][: self.count]
        found = [replace(query, text=text, weight=query.weight * self.weight) for text in others]
        kept = [query] if self.keep_original or not found else []
        return Transformed(queries=(*kept, *found))
