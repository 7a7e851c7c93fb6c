"""RAGInterface V2: what a user's RAG implements, in plain or in coroutine methods; its config."""

# What a derivation returns depends on the form that is asked for.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from ragbench.core.calling import history_keyword
from ragbench.core.result import GenerationResult, MetaT, RetrievalResult
from ragbench.errors import ConfigError, InterfaceError
from ragbench.rag.fallback import Route, derived, derived_async, routes_of
from ragbench.rag.forms import FAMILIES, check_class, known_families, written


# Neither frozen nor keyword-only: users' dataclasses written against the old interface inherit it.
@dataclass
class RAGConfig:
    """``top_k`` and whatever else the system wants.

    Subclass it as a dataclass for typed settings, or put them into ``settings``.

    Example:
        >>> RAGConfig(top_k=3, settings={"index": "docs-v2"}).settings["index"]
        'docs-v2'
    """

    top_k: int = 5
    """How many contexts to retrieve when a call does not say."""
    # Keyword-only, so that the second positional argument of a subclass is its own first field.
    settings: dict[str, Any] = field(default_factory=dict[str, Any], kw_only=True)
    """The system's own settings."""

    def get(self, name: str, default: Any = None) -> Any:
        """A setting by its name, as code written for a dictionary reads it.

        A key of ``settings`` may have the same name as a field: the field wins.

        Args:
            name: a field of this class, or a key of ``settings``.
            default: what is returned where there is neither.
        """
        field_names = {config_field.name for config_field in fields(self)}
        if name in field_names and name != "settings":
            return getattr(self, name)
        return self.settings.get(name, default)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Builds a configuration: what the constructor takes by name, the rest into ``settings``.

        Configurations come as mappings from files and from options such as ``--rag-args``.

        Raises:
            ConfigError: there is a rest, and the constructor takes no ``settings``.
        """
        names: set[str] = set()
        for parameter in inspect.signature(cls).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:  # the constructor takes whatever there is
                return cls(**values)
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                names.add(parameter.name)
        arguments: dict[str, Any] = {}
        settings: dict[str, Any] = {}
        for key, value in values.items():
            if key in names:
                arguments[key] = value
            else:
                settings[key] = value
        if settings and "settings" not in names:
            unknown = ", ".join(sorted(settings))
            accepted = ", ".join(sorted(names)) or "nothing"
            raise ConfigError(f"{cls.__name__} takes no {unknown}; it takes {accepted}")
        if settings:
            # The user may have put further ones below the key "settings".
            arguments["settings"] = {**arguments.get("settings", {}), **settings}
        return cls(**arguments)


class OwnConfig:
    """Gives an object a default configuration of its own when no ``__init__`` gave it one.

    Old subclasses need not call ``super().__init__()``, and an instance must not share its
    configuration with all others.
    """

    def __get__(self, rag: object | None, owner: type) -> RAGConfig:
        """Makes an object's own configuration at the first access, and puts it into the object.

        Later accesses find it there. On a class it raises AttributeError.
        """
        if rag is None:
            # A dataclass with a field `config` would take anything else for the field's default.
            raise AttributeError(f"'config' belongs to instances of {owner.__name__}")
        config = RAGConfig()
        vars(rag)["config"] = config
        return config


class RAGBase(Generic[MetaT]):
    """What the plain and the async interface share: configuration, routes, identity."""

    families: ClassVar[frozenset[str]] = frozenset(FAMILIES)
    """What the class can do: ``"retrieval"``, ``"generation"`` or both."""
    implemented: ClassVar[frozenset[str]] = frozenset()
    """Names of the interface's methods that the class, or a class it inherits from, wrote."""
    batched: ClassVar[frozenset[str]] = frozenset()
    """Names of those that become one call of a method that the user wrote, whatever their size."""
    histories: Mapping[str, str] = {}
    """Those that take what was said before a query, each with its parameter for that."""
    is_async: ClassVar[bool] = False
    """Whether the methods are coroutines."""
    bears_calls: bool = False
    """Whether several calls may be in flight without the user saying so: coroutines and addresses
    are made for that, and code of the user's may not be."""
    _routes: ClassVar[Mapping[str, Route]] = {}
    _abstract: ClassVar[bool] = False

    if TYPE_CHECKING:
        config: RAGConfig
        """What the system was built with."""
    else:
        config = OwnConfig()

    def __init__(self, config: RAGConfig | None = None) -> None:
        """Keeps the RAG's configuration, by default an empty one; a subclass need not call this.

        See `OwnConfig` for an object without this call.
        """
        self.config = RAGConfig() if config is None else config

    def __init_subclass__(
        cls, *, families: Iterable[str] | None = None, abstract: bool = False, **kwargs: Any
    ) -> None:
        """Works out the substitute of each method of a RAG's class, when the class is made.

        Refuses a class that could do nothing, or whose coroutines would never be awaited.

        Args:
            families: what the class does, ``"retrieval"`` or ``"generation"``; by default both.
            abstract: whether it is only a base for other classes, and is not checked.
        """
        super().__init_subclass__(**kwargs)
        if families is not None:
            cls.families = known_families(cls, families)
        cls.implemented = written(cls)
        cls._routes = routes_of(cls, cls.implemented)
        by_batch = {name for name, route in cls._routes.items() if route.source.batch}
        cls.batched = cls.implemented | by_batch
        histories: dict[str, str] = {}
        for name in cls.implemented:
            keyword = history_keyword(getattr(cls, name))
            if keyword is not None:
                histories[name] = keyword
        cls.histories = histories
        for name in sorted(cls.implemented):
            is_coroutine = inspect.iscoroutinefunction(getattr(cls, name))
            if is_coroutine and not cls.is_async:
                raise InterfaceError(
                    f"{cls.__name__}.{name} is a coroutine ('async def'): let the class inherit "
                    "from AsyncRAGInterface instead of RAGInterface"
                )
        # A decorator that makes the class anew, dataclass(slots=True), repeats no keywords: what
        # was given stays in the class's own namespace.
        cls._abstract = abstract or bool(cls.__dict__.get("_abstract"))
        if not cls._abstract:
            check_class(cls, cls.families, cls.implemented)

    def stage_identity(self, stage: str) -> object:
        """What distinguishes this system's answers in one stage from another system's.

        Results of an earlier run are reused as long as this stays the same. The default, None,
        lets ragbench use the class's source, its configuration and the arguments it was built
        with. Override it when you know better, for example to return the index's version for
        ``"retrieve"`` and the prompt and model for ``"generate"``.
        """
        return None


