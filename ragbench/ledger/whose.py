"""Whose code or data a file is, and from where it is named."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Literal

Whose = Literal["project", "ragbench", "engine", "installed", "standard"]
"""The user's; ragbench's, of it the part that runs stages; an installed package's; Python's."""

_RAGBENCH = str(Path(__file__).parents[1]) + os.sep
_ENGINE = tuple(f"{_RAGBENCH}{name}{os.sep}" for name in ("gate", "stages", "verbs", "views"))
_STANDARD = tuple(
    f"{place}{os.sep}"
    for found in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")),
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


def project_folder() -> Path:
    """The folder that the parts of an origin are named from."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if any((folder / name).exists() for name in (".git", "pyproject.toml", "setup.py")):
            return folder
    return here


# --- on whose behalf something happens


_IMPORTLIB = os.path.dirname(importlib.__file__ or "importlib")  # noqa: PTH120
_HERE = os.path.dirname(__file__)  # noqa: PTH120
_WATCHING = tuple(os.path.join(_HERE, f"{name}.py") for name in ("environ", "watch", "whose"))  # noqa: PTH118


def frames() -> Iterator[FrameType]:
    """Who called whom, the innermost first; the modules that watch are left out."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_filename not in _WATCHING:
            yield frame
        frame = frame.f_back


def whose_frame(frame: FrameType) -> Whose:
    file = frame.f_code.co_filename
    if file.startswith("<") and not file.startswith("<frozen"):
        # Made by exec: by a dataclass, or typed in a notebook.
        module = sys.modules.get(frame.f_globals.get("__name__") or "")
        file = getattr(module, "__file__", None) or "<typed>"
    return whose(file)


def is_users() -> bool:
    """Whether the user's code has a part in what happens.

    It has when it stands between here and the part of ragbench that runs stages; and when nobody
    of ragbench is there, as in threads that a library of the user's started.
    """
    own = False
    for frame in frames():
        if frame.f_code.co_filename.startswith(_HERE):
            return False
        kind = whose_frame(frame)
        if kind == "project":
            return True
        if kind == "engine":
            return False
        own = own or kind == "ragbench"
    return not own


def is_import() -> bool:
    """Whether Python looks for modules and packages, and nothing else."""
    for frame in frames():
        file = frame.f_code.co_filename
        if file.startswith(("<frozen importlib", _IMPORTLIB)) or file == pkgutil.__file__:
            return True
        if whose_frame(frame) != "standard":
            return False
    return False
