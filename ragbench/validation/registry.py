"""Validators by name, and built from a name and settings."""

from __future__ import annotations

from importlib.util import find_spec

from ragbench.llm.chat import ChatModel
from ragbench.registry import Registry
from ragbench.settings.build_named import build_named
from ragbench.validation.validator import Validator

__all__ = ["VALIDATORS", "build_validator", "default_validator"]

_PACKAGE = "ragbench.validation"

VALIDATORS = Registry(
    kind="validators",
    builtin={
        "cascade": f"{_PACKAGE}.cascade:CascadeValidator",
        "lexical": f"{_PACKAGE}.lexical:LexicalValidator",
        "llm": f"{_PACKAGE}.llm:LlmValidator",
        "local": f"{_PACKAGE}.local:LocalValidator",
    },
)
"""Other packages add theirs through the entry-point group ``ragbench.validators``."""


def build_validator(given: object, *, chat: ChatModel | None = None) -> Validator:
    """Builds a validator from what a configuration file or a command says.

    Args:
        given: a name, or a mapping with ``name`` and the validator's settings, which are the fields
            of its class; validators within validators are written the same way. A `Validator` is
            returned as it is.
        chat: the language model for validators that ask one.

    Raises:
        ConfigError: the name or a setting does not exist (the message lists those that do), a
            setting has the wrong type or is out of its range, or a language model is missing.

    Example:
        >>> build_validator("lexical").name
        'lexical'
    """
    return build_named(
        given,
        Validator,  # type: ignore[type-abstract]  # it is looked for, never made
        registry=VALIDATORS,
        method="validate",
        chat=chat,
    )


def default_validator() -> str:
    """The best validator that this installation runs by itself.

    Returns:
        ``"local"`` where the extra ``onnx`` is installed, else ``"lexical"``.
    """
    needed = ("onnxruntime", "tokenizers")
    return "local" if all(find_spec(name) is not None for name in needed) else "lexical"