class RAGInterface(RAGBase[MetaT], abstract=True):
    """A RAG system: subclass it and write one retrieval and one generation method.

    Write whichever forms suit you; each form that you leave out is derived from one that you
    wrote. A class written against the old interface works as it is.

    Example:
        >>> class Echo(RAGInterface):
        ...     def retrieve(self, query, top_k=None):
        ...         return [f"You asked: {query}"]
        ...     def generate(self, query, contexts):
        ...         return contexts[0]
        >>> Echo().batch_retrieve_with_metadata(["Why?"])[0].contexts
        ['You asked: Why?']
    """

    _methods_are_derived: ClassVar[bool] = True

    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        """Returns the contexts for one query, best first.

        Args:
            query: the question.
            top_k: how many contexts are wanted; None leaves it to the system.
        """
        return derived(self, "retrieve", [query], top_k=top_k)

    def retrieve_with_metadata(
        self, query: str, top_k: int | None = None
    ) -> RetrievalResult[MetaT]:
        """Returns the contexts for one query with ids, scores and metadata.

        Args:
            query: the question.
            top_k: how many contexts are wanted; None leaves it to the system.
        """
        return derived(self, "retrieve_with_metadata", [query], top_k=top_k)

    def batch_retrieve(self, queries: list[str], top_k: int | None = None) -> list[list[str]]:
        """Returns the contexts for several queries, in their order.

        Derived from another retrieval method where the class does not write it.
        """
        return derived(self, "batch_retrieve", queries, top_k=top_k)

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult[MetaT]]:
        """Returns the results for several queries, in their order. ragbench calls this one.

        Derived from another retrieval method where the class does not write it.
        """
        return derived(self, "batch_retrieve_with_metadata", queries, top_k=top_k)

    def generate(self, query: str, contexts: list[str]) -> str:
        """Returns the answer to one query.

        Args:
            query: the question.
            contexts: what retrieval, or post-retrieval, handed over; best first.
        """
        return derived(self, "generate", [query], [contexts])

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult[MetaT]:
        """Returns the answer to one query with candidates, confidence and metadata.

        Args:
            query: the question.
            contexts: what retrieval, or post-retrieval, handed over; best first.
        """
        return derived(self, "generate_with_metadata", [query], [contexts])

    def batch_generate(self, queries: list[str], contexts_list: list[list[str]]) -> list[str]:
        """Returns the answers to several queries, in their order.

        Derived from another generation method where the class does not write it.
        """
        return derived(self, "batch_generate", queries, contexts_list)

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult[MetaT]]:
        """Returns the results for several queries, in their order. ragbench calls this one.

        Derived from another generation method where the class does not write it.
        """
        return derived(self, "batch_generate_with_metadata", queries, contexts_list)


