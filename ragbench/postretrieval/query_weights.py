"""What stretches of the candidates are worth for a query: its words in them, by rarity."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragbench.postretrieval.candidate_tokens import candidate_tokens
from ragbench.text.tokens import tokenise

__all__ = ["QueryWeights", "query_weights"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class QueryWeights:
    """The query's tokens with what each is worth among the candidates."""

    tokens: Sequence[str]
    """Each once."""
    weights: Sequence[float]
    """``ln(1 + (N - n + 0.5) / (n + 0.5))`` for each, with n of the N candidates holding it
    (Robertson and Zaragoza 2009)."""
    texts: Sequence[str]
    """The candidates."""
    candidates: Sequence[float]
    """What each whole candidate is worth."""
    _hits: Sequence[tuple[list[int], list[int]] | None]

    def held(self, place: int, start: int, end: int) -> set[int]:
        """Which tokens, by their place, stand in a stretch of a candidate's text.

        Args:
            place: the candidate's.
            start: where the stretch begins; white space or the text's end is around it.
            end: the offset behind it.
        """
        hits = self._hits[place]
        if hits is None:
            held = set(tokenise(self.texts[place][start:end]))
            return {at for at, token in enumerate(self.tokens) if token in held}
        offsets, tokens = hits
        first = bisect_left(offsets, start)
        return set(tokens[first : bisect_left(offsets, end, first)])

    def worth(self, tokens: Iterable[int]) -> float:
        """What different tokens are worth together; 0 for none.

        Rounded once, whatever their order: a part never weighs more than its whole.
        """
        return math.fsum([self.weights[token] for token in tokens])


def query_weights(query: str, texts: Sequence[str]) -> QueryWeights:
    """Weighs the query's tokens.

    Args:
        query: the question.
        texts: the candidates; at least one.
    """
    tokens = list(dict.fromkeys(tokenise(query)))
    found = candidate_tokens(texts)
    holding = found.counts(tokens) > 0
    weights = [
        math.log1p((len(texts) - count + 0.5) / (count + 0.5))
        for count in holding.sum(axis=0).tolist()
    ]
    return QueryWeights(
        tokens=tokens,
        weights=weights,
        texts=texts,
        candidates=list(map(math.fsum, (holding * weights).tolist())),
        _hits=found.hits(tokens),
    )
