"""Whose code or data a file is, and on whose behalf something happens."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Literal

Whose = Literal["project", "ragbench", "engine", "installed", "standard"]
"""The user's; ragbench's, of it the part that runs stages; an installed package's; Python's."""

_RAGBENCH = str(Path(__file__).parents[1]) + os.sep
_LEDGER = os.path.dirname(__file__)  # noqa: PTH120
_WATCHING = tuple(os.path.join(_LEDGER, f"{name}.py") for name in ("watch", "whose"))  # noqa: PTH118
_ENGINE = tuple(f"{_RAGBENCH}{name}{os.sep}" for name in ("gate", "stages", "verbs", "views"))
_STANDARD = tuple(
    f"{place}{os.sep}"
    for found in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "scripts")),
        *(os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)),  # noqa: PTH118
    )
    for place in (found, os.path.realpath(found))
)


@lru_cache(maxsize=100_000)
def whose(file: str) -> Whose:
    if file.startswith(_RAGBENCH):
        return "engine" if file.startswith(_ENGINE) else "ragbench"
    if f"{os.sep}ragbench_cli{os.sep}" in file:
        return "engine"
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return "installed"
    return "standard" if file.startswith(("<frozen", *_STANDARD)) else "project"


def file_of(module: ModuleType | None) -> str:
    """The source of a user's module; empty for all others, and where there is none."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return ""
    path = os.path.abspath(file)  # noqa: PTH100  # for each module that is loaded
    return path if whose(path) == "project" else ""


def is_users(*, leaving_out: Collection[str] = ()) -> bool:
    """Whether the user's code has a part in what happens.

    It has when it stands between here and the part of ragbench that runs stages; and when nobody
    of ragbench is there, as in threads that a library of the user's started. Packages that are
    left out, by name, do what they do for themselves.
    """
    own = False
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _WATCHING:
            frame = frame.f_back
            continue
        if file.startswith(_LEDGER):
            return False
        module: str = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in leaving_out:
            return False
        kind = _whose_code(file, module)
        if kind == "project":
            return True
        if kind == "engine":
            return False
        own = own or kind == "ragbench"
        frame = frame.f_back
    return not own


def _whose_code(file: str, module: str) -> Whose:
    if file.startswith("<") and not file.startswith("<frozen"):
        # Made by exec: by a dataclass, or typed in a notebook.
        file = getattr(sys.modules.get(module), "__file__", None) or "<typed>"
    return whose(file)
