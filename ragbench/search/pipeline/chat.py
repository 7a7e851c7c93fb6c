"""Answers that a language model writes from the contexts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta

from ragbench.core.case import Said
from ragbench.core.chat import ChatModel, Message, Reply, SamplingChat, Usage, task_messages
from ragbench.core.checked import Checked, Positive
from ragbench.core.result import GenerationResult
from ragbench.errors import ConfigError
from ragbench.ledger.identity import described
from ragbench.llm.budget import total
from ragbench.search.pipeline.extractive import ABSTENTIONS, abstention
from ragbench.text.language import guess_language
from ragbench.text.tables import table
from ragbench.text.tokens import normalise

_PROMPT = 1
"""Version of the prompt; part of the identity."""
_EDGES = " \t\r\n.!?。！？\"'“”«»"


_Answers = tuple[list[str], Usage | None, Decimal | None, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatGenerator(Checked):
    """Asks a model behind an OpenAI-compatible endpoint, or any `ChatModel`.

    Question and contexts reach it as JSON, so that no text among them can pass for an order. What
    it spends, keeps and repeats is the business of the one client (docs/llm.md).
    """

    chat: ChatModel = field(metadata={"given": True})
    """The language model."""
    candidates: Annotated[int, Meta(ge=1, le=50)] = 1
    """How many answers are drawn, 1 to 50. More than 1 needs a model that draws: one with a
    temperature above 0."""
    max_contexts: Positive | None = None
    """How many of the contexts the model is shown, the first ones; None for all."""
    instructions: str | None = None
    """Further instructions to the model, such as ``"Answer in one sentence."``."""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        draws = isinstance(self.chat, SamplingChat) and self.chat.temperature != 0
        if self.candidates > 1 and not draws:
            raise ConfigError(
                f"candidates must be 1, not {self.candidates}: the model always gives the same "
                "answer. Set its temperature above 0"
            )

    @property
    def identity(self) -> dict[str, object]:
        """What the answers depend on besides the contexts; JSON can hold it."""
        names = ("candidates", "max_contexts", "instructions")
        own = {name: getattr(self, name) for name in names}
        return {"method": "chat", "prompt": _PROMPT, **own, "chat": described(self.chat)}

    def generate(self, query: str, contexts: Sequence[str], history: Said = ()) -> GenerationResult:
        """Answers a question from its contexts, read with what was said before.

        None for a single answer, of whose chance to be right nothing is known.
        """
        shown = list(contexts)[: self.max_contexts]
        language = guess_language(query)
        if not shown:
            return GenerationResult(
                abstention(language), abstained=True, metadata={"model": None, "contexts": 0}
            )
        prompts = table("ragbench.text", "prompts")
        task = prompts["answer"].format(abstention=abstention(language))
        if self.instructions:
            task = f"{task}\n{self.instructions}"
        numbered = [{"number": at, "text": text} for at, text in enumerate(shown, start=1)]
        asked: dict[str, Any] = {"question": query, "contexts": numbered}
        if history:
            task = f"{task}\n{prompts['answer_before']}"
            asked = {"conversation": [*history], **asked}
        messages = task_messages(task, json.dumps(asked, ensure_ascii=False))
        texts, usage, cost, model = self._answers(messages)
        # Different answers as they were first worded, most frequent first; a Counter keeps equal
        # counts in the order of their first appearance.
        first = {_plain(text): text for text in reversed(texts)}
        counts = Counter(map(_plain, texts)).most_common()
        votes = [(first[key], count) for key, count in counts]
        response, count = votes[0]
        several = self.candidates > 1
        metadata: dict[str, Any] = {"model": model, "contexts": len(shown)}
        if usage is not None and usage.reported:
            names = ("prompt_tokens", "completion_tokens")
            metadata["usage"] = {name: getattr(usage, name) for name in names}
        metadata |= {} if cost is None else {"cost": float(cost)}
        metadata |= {"votes": [number for _, number in votes]} if several else {}
        return GenerationResult(
            response,
            multi_responses=[text for text, _ in votes] if several else None,
            confidence=count / len(texts) if several else None,
            abstained=True if _plain(response) in _DECLINED else None,
            metadata=metadata,
        )

    def _answers(self, messages: Sequence[Message]) -> _Answers:
        """The candidates, what they took and cost together, and the model that gave them."""
        chat = self.chat
        if not isinstance(chat, SamplingChat):
            return [chat.complete(messages).strip()], None, None, chat.name
        asked = range(self.candidates)
        replies: list[Reply[str]] = [chat.ask(messages, repeat=number) for number in asked]
        usage, cost = sum((one.usage for one in replies), Usage()), total(r.cost for r in replies)
        return [reply.text.strip() for reply in replies], usage, cost, replies[0].model


def _plain(text: str) -> str:
    """What is left of an answer when it is compared with another."""
    return " ".join(normalise(text).split()).strip(_EDGES)


_DECLINED = frozenset(map(_plain, ABSTENTIONS.values()))
