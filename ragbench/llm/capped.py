"""Whether what a model costs can be capped."""

from __future__ import annotations

from ragbench.errors import ConfigError
from ragbench.llm.endpoint import Endpoint
from ragbench.llm.price_table import price_for

__all__ = ["check_cap"]


def check_cap(endpoint: Endpoint) -> None:
    """Refuses an endpoint of which nobody knows beforehand the most that a call can cost.

    Raises:
        ConfigError: its price is not known, or its answers have no limit.
    """
    if price_for(endpoint) is None:
        raise ConfigError(
            f"the cost cannot be capped: the price of {endpoint.model} at {endpoint.base_url} is "
            "not known. Give price_input and price_output, per million tokens (0 where it costs "
            "nothing)"
        )
    if endpoint.max_tokens is None:
        raise ConfigError("the cost cannot be capped without max_tokens: no answer has a limit")
