"""The reader that comes with ragbench: two files of the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ragbench.models.onnx_files import OnnxFiles, find_onnx_files

__all__ = ["shipped_reader"]


def shipped_reader() -> OnnxFiles:
    """Where its model and its tokenizer are; their card stands beside them.

    Raises:
        ConfigError: the installation lacks them.
    """
    return find_onnx_files(str(Path(str(files("ragbench.validation"))) / "reader"))
