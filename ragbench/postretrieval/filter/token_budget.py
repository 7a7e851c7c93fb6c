"""As many chunks as a budget of tokens allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragbench.postretrieval.contract import OperatorInput, OperatorOutput, in_order, refuse
from ragbench.postretrieval.derived import sliced
from ragbench.postretrieval.ranked import RankedChunk
from ragbench.postretrieval.settings import at_least, one_of
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.token_counter import APPROXIMATE, TokenCounter, count_within

__all__ = ["TokenBudget"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBudget:
    """Takes chunks in their order while their texts fit the budget.

    Tokens are counted text by text; what a format operator later puts around them is not part of
    it.

    Raises:
        ConfigError: the budget is below 1, or there is no such policy.
    """

    budget: int
    """Tokens that the texts may have together."""
    policy: Literal["drop", "truncate"] = "drop"
    """``"drop"`` leaves out each chunk that does not fit and goes on with the next one.
    ``"truncate"`` cuts the first that does not fit behind the last of its sentences that does,
    and leaves out all that follow."""
    counter: TokenCounter = APPROXIMATE
    """What counts tokens: approximate, tiktoken:ENCODING or tokenizers:PATH."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(
            at_least("budget", self.budget, 1),
            one_of("policy", self.policy, ("drop", "truncate")),
        )

    @property
    def name(self) -> str:
        """See `Operator.name`."""
        return "filter.token_budget"

    def apply(self, context: OperatorInput) -> OperatorOutput:
        """See `Operator.apply`."""
        left = self.budget
        kept: list[RankedChunk] = []
        for entry in context.chunks:
            cost = count_within(self.counter, entry.chunk.text, left)
            if cost is not None:
                kept.append(entry)
                left -= cost
            elif self.policy == "truncate":
                cut = truncated(entry, left, self.counter, by=self.name)
                kept.extend([] if cut is None else [cut])
                break
        notes = ("tokens are an estimate",) if self.counter.approximate else ()
        return OperatorOutput(chunks=in_order(kept), notes=notes)


def truncated(
    entry: RankedChunk, budget: int, counter: TokenCounter, *, by: str
) -> RankedChunk | None:
    """As many of a chunk's first sentences as a budget allows; None when not even the first fits.

    Args:
        entry: the chunk.
        budget: tokens.
        counter: counts them.
        by: the operator's name.
    """
    text = entry.chunk.text
    best: Span | None = None
    for sentence in split_sentences(text):
        if counter.count(text[: sentence.end]) > budget:
            break
        best = Span(0, sentence.end)
    return None if best is None else sliced(entry, [best], by=by)
