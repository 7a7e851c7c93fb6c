"""Listwise and pointwise by a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from msgspec import Meta

from ragbench.core.chat import ChatModel, task_messages
from ragbench.core.checked import Checked, Positive, refuse
from ragbench.core.chunk import Chunk
from ragbench.io.values import as_list
from ragbench.llm.schema import ask_structure, field_schema
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores, shown_texts
from ragbench.safe_text import counted
from ragbench.text.tables import table


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmListwiseReranker(Checked):
    """Shows the model a window of candidates and asks for their order, from the last to the first.

    Windows overlap, so that the best of each is carried to the next (Sun et al. 2023, "Is ChatGPT
    Good at Search?"). What the model leaves out keeps its order behind what it names; what it names
    twice counts once. Scores are 1 / rank.
    """

    name = "llm_listwise"

    asks_elsewhere: ClassVar[bool] = True

    chat: ChatModel
    """The language model."""
    window: Annotated[int, Meta(ge=2)] = 20
    """How many candidates are shown at once, at least 2."""
    step: Positive = 10
    """How far the window moves, from 1 to the window."""
    max_characters: Positive = 2000
    """How much of a chunk is shown; a note counts the cut ones."""

    def __post_init__(self) -> None:
        """Refuses a step longer than the window: the candidates between would never be shown.

        The error comes while settings are read, and not at the first question.
        """
        Checked.__post_init__(self)
        if self.step > self.window:
            refuse(f"step must be at most {self.window}, not {self.step}")

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Scores by the model's order: 1 / rank, the best first.

        The window moves from the end to the start, so that the last candidate can reach the front.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        texts, notes = shown_texts(chunks, self.max_characters)
        order = list(range(len(chunks)))
        start = max(0, len(order) - self.window)
        while True:
            shown = order[start : start + self.window]
            # In place: the best of this window move to its start, which the next one overlaps.
            order[start : start + self.window] = self._places_in_order(query, texts, shown)
            if start == 0:
                break
            start = max(0, start - self.step)
        scores = [0.0] * len(chunks)
        for rank, place in enumerate(order, start=1):
            scores[place] = 1 / rank
        return NotedScores(tuple(scores), notes)

    def _places_in_order(self, query: Query, texts: Sequence[str], places: list[int]) -> list[int]:
        """The places of one window's candidates in the order that the model gives.

        Args:
            texts: of all candidates.
            places: of the window's candidates, in their present order.
        """
        if len(places) < 2:
            return places
        numbered: list[str] = []
        for number, place in enumerate(places, start=1):
            numbered.append(f"[{number}]\n{texts[place]}")
        passages = "\n\n".join(numbered)
        # The question stands before the passages, which may be long, and behind them.
        task = (
            f"Question: {query.text}\n\n{passages}\n\nQuestion: {query.text}\n"
            f"Order the {len(places)} passages, the one that answers the question best first. "
            'Reply only with a JSON object that holds their numbers, like this: {"order": [2, 1]}'
        )
        prompts = table("ragbench.text", "prompts")
        messages = task_messages(prompts["order"], task)
        form = {"type": "array", "items": {"type": "integer"}}
        schema = field_schema("order", form, partial(_complete_order, size=len(places)))
        positions = ask_structure(self.chat, messages, schema)
        return [places[position] for position in positions]


def _complete_order(order: object, size: int) -> list[int]:
    """An order of all passages, as places from 0, out of the numbers that a model named.

    The passages that were named come first, each once, then the others in their order. Models leave
    passages out, repeat some and make up numbers: what is usable is used.

    Raises:
        ValueError: none is usable; the model is then asked again.
    """
    positions: list[int] = []
    for number in as_list(order):
        # `type`, because true is an int, too, and no number of a passage.
        if type(number) is int and 0 < number <= size:
            positions.append(number - 1)
    if not positions:
        raise ValueError(f"the language model named none of {counted(size, 'passage')}")
    # All passages are put behind those that the model named: `dict.fromkeys` then keeps each
    # passage where it comes first.
    positions.extend(range(size))
    return list(dict.fromkeys(positions))


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmPointwiseReranker(Checked):
    """Asks for a grade from 0 to ``highest`` for each chunk; scores are grade / highest."""

    name = "llm_pointwise"

    asks_elsewhere: ClassVar[bool] = True
    scores_alone: ClassVar[bool] = True

    chat: ChatModel
    """The language model."""
    highest: Positive = 10
    """The best grade, at least 1."""
    max_characters: Positive = 8000
    """How much of a chunk is shown; a note counts the cut ones."""

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The model's grade of each chunk, as a share of the highest.

        The model is asked once for each chunk: a grade does not depend on the other candidates.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        texts, notes = shown_texts(chunks, self.max_characters)
        # The model is asked about one passage at a time: it would compare the passages of a list.
        scores = [self._grade(query, text) / self.highest for text in texts]
        return NotedScores(scores, notes)

    def _grade(self, query: Query, passage: str) -> float:
        """The grade that the model gives a passage, from 0 to the highest.

        The task and the form of its answer are the prompt's; another wording gives other grades.
        """
        task = (
            f"Question: {query.text}\n\nPassage:\n{passage}\n\n"
            f"How well does the passage answer the question? 0 means not at all, {self.highest} "
            'means fully. Reply only with a JSON object, like this: {"grade": number}'
        )
        prompts = table("ragbench.text", "prompts")
        messages = task_messages(prompts["grade"], task)
        # A grade beyond the scale is refused, and the model asked again.
        check = partial(_checked_grade, highest=self.highest)
        schema = field_schema("grade", {"type": "number"}, check)
        return ask_structure(self.chat, messages, schema)


def _checked_grade(grade: object, highest: int) -> float:
    """The grade out of a model's answer.

    Raises:
        ValueError: it is no number, or outside the scale; the model is then asked again.
    """
    if isinstance(grade, bool) or not isinstance(grade, int | float):
        raise ValueError("'grade' is not a number")
    if not 0 <= grade <= highest:
        raise ValueError(f"the language model graded {grade:g} on 0 to {highest}")
    return float(grade)
