"""What is refused when a class is defined, so that nothing calls itself for ever later."""

# Classes are defined here only to see whether that raises.
# pyright: reportUnusedClass=false

from typing import Any, ClassVar

import pytest

from ragbench import AsyncRAGInterface, RAGInterface, RetrievalResult
from ragbench.errors import InterfaceError


@pytest.mark.parametrize("base", [RAGInterface, AsyncRAGInterface])
def test_a_missing_family_is_named_with_the_ways_out(base: Any) -> None:
    with pytest.raises(InterfaceError, match="class Half has no generation") as caught:
        type("Half", (base,), {"retrieve": lambda self, query: []})
    message = str(caught.value)
    assert "generate, generate_with_metadata, batch_generate" in message
    assert "families=('retrieval',)" in message
    assert "abstract=True" in message


def test_a_system_of_one_family_says_so() -> None:
    class Half(RAGInterface, families=["retrieval"]):
        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            return ["a"]

    assert Half.families == {"retrieval"}
    with pytest.raises(InterfaceError, match="Half has no batch_generate of its own"):
        Half().batch_generate(["q"], [["a"]])


@pytest.mark.parametrize("families", [(), ("ranking",), "rank"])
def test_unknown_families_are_refused(families: Any) -> None:
    with pytest.raises(InterfaceError, match="families must name retrieval or generation"):

        class Odd(RAGInterface, families=families):
            pass


def test_an_abstract_base_is_let_through_and_its_child_is_not() -> None:
    class Base(RAGInterface, abstract=True):
        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            return []

    with pytest.raises(InterfaceError, match="class Child has no generation"):

        class Child(Base):
            pass

    with pytest.raises(InterfaceError, match="Base has no generate of its own"):
        Base().generate("q", [])


def test_a_method_that_defers_to_the_base_ends_in_an_error_and_not_in_a_loop() -> None:
    class Deferring(RAGInterface, families=("retrieval",)):
        def retrieve_with_metadata(
            self, query: str, top_k: int | None = None
        ) -> RetrievalResult[Any]:
            return super().retrieve_with_metadata(query, top_k)

    with pytest.raises(InterfaceError, match="nothing to derive it from"):
        Deferring().retrieve("q")


def test_a_coroutine_in_a_plain_class_is_refused() -> None:
    with pytest.raises(InterfaceError, match=r"Awaited\.generate is a coroutine.*AsyncRAGInterf"):

        class Awaited(RAGInterface, families=("generation",)):
            async def generate(self, query: str, contexts: list[str]) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
                return "a"


def test_a_mixin_behind_the_interface_is_pointed_at() -> None:
    class Mixin:
        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            return []

    with pytest.raises(InterfaceError, match="name Mixin before RAGInterface among the bases"):

        class Wrong(RAGInterface, Mixin, families=("retrieval",)):  # pyright: ignore[reportIncompatibleMethodOverride]
            pass


def test_keywords_of_other_bases_pass_through() -> None:
    class Registered:
        label: ClassVar[str]

        def __init_subclass__(cls, *, label: str = "", **options: Any) -> None:
            super().__init_subclass__(**options)
            cls.label = label

    class Labelled(RAGInterface, Registered, families=("generation",), label="x"):
        def generate(self, query: str, contexts: list[str]) -> str:
            return "a"

    assert Labelled.label == "x"
    assert Labelled.families == {"generation"}
