"""Paths that a file of settings names: relative to that file, wherever the command runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args

FilePath: TypeAlias = Annotated[str, "path"]
"""The type of a setting that is a file or a folder."""
ModelPath: TypeAlias = Annotated[str, "path or name"]
"""The type of a setting that is a folder, or a name elsewhere, such as on the Hugging Face hub."""


def beside(folder: Path, path: object) -> str:
    """A path that a file in a folder names."""
    return str(folder / Path(str(path)).expanduser())


def placed(settings: Mapping[str, Any], hints: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings as a file in a folder has them, with its paths beside it."""
    return {key: _placed(value, hints.get(key), folder) for key, value in settings.items()}


_OF_MODELS = ("api_key_file", "cache")


def placed_model(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The same for the settings of a language model."""
    return {
        key: beside(folder, value) if key in _OF_MODELS and value not in ("", "off") else value
        for key, value in settings.items()
    }


def _placed(value: Any, hint: Any, folder: Path) -> Any:
    kinds = (hint, *get_args(hint))
    if not isinstance(value, str) or not value:
        return value
    if FilePath in kinds:
        return beside(folder, value)
    # What lies in the working folder alone is not what the file names.
    here = Path(beside(folder, value))
    is_path = ModelPath in kinds and (here.exists() or Path(value).exists())
    return str(here) if is_path else value
