"""From a name to a RAG, and what it is; RAGs behind HTTP, whose JSON docs/http.md describes."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ragbench.core.calling import history_keyword
from ragbench.core.case import Said
from ragbench.core.result import GenerationResult, Metadata, RetrievalResult
from ragbench.errors import ConfigError, InterfaceError, RagbenchError
from ragbench.io.http import VERSION_HEADER, HTTPRagError, JsonEndpoint
from ragbench.io.values import as_object, is_list, is_object
from ragbench.ledger.content import project_folder
from ragbench.ledger.identity import AS_SAID, At, described, described_class, settings_of
from ragbench.ledger.watch import file_of
from ragbench.plugins import (
    directory_kept,
    error_text,
    is_own,
    is_users_interruption,
    load_target,
)
from ragbench.rag.adapt import AnyRAG, as_rag
from ragbench.rag.contract import Contract, is_misunderstood
from ragbench.rag.fallback import settled, to_generation_result, to_retrieval_result
from ragbench.rag.interface import AsyncRAGInterface, RAGBase, RAGConfig, RAGInterface
from ragbench.rag.parts import AdaptedRAG, OneCall, Parts, compose
from ragbench.rag.proposal import asks_for_credentials
from ragbench.rag.service import MAPPING_OPTIONS, service_rag
from ragbench.rag.service_mapping import read_service, sent_headers
from ragbench.rag.shapes import read_answer

if TYPE_CHECKING:
    from ragbench.core.origin import Origin
    from ragbench.ledger.project import Project


def describe_rag(
    rag: RAGBase[Any], spec: str, arguments: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Describes a RAG so that another system, or another version of it, is described otherwise.

    The description holds the name that it was loaded by; its class, with a digest of the source
    file of that class and of each class that it inherits from outside ragbench and the standard
    library; the same for what an adapter adapts; the arguments, the configuration, and what
    `RAGBase.stage_identity` says. It holds nothing of the machine and no credentials: values under
    names such as ``api_key`` are masked, paths below the current directory are relative to it, and
    others are their last part with a digest of the whole.
    """
    module, _, attribute = spec.rpartition(":")
    service = read_service(spec)
    shown = spec
    if service is not None:
        shown = service.shown
    elif module.endswith(".py"):  # its content is in the digest; where it lies is the machine's
        shown = f"{PurePath(module).name}:{attribute}"
    description: dict[str, Any] = {"spec": shown}
    if isinstance(rag, AdaptedRAG):
        description["class"] = "ragbench:adapted"
        description["adapts"] = described(rag.adapts, at=_at_home(rag.adapts))
        if rag.top_k is not None:
            description["top_k"] = rag.top_k
    else:
        cls = type(cast("object", rag))
        description |= described_class(cls)
        description["config"] = described(rag.config)
        if not is_own(cls.__module__):
            settings = settings_of(rag)
            settings.pop("config", None)
            if settings:
                description["settings"] = described(settings, at=_at_home([rag]))
    if arguments:
        description["arguments"] = described(dict(arguments), at=_at_home([rag]))
    stages: dict[str, object] = {}
    for stage in ("retrieve", "generate"):
        identity = rag.stage_identity(stage)
        if identity is not None:
            stages[stage] = identity
    description["stages"] = described(stages, at=AS_SAID)
    return description


def _at_home(things: Iterable[object]) -> At:
    """The folder of a user's project, by which described settings name its files.

    The project's files are compared by themselves, and what a system writes into it is not.

    Args:
        things: the user's objects; the first whose module has a file decides.
    """
    for thing in things:
        module_name = str(getattr(thing, "__module__", ""))
        file = file_of(sys.modules.get(module_name))
        if file:
            return At(project=project_folder(file))
    return At()


def may_be_on_workers(spec: str) -> bool:
    """Whether a user's class or factory lets worker processes build the RAG: ``on_workers = True``.

    A system that is asked over HTTP waits for its answers: processes would not make it faster.
    """
    if read_service(spec) is not None:
        return False
    target = load_target(spec)
    return getattr(target, "on_workers", False) is True


