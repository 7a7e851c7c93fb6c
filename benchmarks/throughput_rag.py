"""A trivial RAG and its cases, made by formula: no state that grows with the number of cases."""

from __future__ import annotations

from ragbench import Case, GenerationResult, RAGInterface, RetrievalResult

__all__ = ["Trivial", "case", "response"]

_STEMS = [
    "alpha",
    "bravo",
    "cargo",
    "delta",
    "ember",
    "fable",
    "grain",
    "haven",
    "igloo",
    "jolly",
    "karma",
    "lemon",
    "mango",
    "noble",
]
_ENDS = ("", "s", "ed", "ing", "er", "ist")
WORDS = [stem + end for stem in _STEMS for end in _ENDS]
CHUNKS = 5_000
TOP = 10


def _words(number: int, step: int, count: int) -> list[str]:
    return [WORDS[(number * step + place * (step + place)) % len(WORDS)] for place in range(count)]


def response(number: int) -> str:
    """The answer to a question: 12 words."""
    return " ".join(_words(number, 7, 12))


def reference(number: int) -> str:
    """The right answer: for one question in five the same, else up to four words are others."""
    words = _words(number, 7, 12)
    for place in range(number % 5):
        words[place * 3] = WORDS[(number + place) % len(WORDS)]
    return " ".join(words)


def retrieved(number: int) -> list[int]:
    """Numbers of the ten chunks that are retrieved."""
    return [(number * 31 + place * 17) % CHUNKS for place in range(TOP)]


def case(number: int) -> Case:
    """Question, answer and three relevant chunks, of which up to three are retrieved."""
    found = retrieved(number)
    relevant = [found[place] if place < number % 4 else found[place] + CHUNKS for place in range(3)]
    return Case(
        id=f"q{number}",
        query=f"{' '.join(_words(number, 11, 9))} {number}",
        reference=reference(number),
        reference_context_ids=tuple(f"d{chunk}" for chunk in relevant),
    )


class Trivial(RAGInterface):
    """Retrieves ten chunks of 60 words and answers, by formula."""

    def __init__(self) -> None:
        """Makes the chunks."""
        super().__init__()
        self.texts = [f"{' '.join(_words(chunk, 5, 59))} {chunk}" for chunk in range(CHUNKS)]
        self.ids = [f"d{chunk}" for chunk in range(CHUNKS)]

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        """Ten chunks a query."""
        results: list[RetrievalResult] = []
        for query in queries:
            chunks = retrieved(int(query.rpartition(" ")[2]))
            results.append(
                RetrievalResult(
                    [self.texts[chunk] for chunk in chunks],
                    context_ids=[self.ids[chunk] for chunk in chunks],
                )
            )
        return results

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        """An answer a query."""
        return [GenerationResult(response(int(query.rpartition(" ")[2]))) for query in queries]
