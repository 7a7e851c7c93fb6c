"""Environment variables: who reads them, and what they come to.

No audit event reports them, so the methods of ``os.environ`` are replaced while somebody listens.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection
from typing import Any

from ragbench.ledger.whose import frames, is_users, whose_frame
from ragbench.masking import is_secret, mask_text

BULK = "*"
"""The name of all environment variables together: a new one is a change."""
_VOLATILE = re.compile(
    r"(_|CI|COLORTERM|COLUMNS|DISPLAY|FORCE_COLOR|HOME|HOSTNAME|LANG|LANGUAGE|LINES|LOGNAME|"
    r"NO_COLOR|OLDPWD|PATH|PWD|SHELL|SHLVL|TEMP|TERM|TMP|TMPDIR|USER|WINDOWID|"
    r"(CLICOLOR|CONDA|COVERAGE|GITHUB|GPG|ITERM|KMP|LC|LESS|LS|MKL|NUMEXPR|OMP|OPENBLAS|PIP|PYTEST|"
    r"PYTHON|RICH|RUNNER|SSH|TERM|TMUX|TQDM|UV|VIRTUAL|VSCODE|WT|XDG)_?[A-Z0-9_]*)"
)


def is_volatile(name: str) -> bool:
    """Whether an environment variable says where a process runs, not what it computes."""
    return _VOLATILE.fullmatch(name) is not None


def env_digest(name: str, value: str | None) -> str:
    """Digest of an environment variable; of a credential only whether there is one.

    Of `BULK` it is the digest of all names but volatile ones.
    """
    if name == BULK:
        names = sorted(name for name in os.environ if not is_volatile(name))
        return hashlib.sha256("\n".join(names).encode("utf-8", "replace")).hexdigest()[:32]
    if value is None:
        return "unset"
    if is_secret(name):
        return "set"
    # Keyed, and without credentials in it: nobody can look the value up in a table.
    key = hashlib.blake2b(name.encode(), digest_size=32).digest()
    text = mask_text(value).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(text, key=key, digest_size=16).hexdigest()


# --- who reads them

_Environ: Any = type(os.environ)
_PLAIN = (_Environ.__getitem__, _Environ.__setitem__, _Environ.__iter__)


_read: Callable[[str, str | None], None]
_put: Callable[[str], None]


def listen(read: Callable[[str, str | None], None], put: Callable[[str], None]) -> None:
    """Says from now on which variables are read and set."""
    global _read, _put
    _read, _put = read, put
    _replace(_get_variable, _set_variable, _all_variables)


def ignore() -> None:
    _replace(*_PLAIN)


def _replace(*methods: Callable[..., Any]) -> None:
    _Environ.__getitem__, _Environ.__setitem__, _Environ.__iter__ = methods


def _get_variable(environ: Any, name: Any) -> Any:
    try:
        value = _PLAIN[0](environ, name)
    except KeyError:
        _seen_variable(name, None)
        raise
    _seen_variable(name, value)
    return value


def _set_variable(environ: Any, name: Any, value: Any) -> None:
    _PLAIN[1](environ, name, value)
    _put(os.fsdecode(name))


def _all_variables(environ: Any) -> Any:
    try:
        if _reader(behind=_READERS) == "project":
            _read_all()
    except Exception:  # noqa: BLE001  # what is raised here would be raised by the user's os.environ
        _read_all()
    return _PLAIN[2](environ)


def _read_all() -> None:
    _read(BULK, "")
    for name in _PLAIN[2](os.environ):
        if not is_volatile(name):
            _read(name, _PLAIN[0](os.environ, name))


_READERS = frozenset(
    {"decouple", "dotenv", "dynaconf", "environ", "environs", "pydantic", "pydantic_settings"}
)
"""Packages that take settings from all variables."""


def _seen_variable(name: object, value: Any) -> None:
    try:
        text = os.fsdecode(name)  # type: ignore[arg-type]
        reader = _reader()
        if is_volatile(text):
            return
        if reader == "project" or (reader and is_users()):
            _read(text, None if value is None else os.fsdecode(value))
    except Exception:  # noqa: BLE001  # as above
        _read_all()


def _reader(behind: Collection[str] = ()) -> str:
    """Who reads a variable: the project, a package by its name; empty for all others."""
    for frame in frames():
        module: str = frame.f_globals.get("__name__") or ""
        if module in ("os", "collections.abc", "_collections_abc", __name__):
            continue
        kind, package = whose_frame(frame), module.partition(".")[0]
        if package in behind or (behind and kind == "standard"):
            continue
        if kind in ("project", "installed"):
            return "project" if kind == "project" else package
        # The standard library reads many that change nothing; this one for its caller.
        if frame.f_code.co_name != "expandvars":
            return ""
    return ""
