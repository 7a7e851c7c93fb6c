"""Which language model is meant: options that commands share, and ragbench.yaml."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from ragbench_cli.options import option

if TYPE_CHECKING:
    from ragbench.llm.settings import LLMSettings

__all__ = [
    "ConfigOption",
    "LLMBaseUrlOption",
    "LLMKeyFileOption",
    "LLMKeyVariableOption",
    "LLMModelOption",
    "embedding_settings",
    "llm_section",
    "llm_settings",
]

_DEFAULT_CONFIG = Path("ragbench.yaml")

LLMModelOption = Annotated[
    str | None, option("--llm-model", help="Name of the language model.", metavar="NAME")
]
LLMBaseUrlOption = Annotated[
    str | None,
    option(
        "--llm-base-url",
        help="Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1.",
        metavar="URL",
    ),
]
LLMKeyVariableOption = Annotated[
    str | None,
    option("--llm-api-key-env", help="Environment variable with its API key.", metavar="NAME"),
]
LLMKeyFileOption = Annotated[
    Path | None, option("--llm-api-key-file", help="File with its API key.", metavar="FILE")
]
ConfigOption = Annotated[
    Path | None,
    option(
        "--config",
        help="YAML file with sections llm and embeddings. By default ragbench.yaml, where "
        "there is one.",
        metavar="FILE",
    ),
]


def llm_settings(
    *,
    config: Path | None = None,
    model: str | None = None,
    base_url: str | None = None,
    api_key_env: str | None = None,
    api_key_file: Path | None = None,
) -> LLMSettings:
    """What options, the configuration file and the environment say together.

    Raises:
        ConfigError: a setting is wrong, or no model is named.
        DataError: the configuration file cannot be read.
    """
    from ragbench.llm.settings import resolve

    path = _config(config)
    options = {
        "model": model,
        "base_url": base_url,
        "api_key_env": api_key_env,
        "api_key_file": None if api_key_file is None else str(api_key_file),
    }
    section: Mapping[str, object] = {} if path is None else _section(path, "llm")
    return resolve(options, os.environ, section=section, file=str(path or ""))


def llm_section(config: Path | None = None) -> Mapping[str, object]:
    """The section ``llm`` of a configuration file, ragbench.yaml by default; empty if it has none.

    Raises:
        DataError: the file cannot be read.
    """
    path = _config(config)
    return {} if path is None else _section(path, "llm")


def embedding_settings(
    *, config: Path | None = None, chat: LLMSettings | None = None
) -> LLMSettings:
    """The same for the model that gives vectors, which asks the same address if no other is named.

    Raises:
        ConfigError: a setting is wrong, or no model is named.
        DataError: the configuration file cannot be read.
    """
    from ragbench.llm.settings import resolve_embeddings

    path = _config(config)
    section: Mapping[str, object] = {} if path is None else _section(path, "embeddings")
    return resolve_embeddings(os.environ, section=section, file=str(path or ""), chat=chat)


def _config(named: Path | None) -> Path | None:
    return named or (_DEFAULT_CONFIG if _DEFAULT_CONFIG.is_file() else None)


def _section(path: Path, name: str) -> Mapping[str, object]:
    from ragbench.data.yaml_file import read_yaml
    from ragbench.errors import DataError

    file = read_yaml(path)
    if not isinstance(cast("object", file.value), dict):
        raise DataError([file.problem((), "must hold sections such as llm")])
    value = cast("dict[str, object]", file.value)
    section = value.get(name)
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise DataError([file.problem((name,), "must hold settings such as 'model: NAME'")])
    return {str(name): value for name, value in cast("dict[object, object]", section).items()}
