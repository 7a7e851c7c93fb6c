from collections.abc import Sequence

import pytest

from ragbench import Chunk
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.validators.validator import CascadeValidator


class Fixed:
    """A validator that always says the same."""

    def __init__(self, name: str, probability: float) -> None:
        self.name = self.identity = name
        self.probability = probability
        self.asked = 0

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        self.asked += 1
        return Verdict(
            query_id="",
            relevant_chunk_ids=(),
            relevance={},
            answer_present=False,
            answer_probability=self.probability,
            evidence=(),
            retrieval_quality=RetrievalQuality.POOR,
            message="",
            validator=self.name,
        )


@pytest.mark.parametrize(
    ("probability", "chunks", "escalated"),
    [(0.0, 1, 0), (0.09, 1, 0), (0.1, 1, 1), (0.5, 1, 1), (0.9, 1, 0), (1.0, 1, 0), (0.5, 0, 0)],
)
def test_only_the_unsure_band_goes_on(probability: float, chunks: int, escalated: int) -> None:
    cheap, dear = Fixed("cheap", probability), Fixed("dear", 0.7)
    cascade = CascadeValidator(first=cheap, second=dear, low=0.1, high=0.9)
    verdict = cascade.validate("q?", [Chunk(id="a", text="x")] * chunks)
    assert dear.asked == verdict.details["escalated"] == escalated
    assert verdict.validator == ("cascade: dear" if escalated else "cascade: cheap")