def stage_origin(
    rag: RAGBase[Any], stage: str, project: Project, description: Mapping[str, Any], **settings: Any
) -> Origin:
    """What a RAG's outcomes in a stage come from: where it changes, stored ones are not reused.

    Stored outcomes of the stage are compared by it with the system of today.

    Args:
        description: the RAG, as `describe_rag` gives it.
        settings: those of the run that the outcomes depend on, such as ``top_k``.
    """
    from ragbench.ledger.project import named_origin  # a command that asks nothing needs none

    # Where the user's own classes say what distinguishes the stage, nothing else counts.
    versions = _versions_of_users(rag, stage)
    if versions is not None:
        description_by_name = described({"named": versions, **settings}, at=AS_SAID)
        return named_origin(stage, description_by_name)
    facts: dict[str, Any] = {}
    version = rag.stage_identity(stage)
    if version is not None:
        facts["stage_identity"] = described(version, at=AS_SAID)
    else:
        facts.update(description)
        facts.pop("stages", None)  # what each stage says of itself: this one says nothing
    facts.update(described(settings))
    return project.origin(stage, facts)


def _versions_of_users(rag: RAGBase[Any], stage: str) -> list[object] | None:
    """The versions that all of the user's classes name for a stage; None where one names none.

    With a version of each, stored outcomes need no look at files to be used again.
    """
    sources = rag.adapts if isinstance(rag, AdaptedRAG) else (rag,)
    versions: list[object] = []
    for source in sources:
        # A method of ragbench's own names no version of the user's.
        method = getattr(source, "stage_identity", None)
        if method is None or is_own(method.__module__):
            return None
        versions.append(method(stage))
    if not versions or any(version is None for version in versions):
        return None
    return versions


def load_rag(
    spec: str, arguments: Mapping[str, Any] | None = None, *, search_path: str | Path = "."
) -> AnyRAG:
    """Loads a RAG by name.

    ``search_path`` becomes importable, as the current directory does under ``python -m``, and
    stays so: a RAG may import its own modules only when it is first asked. For a file, the
    directory that it lies in becomes importable too. Where loading it changes the working
    directory, that is undone, with a warning: every other relative path would name another file.

    Args:
        spec: ``package.module:attribute``, ``path/to/file.py:attribute`` or a URL. The attribute
            (dots are followed) is a class, a factory, an instance, or anything else that `as_rag`
            takes. A function is a factory when nothing is left to fill once the arguments are
            given; when one parameter is left it takes the query and is the system itself.
        arguments: given by name to the class, factory or function. Those that its signature does
            not take go into the configuration, if it takes ``config``: into the class that the
            parameter is annotated with, or into `RAGConfig`.
        search_path: the directory that modules are looked for in first; files and modules alike.

    Raises:
        ConfigError: the name is malformed; the module is missing, or importing it failed (the
            cause is kept); the attribute is missing, is not a RAG, takes other arguments, or
            raised.
        InterfaceError: as a `ConfigError` that names the spec.
    """
    user_arguments = dict(arguments or {})
    if read_service(spec) is not None:
        return http_rag(spec, **user_arguments)
    with directory_kept(f"loading '{spec}'"):
        target: Any = load_target(spec, search_path=search_path)
        function = target if inspect.isroutine(target) else None
        if inspect.isclass(target):
            target = _made_by_target(target, user_arguments, spec)
        elif inspect.isroutine(target):
            target = _factory_or_system(cast("Callable[..., Any]", target), user_arguments, spec)
        elif user_arguments:
            names = ", ".join(sorted(user_arguments))
            raise ConfigError(
                f"'{spec}' is an instance and takes no arguments ({names}): "
                "name its class, or a function that builds it"
            )
        try:
            rag = as_rag(target)
        except InterfaceError as error:
            reason = ""
            if function not in (None, target):
                # The author may have meant the function as the RAG itself: the error says that it
                # was called to make a RAG.
                reason = "it takes no question, and was called to make one: "
            raise ConfigError(f"'{spec}' is not a RAG: {reason}{error}") from error
    # By the function itself: its source is part of the description, its arguments are in another.
    if isinstance(target, functools.partial) and isinstance(rag, AdaptedRAG):
        rag.adapts = (target.func,)
    return rag


