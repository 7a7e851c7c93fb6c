"""Options that had another name before 0.1.0: the old spelling works for one more release."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_MAP = {"--map": "--field"}
COMMANDS = {"tune": "tune-search"}
"""New names of commands, by the old ones."""
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "eval": {
        "--answers": "--outputs",
        "--answers-format": "--outputs-format",
        "--canaries": "--judge-controls",
        "--repeats": "--judge-repeats",
    },
    "validate": {
        **_MAP,
        "--against": "--baseline",
        "--scores": "--score-kind",
        "--self-test": "--stress-test",
        "--strict": "--fail-on-malformed",
    },
    "calibrate": {**_MAP, "--error": "--max-false-yes", "--scores": "--score-kind"},
    "report": {"--against": "--baseline"},
    "gate": {
        "--settle": "--rerun-inconclusive",
        "--ask": "--rerun-options",
        "--max-asked": "--max-reruns",
    },
    "compare": {"--main": "--pass-metrics"},
    "ablate": {"--scores": "--score-cache"},
    "search": _MAP,
    "why": _MAP,
    "tune-search": _MAP,
}
"""New names of options by the old ones, by command."""


def renewed(command: str, arguments: list[str], parameters: list[Any]) -> list[str]:
    """A command's arguments with today's names; old environment variables count as well."""
    names = OPTIONS[command]
    for parameter in parameters:
        old = next((old for old, new in names.items() if new in parameter.opts), None)
        if old is not None and parameter.envvar is None:
            prefix = f"RAGBENCH_{command}_".upper().replace("-", "_")
            variables = [
                f"{prefix}{name.removeprefix('--').upper().replace('-', '_')}"
                for name in (names[old], old)
            ]
            parameter.envvar = variables if variables[1] in os.environ else None
    found: list[str] = []
    for argument in arguments:
        option, equals, value = argument.partition("=")
        found.append(f"{names.get(option, option)}{equals}{value}")
    return found
