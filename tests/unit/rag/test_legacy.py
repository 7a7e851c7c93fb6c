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
        return [f"{query} {i}" for i in range(top_k or self.config.top_k)]

    def generate(self, query: str, contexts: list[str]) -> str:
        return f"{query}: {len(contexts)}"


class WithoutSuper(Plain):
    def __init__(self, index: str) -> None:
        self.index = index


def test_an_old_class_works_without_and_with_a_configuration() -> None:
    assert len(Plain().retrieve("q")) == 5
    assert len(Plain(RAGConfig(top_k=2)).retrieve("q")) == 2
    assert len(Plain(config=RAGConfig(top_k=2)).retrieve_with_metadata("q")) == 2
    # One that never calls super has a configuration of its own.
    first, second = WithoutSuper("a"), WithoutSuper("b")
    first.config.top_k = 1
    assert (first.config.top_k, second.config.top_k, Plain().config.top_k) == (1, 5, 5)


TAKES_K: dict[str, tuple[Any, str]] = {
    "by another name": (lambda self, query, k=None: [f"k={k}"], "k=None"),
    "keyword only": (lambda self, query, *, top_k=3: [f"k={top_k}"], "k=3"),
    "in keywords": (lambda self, query, **options: [f"k={options.get('top_k')}"], "k=None"),
    "in arguments": (lambda self, *given: [f"k={given[1] if given[1:] else None}"], "k=None"),
    "static": (staticmethod(lambda query, top_k=None: [f"k={top_k}"]), "k=None"),
    "of the class": (classmethod(lambda cls, query, top_k=None: [f"k={top_k}"]), "k=None"),
}


@pytest.mark.parametrize("way", TAKES_K)
def test_top_k_reaches_a_method_in_the_way_it_takes_it(way: str) -> None:
    method, without = TAKES_K[way]
    cls: Any = type("Way", (RAGInterface,), {"retrieve": method}, families=("retrieval",))
    assert cls().retrieve_with_metadata("q").contexts == [without]
    assert cls().batch_retrieve(["q"], top_k=7) == [["k=7"]]
    assert cls().retrieve_with_metadata("q", 7).contexts == ["k=7"]


def test_a_method_without_top_k_works_until_a_number_is_asked_for() -> None:
    methods = {"retrieve": lambda self, query: ["a"]}
    cls: Any = type("Old", (RAGInterface,), methods, families=("retrieval",))
    assert cls().batch_retrieve(["q"]) == [["a"]]
    with pytest.raises(InterfaceError, match=r"Old\.retrieve takes no top_k.*add the"):
        cls().batch_retrieve(["q"], top_k=3)


@dataclass
class Settings(RAGConfig):
    model: str = "small"


def test_a_configuration_is_built_of_a_mapping() -> None:
    found = Settings.from_mapping({"top_k": 1, "model": "m", "index": "i"})
    assert found == Settings(1, "m", settings={"index": "i"})
    built = RAGConfig.from_mapping({"settings": {"a": 1}, "b": 2})
    assert built.settings == {"a": 1, "b": 2}


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
    assert AbstractBase.implemented == frozenset()
    assert Concrete().batch_generate_with_metadata(["q"], [[]])[0].response == "q: 0"
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

    assert caught[0].filename == __file__
    assert "Override retrieve_with_metadata instead" in str(caught[0].message)
    assert OldChild().batch_retrieve_with_metadata(["q"])[0].contexts == ["new"]


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

    assert Child().batch_retrieve_with_metadata(["q"])[0].contexts == ["child"]
