"""Every combination of implemented forms, plain and async: who is called, how often, with what."""

import asyncio
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult
from ragbench.errors import InterfaceError

FORMS = ("{}", "{}_with_metadata", "batch_{}", "batch_{}_with_metadata")
RETRIEVE = tuple(form.format("retrieve") for form in FORMS)
GENERATE = tuple(form.format("generate") for form in FORMS)

# Written out by hand, apart from the implementation: the order in which others stand in.
STAND_INS = {
    "{}": ("{}_with_metadata", "batch_{}", "batch_{}_with_metadata"),
    "{}_with_metadata": ("batch_{}_with_metadata", "{}", "batch_{}"),
    "batch_{}": ("batch_{}_with_metadata", "{}", "{}_with_metadata"),
    "batch_{}_with_metadata": ("{}_with_metadata", "batch_{}", "{}"),
}

QUERIES = ["first?", "second?", "third?"]
CONTEXTS = [["a"], ["b", "c"], []]


def serving(name: str, implemented: frozenset[str]) -> str | None:
    """The method that must be called when `name` is."""
    family = "retrieve" if "retrieve" in name else "generate"
    order = [form.format(family) for form in STAND_INS[name.replace(family, "{}")]]
    return next((one for one in (name, *order) if one in implemented), None)


def subsets(names: tuple[str, ...]) -> list[frozenset[str]]:
    return [frozenset(c) for size in range(1, 5) for c in combinations(names, size)]


ALONE = [*subsets(RETRIEVE), *subsets(GENERATE)]
WRITTEN = [*ALONE, *(one | other for one, other in zip(ALONE[:15], ALONE[:14:-1], strict=True))]
"""Each family alone, and each way to write the one beside a way to write the other."""


def one(name: str, arguments: tuple[Any, ...]) -> Any:
    """What the recorded implementation of a form returns for one query."""
    rich = name.endswith("_with_metadata")
    if "retrieve" in name:
        contexts = [f"{arguments[0]} 1", f"{arguments[0]} 2"]
        return RetrievalResult(contexts, metadata={"by": name}) if rich else contexts
    response = f"{arguments[0]} {'+'.join(arguments[1])}"
    return GenerationResult(response, metadata={"by": name}) if rich else response


def recording(name: str, awaited: bool) -> Callable[..., Any]:
    def answer(self: Any, *arguments: Any) -> Any:
        if name.startswith("batch_"):
            value: Any = [one(name, row) for row in zip(*arguments, strict=True)]
        else:
            value = one(name, arguments)
        self.calls.append((name, arguments))
        return value

    async def answer_later(self: Any, *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return answer(self, *arguments)

    return answer_later if awaited else answer


def build(implemented: frozenset[str], awaited: bool) -> Any:
    families = {"retrieval" if "retrieve" in name else "generation" for name in implemented}
    namespace = {name: recording(name, awaited) for name in implemented}
    base: Any = AsyncRAGInterface if awaited else RAGInterface
    rag: Any = type("Recording", (base,), namespace, families=families)()
    rag.calls = []
    return rag


def call(rag: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    rag.calls.clear()
    value = getattr(rag, name)(*arguments)
    return asyncio.run(value) if rag.is_async else value


def check(rag: Any, name: str, implemented: frozenset[str]) -> None:
    batch = name.startswith("batch_")
    columns = (QUERIES,) if "retrieve" in name else (QUERIES, CONTEXTS)
    rows = list(zip(*columns, strict=True)) if batch else [tuple(c[1] for c in columns)]
    source = serving(name, implemented)
    if source is None:
        with pytest.raises(InterfaceError, match=name):
            call(rag, name, columns if batch else rows[0])
        return
    value = call(rag, name, columns if batch else rows[0])
    if source.startswith("batch_"):
        assert rag.calls == [(source, tuple(list(column) for column in zip(*rows, strict=True)))]
    else:
        assert rag.calls == [(source, row) for row in rows]
    assert (value if batch else [value]) == [expected(name, source, row) for row in rows]


def expected(name: str, source: str, row: tuple[Any, ...]) -> Any:
    """What the caller of one form is given where another one served it."""
    plain = one(name.removesuffix("_with_metadata"), row)
    if not name.endswith("_with_metadata"):
        return plain
    by = {"by": source} if source.endswith("_with_metadata") else None
    result: Any = RetrievalResult if "retrieve" in name else GenerationResult
    return result(plain, metadata=by)


@pytest.mark.parametrize("awaited", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("implemented", WRITTEN, ids=lambda names: "+".join(sorted(names)))
def test_every_method_works_in_every_combination(
    implemented: frozenset[str], awaited: bool
) -> None:
    rag = build(implemented, awaited)
    assert rag.implemented == implemented
    for name in (*RETRIEVE, *GENERATE):
        check(rag, name, implemented)
