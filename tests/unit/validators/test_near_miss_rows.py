"""What the local validator's weights are learned from beside pools."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.train_validator.near_miss_rows import near_miss_rows
from benchmarks.validation_pools import Collection, Labelled
from ragbench import Chunk
from ragbench.text.onnx_pairs import PairReading
from ragbench.validators.near_misses import NEAR_MISS_KINDS

REST = "It burned down twice before the war. Three families from the valley lived there for long."


def collection() -> Collection:
    chunks: list[Chunk] = []
    questions: list[Labelled] = []
    for at, town in enumerate(("Tarn", "Ebro", "Ouse", "Loire")):
        before = f"The first mill at {town} was built in "
        text = f"{before}{1901 + at}. {REST}"
        chunks.append(Chunk(id=town, text=text, document_id=town))
        questions.append(
            Labelled(
                id=f"q-{town}",
                text=f"When was the first mill at {town} built?",
                gold=frozenset([town]),
                own=town,
                answers=(str(1901 + at),),
                spans=((town, len(before), len(before) + 4),),
                reference=str(1901 + at),
            )
        )
    return Collection(name="mills", chunks=tuple(chunks), questions=tuple(questions))


def test_answers_and_near_misses_become_rows_with_the_readers_logit() -> None:
    read: list[tuple[str, str]] = []

    def answered(query: str, texts: Sequence[str]) -> list[PairReading]:
        read.extend((query, text) for text in texts)
        return [PairReading(logit=7.0, span=1.0, start=0, end=len(one)) for one in texts]

    rows = list(near_miss_rows(collection(), answered, per_kind=2))
    answers = [row for row in rows if row.answers]
    assert len(answers) == 6  # two of each of three forms
    assert {row.question for row in rows} <= {f"q-{one.id}" for one in collection().chunks}
    assert all(row.values.shape == (1, 2) and row.values[0, 1] == 0.7 for row in rows)
    assert 6 < len(rows) <= 6 + 2 * len(NEAR_MISS_KINDS)
    assert len(read) > len(rows)


def test_what_a_check_of_the_text_decides_teaches_nothing() -> None:
    asked: list[str] = []

    def read(query: str, texts: Sequence[str]) -> list[PairReading]:
        asked.append(query)
        return [PairReading(logit=0.0, span=0.0, start=0, end=len(one)) for one in texts]

    rows = list(near_miss_rows(collection(), read, per_kind=4))
    # Asked of the last mill, or when it was demolished: the passage says "first" and "built".
    decided = [query for query in asked if "last mill" in query or "demolished" in query]
    assert len(decided) == 4
    assert len(rows) <= len(asked) - len(decided)
    assert len([row for row in rows if row.answers]) == 12
