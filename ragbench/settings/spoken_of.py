"""Where in a file a message stands: at the setting that it speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragbench.data.yaml_file import Place, YamlFile
from ragbench.errors import Problem

__all__ = ["spoken_of"]

_KINDS = ("action", "type")


def spoken_of(file: YamlFile, place: Place, given: object, message: str) -> list[Problem]:
    """What is wrong with settings, each line of a message as a problem of its own.

    Args:
        file: where the settings stand.
        place: where in it.
        given: the settings; a line of the message belongs to the first of their keys that it names.
        message: what is wrong, a line each, as `ragbench.settings.from_settings` words it.
    """
    keys = [str(key) for key in cast("Mapping[Any, Any]", given)] if _is_mapping(given) else []
    found: list[Problem] = []
    for line in message.splitlines():
        key = next((key for key in keys if _speaks_of(line, key)), None)
        found.append(file.problem(place if key is None else (*place, key), line))
    return found


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _speaks_of(message: str, key: str) -> bool:
    if key in _KINDS:
        return f"unknown {key} " in message
    return message.startswith(f"{key} ") or f": {key} " in message or f"'{key}'" in message
