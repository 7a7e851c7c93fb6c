"""receipts.jsonl: what each command that asked models spent on a run, a line a command."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from ragbench.llm.ledger import Receipt

__all__ = ["append_receipt", "receipt_object"]


def append_receipt(receipt: Receipt, folder: Path) -> None:
    """Adds a line to a run's receipts, where something was asked.

    They tell what was paid when, repetitions and lost answers included, and so differ from run to
    run: the report tells what the answers took that its scores rest on.
    """
    if receipt.lines:
        line = orjson.dumps(receipt_object(receipt), option=orjson.OPT_APPEND_NEWLINE)
        with (folder / "receipts.jsonl").open("ab") as file:
            file.write(line)


def receipt_object(receipt: Receipt) -> dict[str, Any]:
    """A receipt as a JSON object; amounts are exact numbers as text, null when not known."""
    return {
        "currency": receipt.currency,
        "price_origin": receipt.price_origin,
        "cost": _text(receipt.cost),
        "unconfirmed": _text(receipt.unconfirmed),
        "lines": [
            {
                "purpose": line.purpose,
                "model": line.model,
                "calls": line.calls,
                "cached": line.cached,
                "failed": line.failed,
                "requests": line.requests,
                "prompt_tokens": line.usage.prompt_tokens,
                "completion_tokens": line.usage.completion_tokens,
                "cost": _text(line.cost),
                "unconfirmed": _text(line.unconfirmed),
                "unconfirmed_requests": line.unconfirmed_requests,
            }
            for line in receipt.lines
        ],
    }


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"
