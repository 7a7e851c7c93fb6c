"""The validator by words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Verdict
from ragbench.text.sentences import SENTENCES_VERSION
from ragbench.text.tokens import TOKENISER_VERSION
from ragbench.validators.calibration import (
    Absence,
    DecisionRule,
    ScoredPool,
    Weights,
    limits_for,
    shipped_rarity,
    shipped_weights,
)
from ragbench.validators.echoes import without_echo
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.lexical_features import LEXICAL_FEATURES, ScoredChunk, ask, read_in_windows
from ragbench.validators.objections import object_to
from ragbench.validators.parts import Part, split_query
from ragbench.validators.verdict import Finding, best_sentences


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalValidator:
    """A logistic regression on what words tell of a chunk, and one on the whole pool.

    It cannot see an answer in other words than the question's, nor that a passage speaks of the
    right things without answering. docs/validators.md holds its figures.
    """

    calibration: str | None = None
    """A file that ``ragbench calibrate`` wrote; None for what was measured on public data."""
    relevant: float | None = None
    """Probability from which on a chunk is relevant; None for the measured one."""
    present: float | None = None
    """Probability from which on the answer is present; None for the measured one."""
    absence: Absence = "document-absent"
    """What the corpus holds when it lacks an answer: the measured threshold gives a Yes a precision
    of 98 % against that. ``"siblings"``, other passages of the right document, is stricter."""

    def __post_init__(self) -> None:
        _ = self.limits

    @property
    def name(self) -> str:
        return "lexical"

    @property
    def identity(self) -> str:
        """Names the rules of the tokens and sentences, the weights and the limits."""
        versions = f"{TOKENISER_VERSION}.{SENTENCES_VERSION}"
        return f"lexical:{versions}:{self._weights.digest}:{self.limits.identity}"

    @property
    def limits(self) -> DecisionRule:
        return limits_for(
            self.name,
            self._weights.thresholds(self.absence),
            calibration=self.calibration,
            relevant=self.relevant,
            present=self.present,
        )

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        """Judges what was retrieved for one query; see `ragbench.validators.validator`."""
        intake = inspect_chunks(query, chunks)
        parts = [self._part(text, intake.chunks) for text in split_query(query)]
        judgement = ScoredPool(query=query, intake=intake, parts=parts)
        return judgement.verdict(self.limits, self.name)

    def _part(self, query: str, chunks: Sequence[Chunk]) -> Part:
        asked = ask(query, shipped_rarity())
        texts = [without_echo(query, chunk.text) or chunk.text for chunk in chunks]
        scored = read_in_windows(asked, texts, self._weights.chunk)
        return Part(
            text=query,
            findings=[
                self._finding(query, chunk, one) for chunk, one in zip(chunks, scored, strict=True)
            ],
        )

    def _finding(self, query: str, chunk: Chunk, scored: ScoredChunk) -> Finding:
        spans = best_sentences(scored.sentences, scored.scores)
        return Finding(
            chunk=chunk,
            probability=self._weights.probability(scored.logit),
            spans=spans,
            reason=_reason(scored),
            objection=object_to(query, chunk.text, spans[0]) if spans else None,
        )

    @property
    def _weights(self) -> Weights:
        return shipped_weights("lexical", LEXICAL_FEATURES)


def _reason(scored: ScoredChunk) -> str:
    values = dict(zip(LEXICAL_FEATURES, scored.features, strict=True))
    told = f"two sentences hold {values['window_coverage']:.0%} of what the query asks about"
    if values["type_agrees"]:
        return f"{told}, and something of the kind asked for"
    return f"{told}, and nothing of the kind asked for" if values["type_disagrees"] else told