class AsyncRAGInterface(RAGBase[MetaT], abstract=True):
    """The same interface for a RAG whose methods are coroutines.

    Methods have the same names and mean the same; each is awaited. ragbench keeps as many calls
    in flight as ``--concurrency`` says.

    Example:
        >>> import asyncio
        >>> class Echo(AsyncRAGInterface):
        ...     async def retrieve(self, query, top_k=None):
        ...         return [f"You asked: {query}"]
        ...     async def generate(self, query, contexts):
        ...         return contexts[0]
        >>> asyncio.run(Echo().retrieve_with_metadata("Why?")).contexts
        ['You asked: Why?']
    """

    is_async: ClassVar[bool] = True
    bears_calls = True
    _methods_are_derived: ClassVar[bool] = True

    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        """Returns the contexts for one query, best first.

        Derived from another retrieval method where the class does not write it.
        """
        return await derived_async(self, "retrieve", [query], top_k=top_k)

    async def retrieve_with_metadata(
        self, query: str, top_k: int | None = None
    ) -> RetrievalResult[MetaT]:
        """Returns the contexts for one query with ids, scores and metadata.

        Derived from another retrieval method where the class does not write it.
        """
        return await derived_async(self, "retrieve_with_metadata", [query], top_k=top_k)

    async def batch_retrieve(self, queries: list[str], top_k: int | None = None) -> list[list[str]]:
        """Returns the contexts for several queries, in their order.

        Derived from another retrieval method where the class does not write it.
        """
        return await derived_async(self, "batch_retrieve", queries, top_k=top_k)

    async def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult[MetaT]]:
        """Returns the results for several queries, in their order. ragbench calls this one.

        Derived from another retrieval method where the class does not write it.
        """
        return await derived_async(self, "batch_retrieve_with_metadata", queries, top_k=top_k)

    async def generate(self, query: str, contexts: list[str]) -> str:
        """Returns the answer to one query with these contexts.

        Derived from another generation method where the class does not write it.
        """
        return await derived_async(self, "generate", [query], [contexts])

    async def generate_with_metadata(
        self, query: str, contexts: list[str]
    ) -> GenerationResult[MetaT]:
        """Returns the answer to one query with candidates, confidence and metadata.

        Derived from another generation method where the class does not write it.
        """
        return await derived_async(self, "generate_with_metadata", [query], [contexts])

    async def batch_generate(self, queries: list[str], contexts_list: list[list[str]]) -> list[str]:
        """Returns the answers to several queries, in their order.

        Derived from another generation method where the class does not write it.
        """
        return await derived_async(self, "batch_generate", queries, contexts_list)

    async def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult[MetaT]]:
        """Returns the results for several queries, in their order. ragbench calls this one.

        Derived from another generation method where the class does not write it.
        """
        return await derived_async(self, "batch_generate_with_metadata", queries, contexts_list)