def _factory_or_system(
    function: Callable[..., Any], user_arguments: dict[str, Any], spec: str
) -> Any:
    """A function with the user's arguments, where it takes a question; else what it makes of them.

    A function with one parameter left to fill is a system, and with none a factory.
    """
    if isinstance(getattr(function, "__self__", None), RAGBase):
        raise ConfigError(f"'{spec}' is a method: name the object that it belongs to")
    signature = _signature(function)
    history = history_keyword(function)
    required: list[str] = []
    for name, parameter in signature.parameters.items():
        is_needed = parameter.default is parameter.empty and _can_be_named(parameter)
        is_filled = name in user_arguments or name == history
        if is_needed and not is_filled:
            required.append(name)
    returned = signature.return_annotation
    makes_rag = inspect.isclass(returned) and issubclass(returned, RAGBase)
    # One parameter is left to be filled: the question. A configuration is none.
    if len(required) == 1 and required[0] != "config" and not makes_rag:
        _arguments_for(function, user_arguments, spec)  # refuses unknown ones
        if not user_arguments:
            return function
        return functools.partial(function, **user_arguments)
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"'{spec}' is a coroutine: a factory must be a plain function")
    if required[:1] == ["self"]:
        raise ConfigError(f"'{spec}' is a method of a class: name that of an object (rag.ask)")
    if len(required) > 1:
        raise ConfigError(
            f"'{spec}' needs {' and '.join(required)}. A function that is asked needs the question "
            "alone: give the others a default, or a value with --rag-args"
        )
    return _made_by_target(function, user_arguments, spec)


def _signature(target: Callable[..., Any]) -> inspect.Signature:
    """The signature of a user's class or factory, with annotations as types as far as that works.

    Names that are only imported for type checkers stay texts.
    """
    try:
        return inspect.signature(target, eval_str=True)
    except (NameError, TypeError, AttributeError):  # names that exist for type checkers only
        return inspect.signature(target)


def _made_by_target(target: Callable[..., Any], user_arguments: dict[str, Any], spec: str) -> Any:
    """The object that a user's class or factory makes of the user's arguments.

    Whatever it raises becomes an error that names it, but for the user's own interruption: a
    factory may even call ``sys.exit``.
    """
    arguments = _arguments_for(target, user_arguments, spec)
    try:
        # Tried first: else a TypeError within the factory would look like wrong arguments.
        inspect.signature(target).bind(**arguments)
    except TypeError as error:
        raise ConfigError(f"'{spec}': {error}. It takes {_accepted_names(target)}") from None
    try:
        return target(**arguments)
    except RagbenchError as error:
        raise ConfigError(f"'{spec}': {error}") from error
    except BaseException as error:
        if is_users_interruption(error):
            raise
        raise ConfigError(f"'{spec}' raised {error_text(error)}") from error


def _arguments_for(
    target: Callable[..., Any], user_arguments: dict[str, Any], spec: str
) -> dict[str, Any]:
    """The user's arguments as a class or factory takes them; the rest goes into its ``config``.

    Args:
        spec: the name of the RAG, for messages.

    Raises:
        ConfigError: there is such a rest, and no parameter ``config``.
    """
    parameters = _signature(target).parameters
    # A function with ``**kwargs`` takes any name: nothing is left for a configuration.
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return user_arguments
    arguments: dict[str, Any] = {}
    for_config: dict[str, Any] = {}
    for name, value in user_arguments.items():
        if name in parameters:
            arguments[name] = value
        else:
            for_config[name] = value
    config = parameters.get("config")
    if config is None:
        if for_config:
            raise ConfigError(
                f"'{spec}' takes no {', '.join(sorted(for_config))}. It takes "
                f"{_accepted_names(target)}"
            )
        return arguments
    own_config = arguments.get("config")
    is_missing = "config" not in arguments and config.default is config.empty
    # Made also without a value, where the target cannot do without it.
    if for_config or is_missing or isinstance(own_config, Mapping):
        values = dict(cast("Mapping[str, Any]", own_config or {}))
        values.update(for_config)
        arguments["config"] = _config_of_values(config.annotation, values, spec)
    return arguments


