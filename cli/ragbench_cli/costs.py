"""What asking models would cost, and what it did cost, in a terminal."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ragbench_cli.console import data_console
from ragbench_cli.tables import bare_table, print_block, styled

if TYPE_CHECKING:
    from rich.table import Table

    from ragbench.llm.estimate import Estimate
    from ragbench.stages.dry_run import JudgingEstimate


def print_estimate(estimate: JudgingEstimate, judgements: int) -> None:
    """Prints an estimate: calls, those kept already, tokens, price, each from and to."""
    from ragbench.stages.dry_run import ASSUMPTIONS

    console = data_console()
    print_block(console, styled((f"{judgements:,} judgements would be made", "bold")))
    print_block(console, _calls(estimate))
    cost = estimate.cost
    currency = estimate.least.currency or ""
    told = "not known" if cost is None else f"{_amounts(*cost, known=False)} {currency}".rstrip()
    print_block(console, styled("all together: ", (told, "bold")))
    for origin in _origins(estimate):
        print_block(console, styled(f"price: {origin}"))
    guessed = sum(line.guessed for line in estimate.least.lines)
    counted = "counts tokens, about" if estimate.least.approximate else "counts tokens"
    if estimate.least.counter:
        print_block(console, styled(f"{estimate.least.counter} {counted}"))
    if guessed:
        note = f"{guessed:,} prompts hold answers that are not there yet. Assumed: {ASSUMPTIONS}"
        print_block(console, styled(note))
    note = "Calls that are made again after errors come on top; --max-cost caps the whole."
    print_block(console, styled(note))


def _calls(estimate: JudgingEstimate) -> Table:
    """Calls, tokens and cost, a line for each metric and its embeddings."""
    table = bare_table("metric", "calls", "kept", "tokens in", "tokens out", "cost", gap=2)
    for least, most in zip(estimate.least.lines, estimate.most.lines, strict=True):
        table.add_row(
            styled(f"  {least.purpose}"),
            styled(f"{least.calls:,}"),
            styled(f"{least.cached:,}"),
            styled(_range(least.prompt_tokens, most.prompt_tokens)),
            styled(_range(least.answer_tokens[0], most.answer_tokens[1])),
            styled(
                _amounts(
                    None if least.cost is None else least.cost[0],
                    None if most.cost is None else most.cost[1],
                    known=least.calls == least.cached,
                )
            ),
        )
    embedded = estimate.embeddings
    for line in () if embedded is None else embedded.lines:
        paid = None if line.cost is None else line.cost[1]
        table.add_row(
            styled(f"  {line.purpose}, embeddings"),
            styled(f"{line.calls:,}"),
            styled("-"),
            styled(f"{line.prompt_tokens:,}"),
            styled("-"),
            styled(_amounts(paid, paid, known=False)),
        )
    return table


def estimate_object(estimate: JudgingEstimate, judgements: int) -> dict[str, Any]:
    cost = estimate.cost
    return {
        "judgements": judgements,
        "cost": None if cost is None else [f"{amount:f}" for amount in cost],
        "least": _object(estimate.least),
        "most": _object(estimate.most),
        "embeddings": None if estimate.embeddings is None else _object(estimate.embeddings),
    }


def _object(estimate: Estimate) -> dict[str, Any]:
    return {
        "model": estimate.model,
        "counter": estimate.counter,
        "approximate": estimate.approximate,
        "currency": estimate.currency,
        "price_origin": estimate.price_origin,
        "lines": [
            {
                "purpose": line.purpose,
                "calls": line.calls,
                "cached": line.cached,
                "guessed": line.guessed,
                "prompt_tokens": line.prompt_tokens,
                "answer_tokens": line.answer_tokens[1],
                "cost": None if line.cost is None else f"{line.cost[1]:f}",
            }
            for line in estimate.lines
        ],
    }


def _origins(estimate: JudgingEstimate) -> list[str]:
    known = [estimate.least, *([] if estimate.embeddings is None else [estimate.embeddings])]
    told = [
        part.price_origin
        or f"of {part.model} is not known: give price_input and price_output, per million tokens"
        for part in known
        if part.lines
    ]
    return list(dict.fromkeys(told))


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} .. {most:,}"


def _amounts(least: Decimal | None, most: Decimal | None, *, known: bool) -> str:
    if known:
        return "0"
    if least is None or most is None:
        return "not known"
    return f"{least:.4f}" if least == most else f"{least:.4f} .. {most:.4f}"
