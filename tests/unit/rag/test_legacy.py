"""Classes written against the old interface, in the ways that people write classes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import pytest

from ragbench import RAGConfig, RAGInterface, RetrievalResult
from ragbench.errors import InterfaceError


class Plain(RAGInterface):
    """The old interface as its documentation shows it."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        count = top_k or self.config.top_k
        return [f"{query} {number}" for number in range(count)]

    def generate(self, query: str, contexts: list[str]) -> str:
        return f"{query}: {len(contexts)}"


class WithoutSuper(Plain):
    def __init__(self, index: str) -> None:
        self.index = index


def test_an_old_class_works_without_and_with_a_configuration() -> None:
    config = RAGConfig(top_k=2)

    assert len(Plain().retrieve("q")) == 5
    assert len(Plain(config).retrieve("q")) == 2
    assert len(Plain(config=config).retrieve_with_metadata("q")) == 2


def test_a_class_that_never_calls_super_has_a_configuration_of_its_own() -> None:
    changed = WithoutSuper("a")
    unchanged = WithoutSuper("b")

    changed.config.top_k = 1

    assert changed.config.top_k == 1
    assert unchanged.config.top_k == 5
    assert Plain().config.top_k == 5


def takes_k(self: Any, query: str, k: int | None = None) -> list[str]:
    return [f"k={k}"]


def takes_keyword_only(self: Any, query: str, *, top_k: int = 3) -> list[str]:
    return [f"k={top_k}"]


def takes_keywords(self: Any, query: str, **options: Any) -> list[str]:
    return [f"k={options.get('top_k')}"]


def takes_arguments(self: Any, *arguments: Any) -> list[str]:
    top_k = arguments[1] if len(arguments) > 1 else None
    return [f"k={top_k}"]


def takes_no_self(query: str, top_k: int | None = None) -> list[str]:
    return [f"k={top_k}"]


def takes_the_class(cls: Any, query: str, top_k: int | None = None) -> list[str]:
    return [f"k={top_k}"]


# By the way in which top_k is taken: the method, and its context where none is asked for.
TAKES_K: dict[str, tuple[Any, str]] = {
    "by another name": (takes_k, "k=None"),
    "keyword only": (takes_keyword_only, "k=3"),
    "in keywords": (takes_keywords, "k=None"),
    "in arguments": (takes_arguments, "k=None"),
    "static": (staticmethod(takes_no_self), "k=None"),
    "of the class": (classmethod(takes_the_class), "k=None"),
}


def class_with(retrieve: Any) -> Any:
    """A class of the old interface with this method."""
    new_class: Any = type
    return new_class("Old", (RAGInterface,), {"retrieve": retrieve}, families=("retrieval",))


@pytest.mark.parametrize("way", TAKES_K)
def test_top_k_reaches_a_method_in_the_way_it_takes_it(way: str) -> None:
    method, context_without_top_k = TAKES_K[way]
    rag = class_with(method)()

    assert rag.retrieve_with_metadata("q").contexts == [context_without_top_k]
    assert rag.batch_retrieve(["q"], top_k=7) == [["k=7"]]
    assert rag.retrieve_with_metadata("q", 7).contexts == ["k=7"]


def test_a_method_without_top_k_works_until_a_number_is_asked_for() -> None:
    rag = class_with(lambda self, query: ["a"])()

    assert rag.batch_retrieve(["q"]) == [["a"]]
    with pytest.raises(InterfaceError, match=r"Old\.retrieve takes no top_k.*add the"):
        rag.batch_retrieve(["q"], top_k=3)


@dataclass
class Settings(RAGConfig):
    model: str = "small"


def test_a_configuration_is_built_of_a_mapping() -> None:
    settings = Settings.from_mapping({"top_k": 1, "model": "m", "index": "i"})
    config = RAGConfig.from_mapping({"settings": {"a": 1}, "b": 2})

    assert settings == Settings(1, "m", settings={"index": "i"})
    assert config.settings == {"a": 1, "b": 2}


@dataclass
class AsDataclass(Plain):
    config: RAGConfig
    """A field without a default must not find one in the base class."""


def test_a_dataclass_may_be_a_rag() -> None:
    with pytest.raises(TypeError, match="config"):
        AsDataclass()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert AsDataclass(RAGConfig(top_k=1)).batch_retrieve(["q"]) == [["q 0"]]


class AbstractBase(RAGInterface, ABC):
    @abstractmethod
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]: ...

    @abstractmethod
    def generate(self, query: str, contexts: list[str]) -> str: ...


class Concrete(Plain, AbstractBase):
    pass


def test_an_abstract_base_may_leave_everything_open() -> None:
    (answer,) = Concrete().batch_generate_with_metadata(["q"], [[]])

    assert AbstractBase.implemented == frozenset()
    assert answer.response == "q: 0"
    with pytest.raises(TypeError, match="abstract"):
        AbstractBase()  # type: ignore[abstract]  # pyright: ignore[reportAbstractUsage]


class NewRetrieval(RAGInterface, families=("retrieval",)):
    def retrieve_with_metadata(
        self, query: str, top_k: int | None = None
    ) -> RetrievalResult[dict[str, Any]]:
        return RetrievalResult(["new"], context_ids=["1"])


def test_an_old_child_of_a_new_base_is_warned_where_its_class_stands() -> None:
    with pytest.warns(UserWarning, match="OldChild.retrieve is never called by ragbench") as caught:

        class OldChild(NewRetrieval):
            def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
                return ["old"]

    warning = caught[0]
    assert warning.filename == __file__
    assert "Override retrieve_with_metadata instead" in str(warning.message)
    (result,) = OldChild().batch_retrieve_with_metadata(["q"])
    assert result.contexts == ["new"]


class Calling(RAGInterface, families=("retrieval",)):
    """Its rich form calls its plain one, so that overriding that one is enough."""

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return ["base"]

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        return [RetrievalResult(self.retrieve(query)) for query in queries]


def test_an_override_that_the_inherited_method_calls_is_no_reason_to_warn() -> None:
    class Child(Calling):  # a warning would be an error
        def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
            return ["child"]

    (result,) = Child().batch_retrieve_with_metadata(["q"])

    assert result.contexts == ["child"]