def _config_of_values(hint: Any, values: dict[str, Any], spec: str) -> Any:
    """A RAG's configuration, of the class that the parameter ``config`` is annotated with.

    Without one clear class it is a `RAGConfig`.

    Args:
        hint: the annotation.
        spec: the name of the RAG, for messages.
    """
    # Of ``MyConfig | None`` the class counts; where several are left, none of them is clear.
    options: tuple[Any, ...] = (hint,)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        options = typing.get_args(hint)
    # NoneType and the mark of a parameter without a type are classes, of which no configuration can
    # be built.
    no_config_class = (types.NoneType, inspect.Parameter.empty)
    classes: list[type[Any]] = []
    for option in options:
        if inspect.isclass(option) and option not in no_config_class:
            classes.append(option)
    cls: type[Any] = RAGConfig
    if len(classes) == 1:
        cls = classes[0]
    try:
        if issubclass(cls, RAGConfig):
            return cls.from_mapping(values)
        return cls(**values)
    except RagbenchError as error:
        raise ConfigError(f"'{spec}': {error}") from error
    except BaseException as error:
        if is_users_interruption(error):
            raise
        names = ", ".join(sorted(values)) or "nothing"
        raise ConfigError(
            f"'{spec}': building {cls.__name__} of {names} raised {error_text(error)}"
        ) from error


def _accepted_names(target: Callable[..., Any]) -> str:
    """The names of the arguments that a user's class or factory takes, for messages.

    A user who gave a wrong argument sees them.
    """
    parameters = inspect.signature(target).parameters.values()
    names = [parameter.name for parameter in parameters if _can_be_named(parameter)]
    return ", ".join(names) or "no arguments"


def _can_be_named(parameter: inspect.Parameter) -> bool:
    """Whether a parameter can be given by its name, unlike ``*args`` and ``**kwargs``.

    Only such a parameter can be missing.
    """
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


# --- RAGs behind HTTP

_Read = Callable[[Mapping[str, Any], str], Any]
"""Makes a result of the fields of one; the second argument names it in errors."""


_OWN_REQUESTS = (
    "If it has requests of its own, map them, as in --rag POST:https://host/ask --send "
    "question={query} --take answer=.answer: 'ragbench doctor --rag URL' proposes these options"
)
"""For whoever gives the address of a service that does not answer ragbench's requests."""


class RemoteQueryError(HTTPRagError):
    """The server says that one query of a batch failed."""


class RagEndpoint(JsonEndpoint):
    """A server that is a RAG, or a part of one."""

    def __init__(self, url: str, **options: Any) -> None:
        """Takes what `JsonEndpoint` takes; whether the server is understood shows as it answers.

        Until it has been understood once, a wrong answer ends the run.
        """
        super().__init__(url, **options)
        self._contract = Contract()
        """Whether the server was understood so far, over all questions of the run."""

    @property
    def unseen_because(self) -> str | None:
        """Why the server's answers may change without a trace here.

        None where one version was sent with all of them. Else stored answers of the server are not
        reused by a later run.
        """
        if self.version is None:
            return f"{self.url} names no version ({VERSION_HEADER})"
        if len(self.versions) > 1:
            versions = " and ".join(f"'{version}'" for version in self.versions)
            return f"{self.url} answered in several versions, {versions}"
        return None

    def results(self, path: str, payload: Mapping[str, Any], read: _Read) -> list[Any]:
        """The result of each query, or the exception that it failed with.

        Errors of single queries are in the list, so that the others keep their results.

        Args:
            path: of the request, such as ``/retrieve``.
            payload: its fields, ``queries`` among them.
            read: makes a result of the fields of one query's answer.

        Raises:
            ContractError: the server refuses the request, or answers in another form.
        """
        where = f"{self.url}{path}"
        size = len(payload["queries"])
        try:
            answer = self.post(path, payload)
        except HTTPRagError as error:
            # A server that was understood before refuses these queries alone.
            if self._contract.is_met or not is_misunderstood(error.status):
                raise
            advice = _OWN_REQUESTS
            if error.status in (401, 403):
                advice = asks_for_credentials(error.body)
            raise self._contract.error(f"{error}. {advice}", error.status) from None
        results = as_object(answer).get("results")
        if not is_list(results):
            message = f"{where} must answer with {{'results': [...]}}"
            if self._contract.is_met:
                raise HTTPRagError(message)
            raise self._contract.error(f"{message}. {_OWN_REQUESTS}")
        if len(results) != size:
            raise HTTPRagError(f"{where} answered with {len(results)} results for {size} queries")
        outcomes = [_result_or_error(item, read, where) for item in results]
        # One misread result may be a slip; all of them show that the form is another.
        is_misread_whole = all(_is_misread(outcome) for outcome in outcomes)
        if outcomes and is_misread_whole and not self._contract.is_met:
            raise self._contract.error(f"{outcomes[0]}. {_OWN_REQUESTS}")
        if not is_misread_whole:
            self._contract.is_met = True
        return outcomes

    def settled(self, path: str, payload: Mapping[str, Any], read: _Read) -> list[Any]:
        """The results of one request for several queries, if none failed.

        Raises:
            PartialBatchError: some queries failed; of a batch of one, its own error.
        """
        outcomes = self.results(path, payload, read)
        return settled(outcomes, f"{self.url}{path}")


