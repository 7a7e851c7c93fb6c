"""The price of an endpoint's tokens: the user's own, else that of a small dated table."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, cast

from ragbench.llm.endpoint import Endpoint
from ragbench.llm.price import Price

__all__ = ["price_for"]

_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def price_for(endpoint: Endpoint) -> Price | None:
    """What an endpoint's tokens cost.

    Args:
        endpoint: the endpoint. Its own price goes before the table, which knows some models at
            their maker's own address: what a gateway or another cloud takes for the same model is
            its affair. A dated snapshot (``gpt-4o-mini-2024-07-18``) costs what its model costs,
            unless the table names it.

    Returns:
        None when it is not known. That is not a price of 0.
    """
    if endpoint.price is not None:
        return endpoint.price
    table = _table().get(endpoint.host, {})
    return table.get(endpoint.model) or table.get(_DATED.sub("", endpoint.model))


@cache
def _table() -> dict[str, dict[str, Price]]:
    """Prices by host and model."""
    text = files("ragbench.llm").joinpath("prices.json").read_text("utf-8")
    raw = cast("dict[str, Any]", json.loads(text))
    return {table["host"]: _prices(table) for table in raw["tables"]}


def _prices(table: dict[str, Any]) -> dict[str, Price]:
    origin = f"list price of {table['host']}, {table['as_of']}"
    return {
        model: Price(
            input=Decimal(entry["input"]),
            output=Decimal(entry["output"]),
            cached_input=Decimal(entry["cached_input"]) if "cached_input" in entry else None,
            origin=origin,
        )
        for model, entry in table["models"].items()
    }
