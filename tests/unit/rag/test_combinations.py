"""Every combination of implemented forms, plain and async: who is called, how often, with what."""

import asyncio
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult
from ragbench.errors import InterfaceError

RETRIEVE = (
    "retrieve",
    "retrieve_with_metadata",
    "batch_retrieve",
    "batch_retrieve_with_metadata",
)
GENERATE = (
    "generate",
    "generate_with_metadata",
    "batch_generate",
    "batch_generate_with_metadata",
)

# Written out by hand, apart from the implementation: the order in which other forms stand in.
STAND_INS = {
    "{}": ("{}_with_metadata", "batch_{}", "batch_{}_with_metadata"),
    "{}_with_metadata": ("batch_{}_with_metadata", "{}", "batch_{}"),
    "batch_{}": ("batch_{}_with_metadata", "{}", "{}_with_metadata"),
    "batch_{}_with_metadata": ("{}_with_metadata", "batch_{}", "{}"),
}

QUERIES = ["first?", "second?", "third?"]
CONTEXTS = [["a"], ["b", "c"], []]

Row = tuple[Any, ...]
"""The arguments of one query."""


def serving_method(name: str, implemented: frozenset[str]) -> str | None:
    """The method that must be called when ``name`` is; None where there is none."""
    family = "retrieve" if "retrieve" in name else "generate"
    form = name.replace(family, "{}")
    if name in implemented:
        return name
    for stand_in in STAND_INS[form]:
        method = stand_in.format(family)
        if method in implemented:
            return method
    return None


def subsets(names: tuple[str, ...]) -> list[frozenset[str]]:
    """The fifteen ways to implement at least one form of a family."""
    ways: list[frozenset[str]] = []
    for size in (1, 2, 3, 4):
        for chosen in combinations(names, size):
            ways.append(frozenset(chosen))
    return ways


def combined_families() -> list[frozenset[str]]:
    """Each family alone, and each way to write the one beside a way to write the other."""
    ways_to_retrieve = subsets(RETRIEVE)
    ways_to_generate = subsets(GENERATE)
    beside: list[frozenset[str]] = []
    # Opposite ways go together, as few forms of the one with many of the other.
    for retrieve, generate in zip(ways_to_retrieve, reversed(ways_to_generate), strict=True):
        beside.append(retrieve | generate)
    return [*ways_to_retrieve, *ways_to_generate, *beside]


# --- a RAG that records its calls


def result_of_query(name: str, row: Row) -> Any:
    """What the recorded implementation of a form returns for one query."""
    has_metadata = name.endswith("_with_metadata")
    if "retrieve" in name:
        contexts = [f"{row[0]} 1", f"{row[0]} 2"]
        return RetrievalResult(contexts, metadata={"by": name}) if has_metadata else contexts
    response = f"{row[0]} {'+'.join(row[1])}"
    return GenerationResult(response, metadata={"by": name}) if has_metadata else response


def recording_method(name: str, *, is_async: bool) -> Callable[..., Any]:
    def answer(self: Any, *arguments: Any) -> Any:
        self.calls.append((name, arguments))
        if not name.startswith("batch_"):
            return result_of_query(name, arguments)
        rows = zip(*arguments, strict=True)
        return [result_of_query(name, row) for row in rows]

    async def answer_later(self: Any, *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return answer(self, *arguments)

    return answer_later if is_async else answer


def recording_rag(implemented: frozenset[str], *, is_async: bool) -> Any:
    families: set[str] = set()
    methods: dict[str, Callable[..., Any]] = {}
    for name in implemented:
        families.add("retrieval" if "retrieve" in name else "generation")
        methods[name] = recording_method(name, is_async=is_async)
    base: Any = AsyncRAGInterface if is_async else RAGInterface
    rag: Any = type("Recording", (base,), methods, families=families)()
    rag.calls = []
    return rag


def called(rag: Any, name: str, arguments: Row) -> Any:
    value = getattr(rag, name)(*arguments)
    return asyncio.run(value) if rag.is_async else value


# --- what the caller of a method gets


def expected_result(name: str, server: str, row: Row) -> Any:
    """What the caller of one form gets where another one served it."""
    plain = result_of_query(name.removesuffix("_with_metadata"), row)
    if not name.endswith("_with_metadata"):
        return plain
    metadata = {"by": server} if server.endswith("_with_metadata") else None
    result: Any = RetrievalResult if "retrieve" in name else GenerationResult
    return result(plain, metadata=metadata)


def assert_served(rag: Any, name: str, server: str) -> None:
    """All rows come back in their order, by one call of a batch form or by a call for each row."""
    columns = [QUERIES] if "retrieve" in name else [QUERIES, CONTEXTS]
    rows: list[Row] = list(zip(*columns, strict=True))
    rag.calls.clear()

    if name.startswith("batch_"):
        results = called(rag, name, tuple(columns))
    else:
        rows = rows[1:2]
        results = [called(rag, name, rows[0])]

    assert results == [expected_result(name, server, row) for row in rows]
    if server.startswith("batch_"):
        columns_of_rows = tuple(list(column) for column in zip(*rows, strict=True))
        assert rag.calls == [(server, columns_of_rows)]
    else:
        assert rag.calls == [(server, row) for row in rows]


def assert_refused(rag: Any, name: str) -> None:
    arguments: Row = (QUERIES,) if "retrieve" in name else (QUERIES, CONTEXTS)
    if not name.startswith("batch_"):
        arguments = tuple(column[1] for column in arguments)

    with pytest.raises(InterfaceError, match=name):
        called(rag, name, arguments)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(
    "implemented", combined_families(), ids=lambda names: "+".join(sorted(names))
)
def test_every_method_works_in_every_combination(
    implemented: frozenset[str], is_async: bool
) -> None:
    rag = recording_rag(implemented, is_async=is_async)

    assert rag.implemented == implemented
    for name in (*RETRIEVE, *GENERATE):
        server = serving_method(name, implemented)
        if server is None:
            assert_refused(rag, name)
        else:
            assert_served(rag, name, server)