def _is_misread(outcome: object) -> bool:
    """Whether the result of a query has another form than it is read in.

    An error that the server reports for a query is none.
    """
    return isinstance(outcome, InterfaceError) and not isinstance(outcome, RemoteQueryError)


def _result_or_error(item: Any, read: _Read, where: str) -> Any:
    """One query's result out of a server's answer; an error of the server or of reading it.

    Errors are returned, so that the other queries of the batch keep their results.

    Args:
        read: makes the result of its fields.
        where: the server's address in messages.
    """
    if not is_object(item):
        return HTTPRagError(f"{where}: a result must be an object, not {type(item).__name__}")
    error = item.get("error")
    if error is not None:
        # Servers write the error as an object or as a text.
        failure = as_object(error) or {"message": error}
        kind = failure.get("type") or "error"
        message = failure.get("message") or "no message"
        return RemoteQueryError(f"{where}: {kind}: {message}")
    try:
        return read(item, where)
    except InterfaceError as problem:
        return problem


def http_rag(url: str, **options: Any) -> RAGInterface[Any] | AsyncRAGInterface[Any]:
    """The RAG behind a URL: a foreign service where a mapping is given, else by its last segment.

    Args:
        url: the address, with a method (``POST:https://...``) or a preset (``dify:https://...``)
            before it where the service is a foreign one.
    """
    service = read_service(url)
    if service is not None:
        is_foreign = service.method or service.preset or not MAPPING_OPTIONS.isdisjoint(options)
        if is_foreign:
            return service_rag(service, **options)
    unknown = sorted(options.keys() - {"headers", "timeout", "retries", "repeatable"})
    if unknown:
        raise ConfigError(
            f"an HTTP endpoint takes no {', '.join(unknown)}; it takes headers, timeout, retries, "
            "repeatable, and send and take for a service with requests of its own (docs/http.md)"
        )
    endpoint_options = dict(options)
    if options.get("headers"):
        endpoint_options["headers"] = sent_headers(options["headers"])
    address = urlsplit(url)
    base_path, _, last_segment = address.path.rstrip("/").rpartition("/")
    # An address that ends like this is a part of a RAG; any other is the root of a whole one.
    parts_of_segment = {
        "retrieve": _retrieving_parts,
        "generate": _generating_parts,
        "answer": _answering_parts,
    }
    if last_segment in parts_of_segment:
        root = address._replace(path=base_path).geturl()
        endpoint = RagEndpoint(root, **endpoint_options)
        stages = [parts_of_segment[last_segment](endpoint)]
    else:
        endpoint = RagEndpoint(url, **endpoint_options)
        stages = [_retrieving_parts(endpoint), _generating_parts(endpoint)]
    rag: Any = compose("HTTPRag", stages)
    rag.adapts = (endpoint,)
    rag.bears_calls = True
    rag.close = endpoint.close
    rag.rebuild = partial(http_rag, url, **options)
    return cast("RAGInterface[Any] | AsyncRAGInterface[Any]", rag)


