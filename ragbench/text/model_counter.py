"""The counter of tokens that is nearest to a model's own."""

from __future__ import annotations

from ragbench.errors import ConfigError, MissingExtraError
from ragbench.extras import require
from ragbench.text.token_counter import APPROXIMATE, TiktokenCounter, TokenCounter

__all__ = ["counter_for_model"]


def counter_for_model(model: str) -> TokenCounter:
    """A counter for what a model will read.

    Args:
        model: its name, such as ``"gpt-4o-mini"``.

    Returns:
        tiktoken's, where that package is installed, knows the model and has or gets its encoding;
        it downloads one when it is first used. Otherwise the one that counts about.
    """
    try:
        tiktoken = require("tiktoken", extra="tokens")
        return TiktokenCounter(encoding=str(tiktoken.encoding_name_for_model(model)))
    except (MissingExtraError, KeyError, ConfigError):
        return APPROXIMATE
