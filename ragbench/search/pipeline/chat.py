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
from ragbench.core.record import Record
from ragbench.core.result import GenerationResult
from ragbench.errors import ConfigError
from ragbench.ledger.identity import described
from ragbench.llm.budget import total
from ragbench.search.pipeline.extractive import ABSTENTIONS, abstention
from ragbench.text.language import guess_language
from ragbench.text.tables import table
from ragbench.text.tokens import normalise

_PROMPT = 1
"""Version of the prompt; part of the identity, so that answers to another prompt are not reused."""
_EDGES = " \t\r\n.!?。！？\"'“”«»"
"""Marks around an answer that make no difference when answers are compared."""


class _Candidates(Record):
    """The answers that a model gave to one question, and what they took."""

    texts: list[str]
    model: str
    """The one that answered."""
    usage: Usage | None = None
    """What all candidates took together; None where the model does not say."""
    cost: Decimal | None = None


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
        """Refuses several candidates of a model that would give the same answer each time.

        Candidates are answers drawn at random, which then vote: a temperature of 0 draws the same
        one.
        """
        Checked.__post_init__(self)
        # None as temperature is the endpoint's own, which mostly draws.
        is_sampling = isinstance(self.chat, SamplingChat) and self.chat.temperature != 0
        if self.candidates > 1 and not is_sampling:
            raise ConfigError(
                f"candidates must be 1, not {self.candidates}: the model always gives the same "
                "answer. Set its temperature above 0"
            )

    @property
    def identity(self) -> dict[str, object]:
        """All that the answers depend on besides question and contexts, as JSON.

        Stored answers are used again only while it is the same.
        """
        return {
            "method": "chat",
            "prompt": _PROMPT,
            "candidates": self.candidates,
            "max_contexts": self.max_contexts,
            "instructions": self.instructions,
            "chat": described(self.chat),
        }

    def generate(self, query: str, contexts: Sequence[str], history: Said = ()) -> GenerationResult:
        """The model's answer to a question from its contexts, read with the conversation before it.

        The confidence is the share of the candidates that agree; None for a single answer, of whose
        chance to be right nothing is known. Without contexts no model is called, and the answer
        declines.

        Args:
            contexts: best first; `max_contexts` may cut them.
            history: the turns of the conversation so far.
        """
        shown = list(contexts)[: self.max_contexts]
        if not shown:  # no call is paid for: the model could only answer from memory
            return GenerationResult(
                abstention(guess_language(query)),
                abstained=True,
                metadata={"model": None, "contexts": 0},
            )
        messages = self._model_messages(query, shown, history)
        candidates = self._drawn_candidates(messages)
        votes = _counted_answers(candidates.texts)
        response, count = votes[0]
        metadata: dict[str, Any] = {"model": candidates.model, "contexts": len(shown)}
        usage = candidates.usage
        # Counts of tokens that the provider did not report are 0 and mean nothing: left out.
        if usage is not None and usage.reported:
            metadata["usage"] = {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
            }
        if candidates.cost is not None:
            # JSON has no decimals, and results are stored as JSON.
            metadata["cost"] = float(candidates.cost)
        multi_responses = None
        confidence = None
        if self.candidates > 1:
            metadata["votes"] = [votes_of_text for _, votes_of_text in votes]
            multi_responses = [text for text, _ in votes]
            confidence = count / len(candidates.texts)
        # An answer in other words may decline, too: None leaves that to the evaluation.
        abstained = None
        if _compared_form(response) in _DECLINED:
            abstained = True
        return GenerationResult(
            response,
            multi_responses=multi_responses,
            confidence=confidence,
            abstained=abstained,
            metadata=metadata,
        )

    def _model_messages(self, query: str, contexts: Sequence[str], history: Said) -> list[Message]:
        """The messages to the model: its task, and conversation, question and contexts as JSON.

        The task names the sentence to decline with, in the question's language. The task mentions a
        conversation only where there is one. Other words change answers: then `_PROMPT` has to
        rise.
        """
        prompts = table("ragbench.text", "prompts")
        task = prompts["answer"].format(abstention=abstention(guess_language(query)))
        if self.instructions:
            task = f"{task}\n{self.instructions}"
        # The keys come in the order in which the model is to read them.
        content: dict[str, Any] = {}
        if history:
            task = f"{task}\n{prompts['answer_before']}"
            content["conversation"] = list(history)
        content["question"] = query
        numbered_contexts: list[dict[str, Any]] = []
        for number, text in enumerate(contexts, start=1):
            numbered_contexts.append({"number": number, "text": text})
        content["contexts"] = numbered_contexts
        return task_messages(task, json.dumps(content, ensure_ascii=False))

    def _drawn_candidates(self, messages: Sequence[Message]) -> _Candidates:
        """As many answers of the model as there are candidates, with their tokens and cost.

        Each answer has a number in the cache, so that the first is not repeated for all.
        """
        chat = self.chat
        if not isinstance(chat, SamplingChat):  # any `ChatModel`: it reports no usage or cost
            return _Candidates(texts=[chat.complete(messages).strip()], model=chat.name)
        replies: list[Reply[str]] = []
        for number in range(self.candidates):
            # By its number the cache keeps each answer by itself, and does not repeat the first.
            replies.append(chat.ask(messages, repeat=number))
        return _Candidates(
            texts=[reply.text.strip() for reply in replies],
            model=replies[0].model,
            usage=sum((reply.usage for reply in replies), Usage()),
            cost=total(reply.cost for reply in replies),
        )


def _counted_answers(texts: Sequence[str]) -> list[tuple[str, int]]:
    """The different answers in their first wording, each with its count; the most frequent first.

    The first is the answer that is given: an answer that a model repeats most is most often right
    (self-consistency, Wang et al. 2022).
    """
    wordings: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for text in texts:
        plain_text = _compared_form(text)
        wordings.setdefault(plain_text, text)
        counts[plain_text] += 1
    # Equal counts stay in the order in which the answers first appeared.
    return [(wordings[plain_text], count) for plain_text, count in counts.most_common()]


def _compared_form(text: str) -> str:
    """An answer without case, spacing and the marks around it: equal answers count as one.

    Votes are counted by it, and an answer that declines is known by it.
    """
    return " ".join(normalise(text).split()).strip(_EDGES)


_DECLINED = frozenset(map(_compared_form, ABSTENTIONS.values()))
"""The sentences to decline with, in all languages, as `_compared_form` compares them."""
