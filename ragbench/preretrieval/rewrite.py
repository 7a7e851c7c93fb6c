"""The query, said anew by a language model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ragbench.llm.chat import ChatModel
from ragbench.preretrieval.asking import ask_for_texts
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.preretrieval.transform import Transformed

__all__ = ["Rewrite"]

_TASK = (
    "You rewrite a user's query for a search engine. Keep its language, its meaning and every "
    "name, number and date in it. Leave out greetings and stories around what is asked; write "
    "abbreviations and references in full where the query itself says what they stand for. Add no "
    'facts. Answer with a JSON object {"query": "the rewritten query"} and nothing else.'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewrite:
    """Searches for what a model makes of the query, in its place.

    Ma et al. 2023, "Query Rewriting for Retrieval-Augmented Large Language Models".
    """

    chat: ChatModel = field(metadata={"given": True})
    """The language model."""
    keep_original: bool = False
    """Whether the query as it was is searched for too, with the same weight."""
    prompt: int = field(default=1, init=False)
    """Version of the prompt; part of the identity."""

    @property
    def name(self) -> str:
        """See `QueryTransform.name`."""
        return "rewrite"

    def transform(self, query: SearchQuery) -> Transformed:
        """See `QueryTransform.transform`.

        Raises:
            LLMReplyError: the model's answer cannot be used.
            LLMError: there is none.
        """
        if not query.text.strip():
            return Transformed(queries=(query,))
        text = ask_for_texts(self.chat, _TASK, query.text, "query")[0]
        rewritten = replace(query, text=text)
        return Transformed(queries=(query, rewritten) if self.keep_original else (rewritten,))
