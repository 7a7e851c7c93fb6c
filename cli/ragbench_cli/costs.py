"""What asking models would cost, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ragbench_cli import console
from ragbench_cli.tables import draw, styled, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragbench.stages.dry_run import JudgingEstimate


def show_estimate(estimate: JudgingEstimate, judgements: int, *, as_json: bool) -> None:
    """Prints an estimate: calls, those kept already, tokens, price, each from and to."""
    if as_json:
        console.print_json(_object(estimate, judgements))
    else:
        draw(console.data_console(), _blocks(estimate, judgements))


def _blocks(estimate: JudgingEstimate, judgements: int) -> Iterator[RenderableType]:
    from ragbench.stages.dry_run import ASSUMPTIONS

    yield styled((f"{judgements:,} judgements would be made", "bold"))
    columns = ("metric", "calls", "kept", "tokens in", "tokens out", "cost")
    yield table(columns, _calls(estimate))
    cost = estimate.cost
    currency = estimate.least.currency or ""
    text = "not known" if cost is None else f"{_amounts(*cost)} {currency}".rstrip()
    yield styled("all together: ", (text, "bold"))
    for part in (estimate.least, estimate.embeddings):
        for model in dict.fromkeys(line.model for line in part.lines):
            unknown = f"of {model} is not known: give price_input and price_output, per million"
            yield styled(f"price: {part.price_origin or f'{unknown} tokens'}")
    if estimate.counter:
        yield styled(f"{estimate.counter} counts tokens{', about' if estimate.approximate else ''}")
    if estimate.guessed:
        count = f"{estimate.guessed:,} prompts hold answers that are not there yet"
        yield styled(f"{count}. Assumed: {ASSUMPTIONS}")
    yield styled("Calls that are made again after errors come on top; --max-cost caps the whole.")


def _calls(estimate: JudgingEstimate) -> Iterator[Sequence[str]]:
    is_panel = len({line.model for line in estimate.least.lines}) > 1
    for least, most in zip(estimate.least.lines, estimate.most.lines, strict=True):
        yield (
            f"  {least.purpose}{f', {least.model}' if is_panel else ''}",
            f"{least.calls:,}",
            f"{least.cached:,}",
            _range(least.prompt_tokens, most.prompt_tokens),
            _range(least.completion_tokens, most.completion_tokens),
            "0" if least.calls == least.cached else _amounts(least.cost, most.cost),
        )
    for line in estimate.embeddings.lines:
        name, tokens = f"  {line.purpose}, embeddings", f"{line.prompt_tokens:,}"
        yield name, f"{line.calls:,}", "-", tokens, "-", _amounts(line.cost, line.cost)


def _object(estimate: JudgingEstimate, judgements: int) -> dict[str, Any]:
    import msgspec

    cost = estimate.cost
    return {
        "judgements": judgements,
        "cost": None if cost is None else [f"{amount:f}" for amount in cost],
        "counter": estimate.counter,
        "approximate": estimate.approximate,
        "guessed": estimate.guessed,
        "least": msgspec.to_builtins(estimate.least),
        "most": msgspec.to_builtins(estimate.most),
        "embeddings": msgspec.to_builtins(estimate.embeddings),
    }


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} .. {most:,}"


def _amounts(least: Decimal | None, most: Decimal | None) -> str:
    if least is None or most is None:
        return "not known"
    return f"{least:.4f}" if least == most else f"{least:.4f} .. {most:.4f}"
