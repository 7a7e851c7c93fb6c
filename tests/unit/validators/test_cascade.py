from collections.abc import Sequence

import pytest

from ragbench import Chunk, build_validator
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.errors import ConfigError
from ragbench.validators.validator import CascadeValidator


class Fixed:
    """A validator that always says the same."""

    def __init__(self, name: str, probability: float) -> None:
        self.name = name
        self.identity = name
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


CHUNKS = [Chunk(id="a", text="x")]


@pytest.mark.parametrize(
    ("probability", "escalated"), [(0.0, 0), (0.09, 0), (0.1, 1), (0.5, 1), (0.9, 0), (1.0, 0)]
)
def test_only_the_unsure_band_goes_on(probability: float, escalated: int) -> None:
    cheap, dear = Fixed("cheap", probability), Fixed("dear", 0.7)
    verdict = CascadeValidator(first=cheap, second=dear, low=0.1, high=0.9).validate("q?", CHUNKS)
    assert dear.asked == escalated
    assert verdict.details["escalated"] == escalated
    assert verdict.validator == ("cascade: dear" if escalated else "cascade: cheap")


def test_no_chunks_never_go_on() -> None:
    dear = Fixed("dear", 0.7)
    CascadeValidator(first=Fixed("cheap", 0.5), second=dear).validate("q?", [])
    assert dear.asked == 0


def test_it_is_built_from_settings_with_validators_within() -> None:
    built = build_validator(
        {
            "name": "cascade",
            "first": "lexical",
            "second": {"name": "lexical", "absence": "siblings"},
            "high": 0.8,
        }
    )
    assert built.identity.startswith("cascade:0.05:0.8:(lexical:")


def test_a_band_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="low first"):
        build_validator({"name": "cascade", "first": "lexical", "second": "lexical", "low": 0.99})