def _retrieving_parts(endpoint: RagEndpoint) -> Parts:
    """The methods of a RAG that a server gives which retrieves; it is always asked in batches.

    A batch is one request, whatever its size.
    """
    retrieve = partial(_retrieve_over_http, endpoint)
    return Parts(source=endpoint, methods={"batch_retrieve_with_metadata": retrieve})


def _retrieve_over_http(
    endpoint: RagEndpoint,
    /,
    queries: list[str],
    top_k: int | None = None,
    history: Sequence[Said] = (),
) -> list[RetrievalResult[Metadata]]:
    """The interface's method for a server that retrieves: one request for all queries.

    Path and fields of the request are those of docs/http.md, which servers of users implement.
    """
    payload = {"queries": queries, "top_k": top_k, **_history_field(history)}
    return endpoint.settled("/retrieve", payload, _read_retrieval)


def _read_retrieval(fields: Mapping[str, Any], where: str) -> RetrievalResult[Any]:
    """A retrieval out of the fields that a server answered with for one query, checked.

    Args:
        where: the server's address in messages.
    """
    result = RetrievalResult.from_mapping(fields)
    return to_retrieval_result(result, where)


def _generating_parts(endpoint: RagEndpoint) -> Parts:
    """The methods of a RAG that a server gives which generates; it is always asked in batches.

    A batch is one request, whatever its size.
    """
    generate = partial(_generate_over_http, endpoint)
    return Parts(source=endpoint, methods={"batch_generate_with_metadata": generate})


def _generate_over_http(
    endpoint: RagEndpoint,
    /,
    queries: list[str],
    contexts_list: list[list[str]],
    history: Sequence[Said] = (),
) -> list[GenerationResult[Metadata]]:
    """The interface's method for a server that generates: one request for all queries.

    Path and fields of the request are those of docs/http.md, which servers of users implement.
    """
    contexts = [list(of_query) for of_query in contexts_list]
    payload = {"queries": queries, "contexts": contexts, **_history_field(history)}
    return endpoint.settled("/generate", payload, _read_generation)


def _read_generation(fields: Mapping[str, Any], where: str) -> GenerationResult[Any]:
    """An answer out of the fields that a server answered with for one query, checked.

    Args:
        where: the server's address in messages.
    """
    result = GenerationResult.from_mapping(fields)
    return to_generation_result(result, where)


def _answering_parts(endpoint: RagEndpoint) -> Parts:
    """The methods of a RAG that a server gives which returns contexts and answer at once.

    The server is asked once for a query: the answer is kept for the generation that follows.
    """
    # A response has contexts and answer: `OneCall` keeps the answer until generation is called.
    call = OneCall(
        endpoint,
        partial(_ask_over_http, endpoint),
        f"{endpoint.url}/answer",
        ask_batch=partial(_ask_batch_over_http, endpoint),
        keyword="top_k",
        history="history",
    )
    return call.parts()


def _ask_over_http(
    endpoint: RagEndpoint, /, query: str, top_k: int | None = None, history: Said = ()
) -> Any:
    """The fields that a server answers one query with: its contexts and its answer.

    Raises:
        RemoteQueryError: the server reports that the query failed.
    """
    outcomes = _ask_batch_over_http(endpoint, [query], top_k, [history])
    return settled(outcomes, f"{endpoint.url}/answer")[0]


def _ask_batch_over_http(
    endpoint: RagEndpoint,
    /,
    queries: list[str],
    top_k: int | None = None,
    history: Sequence[Said] = (),
) -> list[Any]:
    """The fields that a server answers each query with, or the exception that the query failed by.

    Path and fields of the request are those of docs/http.md, which servers of users implement.
    """
    payload = {"queries": queries, "top_k": top_k, **_history_field(history)}
    return endpoint.results("/answer", payload, _readable_answer)


def _readable_answer(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a server's answer to one query, after a trial reading of them.

    A field that cannot be read is so an error of this query, and not of the whole batch.

    Args:
        where: the server's address in messages.
    """
    read_answer(fields, where)
    return dict(fields)


def _history_field(history: Sequence[Said]) -> dict[str, Any]:
    """The request's field with the messages before each query; none where no query has any.

    A server that takes no history so gets the same request as before.
    """
    if not any(history):
        return {}
    return {"history": [list(said) for said in history]}
