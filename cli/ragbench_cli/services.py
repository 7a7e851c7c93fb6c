"""Options of a RAG that is any HTTP service, and the section ``rag`` of ragbench.yaml.

Both describe the same: which requests the service is sent, and where its response has the answer.
They become arguments in JSON, as ``--rag-args`` has them, so that a run stores one form of all.
"""

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
    """A RAG by its name, with its arguments as JSON: the values of ``--rag`` and ``--rag-args``."""

    spec: str | None
    arguments: str | None


def with_mapping(rag: str | None, rag_args: str | None, service: ServiceChoice) -> NamedRag:
    """The RAG that options name, with their mapping of an HTTP service among its arguments.

    A mapping says which fields a service is sent, and where its response has the answer.

    Raises:
        ConfigError: a mapping is given for something that is not a service.
    """
    lines = {"--send": service.send, "--take": service.take, "--header": service.header}
    flags = [flag for flag, value in lines.items() if value]
    # No mapping: the arguments stay as they are, unread.
    if not flags:
        return NamedRag(rag, rag_args)

    from ragbench.rag.service_mapping import read_service, read_take
    from ragbench.rag.service_request import read_headers, read_send

    if rag is None or read_service(rag) is None:
        raise ConfigError(
            f"{' and '.join(flags)} are for a service: name its address with --rag, such as "
            "--rag POST:https://host/ask"
        )
    arguments: dict[str, Any] = {}
    if rag_args:
        # Options are added to --rag-args and go before the same keys in them.
        arguments = json_object(rag_args, "--rag-args")
    if service.send:
        arguments["send"] = read_send(service.send)
    if service.take:
        arguments["take"] = read_take(service.take)
    if service.header:
        arguments["headers"] = read_headers(service.header)
    # As text again: arguments of a RAG are handed on in this form, and digested so.
    return NamedRag(rag, json.dumps(arguments))


_ADDRESS_KEYS = ("url", "method")
"""The settings that become the name of the RAG: ``POST:https://host/ask``."""
_ARGUMENT_KEYS = ("send", "take", "headers", "timeout", "retries")
"""The settings that become its arguments."""


def configured_rag(config: Path | None) -> NamedRag:
    """The RAG that the section ``rag`` of a configuration file names; nothing where it has none.

    With it, ``ragbench eval DATASET`` needs no further options.

    Args:
        config: the file that the user names; without one, it is ragbench.yaml.

    Raises:
        DataError: the section is wrong.
    """
    from ragbench_cli.models import config_file

    # Without a section the options alone name the RAG.
    file = config_file(config)
    if file is None:
        return NamedRag(None, None)
    section = file.value.get("rag")
    if section is None:
        return NamedRag(None, None)
    if isinstance(section, str):  # any RAG, such as package.module:attr
        return NamedRag(section, None)
    if not isinstance(section, Mapping):
        message = "must be the name of a RAG, or hold 'url' with 'send' and 'take'"
        raise DataError([file.problem(("rag",), message)])
    return _rag_of_section(file, cast("Mapping[str, Any]", section))


def _rag_of_section(file: YamlFile, section: Mapping[str, Any]) -> NamedRag:
    """The RAG that the section ``rag`` of ragbench.yaml describes as an HTTP service.

    Its mapping is tried, and thrown away: a mistake is reported with the file's line here, and
    could not be when the RAG is built from its arguments.
    """
    from ragbench.io.settings import problems_of
    from ragbench.safe_text import listed_names

    all_keys = (*_ADDRESS_KEYS, *_ARGUMENT_KEYS)
    # Unknown keys first: a misspelled "url" is named, and not reported as missing.
    for key in section:
        if key not in all_keys:
            message = f"is no setting of a service.{listed_names(key, all_keys)}"
            raise DataError([file.problem(("rag", key), message)])
    url = section.get("url")
    if not isinstance(url, str):
        raise DataError([file.problem(("rag",), "needs 'url', the address of a service")])
    method = section.get("method")
    spec = url
    # A method before the address is how a service with a body of its own is written.
    if method is not None:
        spec = f"{method}:{url}"
    names = [key for key in _ARGUMENT_KEYS if key in section]
    arguments = {name: _with_placeholders(section[name]) for name in names}
    try:
        _check_section(spec, method, arguments)
    except ConfigError as error:
        problems: list[Problem] = []
        for place, message in problems_of(error):
            problems.append(file.problem(("rag", *place), message))
        raise DataError(problems) from error
    if not arguments:
        # None, as where a user gives no arguments.
        return NamedRag(spec, None)
    return NamedRag(spec, json.dumps(arguments))


def _check_section(spec: str, method: object, arguments: Mapping[str, Any]) -> None:
    """Refuses a wrong address, method, mapping or limit of a service, with its place.

    A wrong mapping would else show only after the first answers, as missing fields.

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
    # Limits are checked by the code that uses them, so that both refuse the same.
    check_patience(**limits)
    mapping = {key: arguments.get(key) for key in ("send", "take", "headers")}
    # A bare address is a service of ragbench's own form, which needs no mapping.
    if service.method or service.preset or mapping["send"] or mapping["take"]:
        read_mapping(service, **mapping)


def _with_placeholders(value: object) -> Any:
    """A setting of a service, in which each placeholder such as ``{query}`` is a text.

    ``question: {query}`` without quotes is what users write, and YAML reads it as an object with
    the single key "query" and no value.
    """
    from ragbench.rag.service_request import PLACEHOLDERS

    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        if len(fields) == 1:
            ((name, field_value),) = fields.items()
            # Only a known placeholder: {"filter": None} may be a setting of the service.
            if name in PLACEHOLDERS and field_value is None:
                return f"{{{name}}}"
        return {str(name): _with_placeholders(entry) for name, entry in fields.items()}
    if isinstance(value, list):
        return [_with_placeholders(entry) for entry in cast("list[object]", value)]
    return value
