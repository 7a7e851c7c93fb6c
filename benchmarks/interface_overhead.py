"""What the interface costs a call, beside a bare slots dataclass and beside a direct call.

Run it from the project's root::

    python benchmarks/interface_overhead.py

Prints microseconds of processor time a call: the best of nine repetitions, garbage collection
off. Processor time, so that other programs on the machine do not count; compare rows, not machines.
"""

from __future__ import annotations

import asyncio
import gc
import time
import timeit
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult
from ragbench.rag.parts import OneCall

CONTEXTS = [f"context number {number} with some words in it" for number in range(10)]
IDS = [f"chunk-{number}" for number in range(10)]
SCORES = [1.0 - number / 10 for number in range(10)]
METADATA = [{"page": number} for number in range(10)]
QUERIES = [f"question {number}" for number in range(100)]
RETRIEVE = (
    "retrieve",
    "retrieve_with_metadata",
    "batch_retrieve",
    "batch_retrieve_with_metadata",
)
GENERATE = tuple(name.replace("retrieve", "generate") for name in RETRIEVE)


@dataclass(frozen=True, slots=True)
class Bare:
    """The same fields as a `RetrievalResult`, and no checks."""

    contexts: list[str]
    context_ids: list[str] | None = None
    scores: list[float] | None = None
    context_metadata: list[dict[str, int]] | None = None
    metadata: dict[str, int] | None = None


def microseconds(function: Callable[[], object], calls: int = 1) -> float:
    """Best processor time of a call in microseconds.

    Args:
        function: what is timed.
        calls: how many calls one execution stands for.
    """
    timer = timeit.Timer(function, timer=time.process_time)
    number = max(1, timer.autorange()[0] // 4)
    gc.disable()
    try:
        runs = timer.repeat(repeat=9, number=number)
    finally:
        gc.enable()
    return min(runs) / number / calls * 1e6


def answer(name: str) -> Callable[..., Any]:
    """A method that costs next to nothing: it returns what was made before."""
    rich = name.endswith("_with_metadata")
    one: Any = RetrievalResult(CONTEXTS, context_ids=IDS, scores=SCORES) if rich else CONTEXTS
    if "generate" in name:
        one = GenerationResult("answer") if rich else "answer"

    def single(self: object, *arguments: Any) -> Any:
        return one

    def batch(self: object, queries: list[str], *rest: Any) -> Any:
        return [one] * len(queries)

    return batch if name.startswith("batch_") else single


def build(implemented: tuple[str, ...]) -> Any:
    """A RAG that has just these methods."""
    namespace = {name: answer(name) for name in implemented}
    families = {"retrieval" if "retrieve" in name else "generation" for name in implemented}
    made = types.new_class(
        "Timed", (RAGInterface,), {"families": families}, lambda body: body.update(namespace)
    )
    return made()


class Later(AsyncRAGInterface, families=("retrieval",)):
    """One coroutine method, from which the rest is derived."""

    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        """Returns at once."""
        return CONTEXTS


def construction() -> None:
    """Prints what making a result costs."""
    print("making a result (10 contexts)                              us    beside bare")
    bare = microseconds(lambda: Bare(CONTEXTS, IDS, SCORES, METADATA))
    rows: dict[str, Callable[[], object]] = {
        "RetrievalResult, contexts only": lambda: RetrievalResult(CONTEXTS),
        "RetrievalResult, ids, scores, context metadata": lambda: RetrievalResult(
            CONTEXTS, context_ids=IDS, scores=SCORES, context_metadata=METADATA
        ),
        "GenerationResult, response only": lambda: GenerationResult("answer"),
        "GenerationResult, candidates, confidence": lambda: GenerationResult(
            "answer", multi_responses=["a", "b"], confidence=0.5
        ),
    }
    print(f"  {'bare slots dataclass, the same fields':50} {bare:8.2f}")
    for label, function in rows.items():
        cost = microseconds(function)
        print(f"  {label:50} {cost:8.2f} {cost - bare:+12.2f}")


def fallbacks() -> None:
    """Prints what each derived form costs, beside the method that it is derived from."""
    print("\nderived forms, us a query (batches of 100)                 us   own method")
    for family in (RETRIEVE, GENERATE):
        for source in family:
            rag = build((source,))
            own = _time(rag, source)
            for target in family:
                if target != source:
                    cost = _time(rag, target)
                    print(f"  {f'{target} <- {source}':58} {cost:6.2f} {own:10.2f}")
    rag = Later()
    loop = asyncio.new_event_loop()
    for target in ("retrieve", "retrieve_with_metadata"):
        cost = microseconds(lambda t=target: loop.run_until_complete(getattr(rag, t)("q")))  # type: ignore[misc]
        label = "async retrieve, direct" if target == "retrieve" else f"async {target} <- retrieve"
        print(f"  {label + ' (with the loop)':58} {cost:6.2f}")
    loop.close()


def _time(rag: Any, name: str) -> float:
    method = getattr(rag, name)
    batch = name.startswith("batch_")
    if "retrieve" in name:
        arguments: tuple[Any, ...] = (QUERIES,) if batch else (QUERIES[0],)
    else:
        arguments = (QUERIES, [CONTEXTS] * len(QUERIES)) if batch else (QUERIES[0], CONTEXTS)
    return microseconds(lambda: method(*arguments), calls=len(QUERIES) if batch else 1)


def others() -> None:
    """Prints what defining a class and remembering an answer cost."""
    print("\nonce                                                       us")
    print(f"  {'defining a class with two methods':58} {microseconds(lambda: build(_TWO)):6.0f}")
    memo = OneCall("a benchmark", lambda _: (CONTEXTS, "answer"), "a benchmark")

    def remember() -> None:
        memo.retrieve("q")
        memo.generate("q", CONTEXTS)

    print(f"  {'remembering and finding a one-call answer':58} {microseconds(remember):6.2f}")


_TWO = ("retrieve", "generate")

if __name__ == "__main__":
    construction()
    fallbacks()
    others()
