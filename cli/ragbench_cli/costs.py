"""What asking models would cost, and what it did cost, in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench_cli import console
from ragbench_cli.tables import bare_table, print_block, styled

if TYPE_CHECKING:
    from rich.table import Table

    from ragbench.llm.budget import CallBook, Receipt
    from ragbench.stages.dry_run import JudgingEstimate
    from ragbench_cli.models import ModelsInUse


def print_estimate(estimate: JudgingEstimate, judgements: int) -> None:
    """Prints an estimate: calls, those kept already, tokens, price, each from and to."""
    from ragbench.stages.dry_run import ASSUMPTIONS

    out = console.data_console()
    print_block(out, styled((f"{judgements:,} judgements would be made", "bold")))
    print_block(out, _calls(estimate))
    cost = estimate.cost
    currency = estimate.least.currency or ""
    text = "not known" if cost is None else f"{_amounts(*cost, known=False)} {currency}".rstrip()
    print_block(out, styled("all together: ", (text, "bold")))
    for origin in _origins(estimate):
        print_block(out, styled(f"price: {origin}"))
    counted = "counts tokens, about" if estimate.approximate else "counts tokens"
    if estimate.counter:
        print_block(out, styled(f"{estimate.counter} {counted}"))
    if estimate.guessed:
        count = f"{estimate.guessed:,} prompts hold answers that are not there yet"
        print_block(out, styled(f"{count}. Assumed: {ASSUMPTIONS}"))
    note = "Calls that are made again after errors come on top; --max-cost caps the whole."
    print_block(out, styled(note))


def _calls(estimate: JudgingEstimate) -> Table:
    table = bare_table("metric", "calls", "kept", "tokens in", "tokens out", "cost", gap=2)
    is_panel = len({line.model for line in estimate.least.lines}) > 1
    for least, most in zip(estimate.least.lines, estimate.most.lines, strict=True):
        table.add_row(
            styled(f"  {least.purpose}{f', {least.model}' if is_panel else ''}"),
            styled(f"{least.calls:,}"),
            styled(f"{least.cached:,}"),
            styled(_range(least.prompt_tokens, most.prompt_tokens)),
            styled(_range(least.completion_tokens, most.completion_tokens)),
            styled(_amounts(least.cost, most.cost, known=least.calls == least.cached)),
        )
    for line in estimate.embeddings.lines:
        table.add_row(
            styled(f"  {line.purpose}, embeddings"),
            styled(f"{line.calls:,}"),
            styled("-"),
            styled(f"{line.prompt_tokens:,}"),
            styled("-"),
            styled(_amounts(line.cost, line.cost, known=False)),
        )
    return table


def estimate_object(estimate: JudgingEstimate, judgements: int) -> dict[str, Any]:
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


def _origins(estimate: JudgingEstimate) -> list[str]:
    return [
        part.price_origin
        or f"of {model} is not known: give price_input and price_output, per million tokens"
        for part in (estimate.least, estimate.embeddings)
        for model in dict.fromkeys(line.model for line in part.lines)
    ]


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} .. {most:,}"


def _amounts(least: Decimal | None, most: Decimal | None, *, known: bool) -> str:
    if known:
        return "0"
    if least is None or most is None:
        return "not known"
    return f"{least:.4f}" if least == most else f"{least:.4f} .. {most:.4f}"


# --- what it did cost: booked in the folder of its run, and said at its end


@contextmanager
def booked_run(
    models: ModelsInUse, others: Callable[[], Sequence[Receipt]], folder: Path, *, quiet: bool
) -> Generator[None]:
    """Keeps the books of a run for the length of a block.

    Whatever ends it, its folder is named and what was spent is shown. What a command did that was
    killed before is in the folder's receipts afterwards.
    """
    from ragbench.errors import InterruptedRunError, LLMStoppedError
    from ragbench.llm.budget import CallBook, Receipt

    book = models.budget.book = CallBook(folder)
    try:
        yield
    except InterruptedRunError as error:
        raise InterruptedRunError(
            f"what is finished is stored in {folder}. The same command continues"
        ) from error
    except LLMStoppedError as error:
        text = f"{error}\nWhat is finished is stored in {folder}: ragbench report {folder}"
        raise type(error)(text, status=error.status) from error
    finally:
        receipt = Receipt.of([models.session.receipt(), *others()])
        _close_book(book, receipt, folder)
        if receipt.lines and not quiet:
            say_receipt(receipt, models.session.not_sent())


def _close_book(book: CallBook, receipt: Receipt, folder: Path) -> None:
    from ragbench.errors import RunError
    from ragbench.ledger.folder import RunFolder
    from ragbench.llm.budget import CALLS

    if not folder.is_dir() or not (receipt.lines or (folder / CALLS).exists()):
        return  # nobody was asked, and no command was killed that had asked
    try:
        with RunFolder(path=folder).locked():
            book.open()
            book.close(receipt)
    except RunError:  # another command holds the folder by now, and the book in it is its own
        book.close(receipt)


def say_receipt(receipt: Receipt, not_sent: Mapping[str, str] | None = None) -> None:
    """Reports on standard error what a command spent; nothing if no model was asked."""
    if not receipt.lines:
        return
    calls = sum(line.calls for line in receipt.lines)
    cached = sum(line.cached for line in receipt.lines)
    failed = sum(line.failed for line in receipt.lines)
    requests = sum(line.requests for line in receipt.lines)
    prompt = sum(line.prompt_tokens for line in receipt.lines)
    answer = sum(line.completion_tokens for line in receipt.lines)
    thought = sum(line.reasoning_tokens for line in receipt.lines)
    hidden = f" ({thought:,} of them hidden reasoning)" if thought else ""
    # What may have been billed at an unknown price is no cost of 0.
    is_known = receipt.cost is not None and receipt.unconfirmed is not None
    cost = f"{receipt.cost:.4f} {receipt.currency or ''}" if is_known else "not known"
    console.say(
        f"asked   {calls:,} calls ({cached:,} kept from before, {failed:,} failed) in "
        f"{requests:,} requests; {prompt:,} tokens in, {answer:,} out{hidden}; "
        f"cost {cost.rstrip()}"
    )
    if receipt.unconfirmed:
        lost = f"{receipt.unconfirmed:.4f} for requests whose answer never came"
        console.say(f"        and up to {lost}")
    for name, text in (not_sent or {}).items():
        console.say(f"        {name} is not sent: the endpoint says: {text}")
