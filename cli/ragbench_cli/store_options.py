"""Options of the commands that work on a store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from ragbench_cli.options import option

__all__ = [
    "CollectionOption",
    "EmbedderOption",
    "EmbedderSettingOption",
    "FieldsOption",
    "StoreOption",
    "filters_of",
    "settings_of",
]


def _embedders(typed: str) -> list[str]:
    from ragbench.embedders.registry import EMBEDDERS

    return [name for name in sorted(EMBEDDERS.targets()) if name.startswith(typed)]


StoreOption = Annotated[
    str,
    option(
        "--store",
        help="Address of the store, such as memory:reports/index. See docs/retrieval.md.",
        metavar="ADDRESS",
    ),
]
CollectionOption = Annotated[
    str | None, option("--collection", help="Name of the collection.", metavar="NAME")
]
EmbedderOption = Annotated[
    str | None,
    option(
        "--embedder",
        help="What makes the vectors: multilingual, onnx:FOLDER, onnx:OWNER/NAME or openai:MODEL.",
        metavar="NAME",
        complete=_embedders,
    ),
]
EmbedderSettingOption = Annotated[
    list[str] | None,
    option(
        "--embedder-setting",
        help="A setting of the embedder, such as 'query_prefix=query: '; repeatable.",
        metavar="NAME=VALUE",
    ),
]
FieldsOption = Annotated[
    list[str] | None,
    option(
        "--map",
        help="Where a field is found in a collection that ragbench did not fill, such as "
        "text=metadata.body; repeatable. Fields: text, id, document_id, title, metadata, vector, "
        "metric. Needs --embedder.",
        metavar="FIELD=PATH",
    ),
]


def settings_of(given: Sequence[str] | None, option_name: str) -> dict[str, Any]:
    """Settings from ``NAME=VALUE``; a value that is JSON is taken so, anything else as a text.

    Raises:
        ConfigError: one has no ``=``, or a name is given twice.
    """
    from ragbench.errors import ConfigError

    found: dict[str, Any] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option_name}: expected NAME=VALUE, found '{one}'")
        if name.strip() in found:
            raise ConfigError(f"{option_name}: '{name.strip()}' is given twice")
        found[name.strip()] = _value(value)
    return found


def filters_of(given: Sequence[str] | None) -> dict[str, Any] | None:
    """Filters from ``FIELD=VALUE`` and JSON objects; all of them must hold.

    Raises:
        ConfigError: one is neither.
    """
    from ragbench.errors import ConfigError
    from ragbench_cli.values import json_object

    parts: list[Mapping[str, Any]] = []
    for one in given or ():
        if one.lstrip().startswith("{"):
            parts.append(json_object(one, "--filter"))
        else:
            field, equals, value = one.partition("=")
            if not equals or not field:
                raise ConfigError(f"--filter: expected FIELD=VALUE or a JSON object, found '{one}'")
            parts.append({"field": {field: _wanted(field, value)}})
    if not parts:
        return None
    return dict(parts[0]) if len(parts) == 1 else {"all": parts}


def _wanted(field: str, text: str) -> Any:
    """A field's value; what begins like JSON must be JSON, for a slip would find nothing."""
    from ragbench.errors import ConfigError

    try:
        return json.loads(text)
    except ValueError as error:
        if text.lstrip()[:1] in ("{", "[", '"'):
            raise ConfigError(
                f"--filter: the value of '{field}' begins like JSON and is none: {error}. "
                f"To look for the text itself, write it as JSON: {json.dumps(text)}"
            ) from error
        return text


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
