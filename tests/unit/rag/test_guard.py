"""What is refused when a class is defined, so that nothing calls itself for ever later."""

from typing import Any, ClassVar

import pytest

from ragbench import AsyncRAGInterface, RAGInterface
from ragbench.errors import InterfaceError


def defined(name: str, *bases: type, methods: Any = None, **options: Any) -> Any:
    """A class of this name, of the base RAGInterface where none is set."""
    new_class: Any = type
    return new_class(name, bases or (RAGInterface,), methods or {}, **options)


def retrieve(self: object, query: str, top_k: int | None = None) -> list[str]:
    return ["a"]


FINDS = {"retrieve": retrieve}


@pytest.mark.parametrize("base", [RAGInterface, AsyncRAGInterface])
def test_a_missing_family_is_named_with_the_ways_out(base: Any) -> None:
    with pytest.raises(InterfaceError, match="class Half has no generation") as caught:
        defined("Half", base, methods=FINDS)

    message = str(caught.value)
    assert "generate, generate_with_metadata, batch_generate" in message
    assert "families=('retrieval',)" in message
    assert "abstract=True" in message


def test_a_system_of_one_family_says_so() -> None:
    half = defined("Half", families=["retrieval"], methods=FINDS)

    assert half.families == {"retrieval"}
    with pytest.raises(InterfaceError, match="Half has no batch_generate of its own"):
        half().batch_generate(["q"], [["a"]])


def test_an_abstract_base_is_let_through_and_its_child_is_not() -> None:
    base = defined("Base", abstract=True, methods=FINDS)

    with pytest.raises(InterfaceError, match="class Child has no generation"):
        defined("Child", base)
    with pytest.raises(InterfaceError, match="Base has no generate of its own"):
        base().generate("q", [])


async def generate(self: object, query: str, contexts: list[str]) -> str:
    return "a"


@pytest.mark.parametrize(
    ("families", "methods", "message"),
    [
        ((), {}, "families must name retrieval or generation"),
        (("ranking",), {}, "families must name retrieval or generation"),
        ("rank", {}, "families must name retrieval or generation"),
        (("generation",), {"generate": generate}, r"Odd\.generate is a corou.*AsyncRAGInterf"),
    ],
)
def test_what_cannot_work_is_refused(families: Any, methods: Any, message: str) -> None:
    with pytest.raises(InterfaceError, match=message):
        defined("Odd", families=families, methods=methods)


def test_a_method_that_defers_to_the_base_ends_in_an_error_and_not_in_a_loop() -> None:
    def defers(self: Any, query: str, top_k: int | None = None) -> Any:
        return RAGInterface.retrieve_with_metadata(self, query, top_k)

    methods = {"retrieve_with_metadata": defers}
    deferring = defined("Deferring", families=("retrieval",), methods=methods)

    with pytest.raises(InterfaceError, match="nothing to derive it from"):
        deferring().retrieve("q")


def test_keywords_of_other_bases_pass_through() -> None:
    class Registered:
        label: ClassVar[str]

        def __init_subclass__(cls, *, label: str = "", **options: Any) -> None:
            super().__init_subclass__(**options)
            cls.label = label

    labelled = defined(
        "Labelled",
        RAGInterface,
        Registered,
        families=("retrieval",),
        label="x",
        methods=FINDS,
    )

    assert labelled.label == "x"
    assert labelled.families == {"retrieval"}
