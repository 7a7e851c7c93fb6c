"""Where the files of a model in ONNX form are: a folder, or a repository of a model hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ragbench.errors import ConfigError
from ragbench.extras import require

__all__ = ["OnnxFiles", "find_onnx_files", "is_hub_name"]

TOKENIZER = "tokenizer.json"
_MODELS = (
    "model.onnx",
    "onnx/model.onnx",
    "model_quantized.onnx",
    "onnx/model_quantized.onnx",
)
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxFiles:
    """The two files that scoring needs."""

    model: Path
    """The graph with its weights."""
    tokenizer: Path
    """A tokenizer.json of the package tokenizers."""


def is_hub_name(model: str) -> bool:
    """Whether a text names a repository ``owner/name`` and no folder of that name exists."""
    return _HUB_NAME.fullmatch(model) is not None and not Path(model).exists()


def find_onnx_files(
    model: str, *, file: str | None = None, revision: str | None = None
) -> OnnxFiles:
    """Finds a model's files; those of a hub repository are downloaded once and kept by its client.

    Args:
        model: a folder, or ``owner/name``.
        file: the ONNX file's path in there; None tries the usual ones in turn.
        revision: branch, tag or commit of the repository; None for its default branch.

    Raises:
        ConfigError: the folder or one of the files is not there, or cannot be downloaded.
        MissingExtraError: a hub name, and its client is not installed.
    """
    names = (file,) if file else _MODELS
    if is_hub_name(model):
        return _downloaded(model, names, revision)
    folder = Path(model)
    if not folder.is_dir():
        raise ConfigError(f"'{model}' is neither a folder nor a name of the form owner/name")
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None or not (folder / TOKENIZER).is_file():
        wanted = f"'{file}'" if file else " or ".join(f"'{name}'" for name in _MODELS)
        raise ConfigError(f"the folder '{model}' must hold '{TOKENIZER}' and {wanted}")
    return OnnxFiles(model=found, tokenizer=folder / TOKENIZER)


def _downloaded(model: str, names: tuple[str, ...], revision: str | None) -> OnnxFiles:
    hub = require("huggingface_hub", extra="onnx")
    errors = require("huggingface_hub.errors", extra="onnx")
    for name in names:
        try:
            found = hub.hf_hub_download(model, name, revision=revision)
            tokenizer = hub.hf_hub_download(model, TOKENIZER, revision=revision)
        except errors.LocalEntryNotFoundError as error:  # neither kept nor reachable
            raise _unreachable(model, error) from error
        except errors.EntryNotFoundError:
            continue
        except (errors.HfHubHTTPError, OSError, ValueError) as error:
            raise _unreachable(model, error) from error
        return OnnxFiles(model=Path(found), tokenizer=Path(tokenizer))
    raise ConfigError(
        f"the model '{model}' has no '{TOKENIZER}' or none of {', '.join(names)}: name its ONNX "
        "file with the setting 'file'"
    )


def _unreachable(model: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"the model '{model}' cannot be downloaded ({type(error).__name__}). "
        "Check its name and the connection, or give a folder with its files"
    )
