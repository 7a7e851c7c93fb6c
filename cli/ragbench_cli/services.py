"""Options of a RAG that is any HTTP service, and the section ``rag`` of ragbench.yaml."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, cast

from ragbench.core.record import Record
from ragbench.errors import ConfigError, DataError, Problem
from ragbench_cli.options import Panel, json_object, option

if TYPE_CHECKING:
    from ragbench.io.yaml_file import YamlFile


class ServiceChoice(Record):
    """How a service with requests of its own is asked and read."""

    PANEL: ClassVar = Panel.CASES

    send: Annotated[list[str] | None, option("KEY=VALUE")] = None
    """Field for a service: question={query}; repeatable. See docs/http.md."""
    take: Annotated[list[str] | None, option("NAME=PATH")] = None
    """Place in its response: answer=.answer; repeatable."""
    header: Annotated[list[str] | None, option("NAME=VALUE", rare=True)] = None
    """Header of every request, such as 'Authorization=Bearer ${API_KEY}', which takes an
    environment variable; repeatable."""


class NamedRag(NamedTuple):
    """A RAG by its name, with its arguments as JSON."""

    spec: str | None
    arguments: str | None


def with_mapping(rag: str | None, rag_args: str | None, service: ServiceChoice) -> NamedRag:
    """The RAG of the options, with the mapping of a service among its arguments.

    Raises:
        ConfigError: a mapping is given for something that is not a service.
    """
    lines = {"--send": service.send, "--take": service.take, "--header": service.header}
    flags = [flag for flag, value in lines.items() if value]
    if not flags:
        return NamedRag(rag, rag_args)

    from ragbench.rag.service_mapping import read_service, read_take
    from ragbench.rag.service_request import read_headers, read_send

    if rag is None or read_service(rag) is None:
        raise ConfigError(
            f"{' and '.join(flags)} are for a service: name its address with --rag, such as "
            "--rag POST:https://host/ask"
        )
    arguments = json_object(rag_args, "--rag-args") if rag_args else {}
    if service.send:
        arguments["send"] = read_send(service.send)
    if service.take:
        arguments["take"] = read_take(service.take)
    if service.header:
        arguments["headers"] = read_headers(service.header)
    return NamedRag(rag, json.dumps(arguments))


_KEYS = ("url", "method", "send", "take", "headers", "timeout", "retries")


def configured_rag(config: Path | None) -> NamedRag:
    """The RAG that the section ``rag`` of a configuration file names; nothing where it has none.

    Args:
        config: the file that the user names; without one, it is ragbench.yaml.

    Raises:
        DataError: the section is wrong.
    """
    from ragbench_cli.models import config_file

    file = config_file(config)
    section = None if file is None else file.value.get("rag")
    if file is None or section is None:
        return NamedRag(None, None)
    if isinstance(section, str):
        return NamedRag(section, None)
    if not isinstance(section, Mapping):
        message = "must be the name of a RAG, or hold 'url' with 'send' and 'take'"
        raise DataError([file.problem(("rag",), message)])
    return _read_section(file, cast("Mapping[str, Any]", section))


def _read_section(file: YamlFile, section: Mapping[str, Any]) -> NamedRag:
    """The service of a section; its mapping is tried, so that a mistake is reported with a line."""
    from ragbench.io.settings import problems_of
    from ragbench.safe_text import listed_names

    for key in section:
        if key not in _KEYS:
            message = f"is no setting of a service.{listed_names(key, _KEYS)}"
            raise DataError([file.problem(("rag", key), message)])
    url = section.get("url")
    if not isinstance(url, str):
        raise DataError([file.problem(("rag",), "needs 'url', the address of a service")])
    method = section.get("method")
    spec = url if method is None else f"{method}:{url}"
    arguments = {key: _quoted(section[key]) for key in _KEYS[2:] if key in section}
    try:
        _check_section(spec, method, arguments)
    except ConfigError as error:
        problems: list[Problem] = []
        for place, message in problems_of(error):
            problems.append(file.problem(("rag", *place), message))
        raise DataError(problems) from error
    return NamedRag(spec, json.dumps(arguments) if arguments else None)


def _check_section(spec: str, method: object, arguments: Mapping[str, Any]) -> None:
    """Refuses an address, a method, a mapping or a limit that is wrong.

    Raises:
        ConfigError: one is; where it is known, with the place below the section.
    """
    from ragbench.io.http import check_patience
    from ragbench.io.settings import below
    from ragbench.rag.service_mapping import METHODS, read_mapping, read_service

    with below("method"):
        if method is not None and str(method).upper() not in METHODS:
            raise ConfigError(f"there is no method '{method}'. There are {', '.join(METHODS)}")
    with below("url"):
        service = read_service(spec)
        if service is None:
            raise ConfigError(f"'{spec}' is not an address such as https://host/ask")
    limits = {name: arguments[name] for name in ("timeout", "retries") if name in arguments}
    check_patience(**limits)
    mapping = {key: arguments.get(key) for key in ("send", "take", "headers")}
    if service.method or service.preset or mapping["send"] or mapping["take"]:
        read_mapping(service, **mapping)


def _quoted(value: object) -> Any:
    """A setting with placeholders as texts: without quotes, YAML reads {query} as an object."""
    from ragbench.rag.service_request import PLACEHOLDERS

    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        names = list(fields)
        if len(names) == 1 and names[0] in PLACEHOLDERS and fields[names[0]] is None:
            return f"{{{names[0]}}}"
        return {str(name): _quoted(entry) for name, entry in fields.items()}
    if isinstance(value, list):
        return [_quoted(entry) for entry in cast("list[object]", value)]
    return value
