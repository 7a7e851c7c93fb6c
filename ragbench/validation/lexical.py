"""The validator that needs no model: words, their rarity, and the look of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.records.corpus import Chunk
from ragbench.records.validation import Validation
from ragbench.text.sentences import SENTENCES_VERSION
from ragbench.text.tokens import TOKENISER_VERSION
from ragbench.validation.evidence import best_sentences
from ragbench.validation.intake import take_in
from ragbench.validation.judged import Judgement, Limits, limits_for
from ragbench.validation.lexical_features import LEXICAL_FEATURES, ask
from ragbench.validation.lexical_scores import ScoredChunk, read_in_windows
from ragbench.validation.linear_model import logistic
from ragbench.validation.parts import Part, merge_parts, split_query
from ragbench.validation.verdict_rule import Finding
from ragbench.validation.weights_file import Absence, Weights, shipped_rarity, shipped_weights

__all__ = ["LexicalValidator"]


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
        """Refuses thresholds out of their range and files that cannot be read."""
        _ = self.limits

    @property
    def name(self) -> str:
        """``"lexical"``."""
        return "lexical"

    @property
    def identity(self) -> str:
        """Names the rules of the tokens and sentences, the weights and the limits."""
        versions = f"{TOKENISER_VERSION}.{SENTENCES_VERSION}"
        return f"lexical:{versions}:{self._weights.digest}:{self.limits.identity}"

    @property
    def limits(self) -> Limits:
        """Its calibration and thresholds."""
        return limits_for(
            self.name,
            self._weights.thresholds(self.absence),
            calibration=self.calibration,
            relevant=self.relevant,
            present=self.present,
        )

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Validation:
        """Judges what was retrieved for one query; see `ragbench.validation.validator`."""
        intake = take_in(query, chunks)
        parts = [self._part(text, intake.chunks) for text in split_query(query)]
        findings, probability, reasons = merge_parts(parts)
        judgement = Judgement(
            query=query,
            intake=intake,
            findings=findings,
            answer_probability=probability,
            reasons=reasons,
        )
        return judgement.verdict(self.limits, self.name)

    def _part(self, query: str, chunks: Sequence[Chunk]) -> Part:
        asked = ask(query, shipped_rarity())
        scored = read_in_windows(asked, [chunk.text for chunk in chunks], self._weights.chunk)
        findings = [
            Finding(
                chunk=chunk,
                probability=logistic(one.logit),
                spans=best_sentences(one.sentences, one.scores),
                reason=_reason(one),
            )
            for chunk, one in zip(chunks, scored, strict=True)
        ]
        probability = self._weights.answer_probability([one.logit for one in scored])
        return Part(text=query, findings=findings, answer_probability=probability)

    @property
    def _weights(self) -> Weights:
        return shipped_weights("lexical", LEXICAL_FEATURES)


def _reason(scored: ScoredChunk) -> str:
    values = dict(zip(LEXICAL_FEATURES, scored.features, strict=True))
    told = f"two sentences hold {values['window_coverage']:.0%} of what the query asks about"
    if values["type_agrees"]:
        return f"{told}, and something of the kind asked for"
    return f"{told}, and nothing of the kind asked for" if values["type_disagrees"] else told
