"""What a command spends on models: booked in the folder of its run, and told at its end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench_cli import console

if TYPE_CHECKING:
    from ragbench.llm.book import CallBook, Receipt
    from ragbench_cli.models import ModelsInUse


@contextmanager
def booked_run(
    models: ModelsInUse, others: Callable[[], Sequence[Receipt]], folder: Path, *, quiet: bool
) -> Generator[None]:
    """Keeps the books of a run for the length of a block.

    Whatever ends it, its folder is named and what was spent is told. What a command did that was
    killed before stands in the folder's receipts afterwards.
    """
    from ragbench.errors import InterruptedRunError, LLMStoppedError
    from ragbench.llm.book import CallBook, Receipt

    book = models.budget.book = CallBook(folder)
    try:
        yield
    except InterruptedRunError as error:
        raise InterruptedRunError(
            f"what is finished is stored in {folder}. The same command continues"
        ) from error
    except LLMStoppedError as error:
        told = f"{error}\nWhat is finished is stored in {folder}: ragbench report {folder}"
        raise type(error)(told, status=error.status) from error
    finally:
        receipt = Receipt.of([models.session.receipt(), *others()])
        _close_book(book, receipt, folder)
        if not quiet:
            say_receipt(receipt, book, models.session.not_sent())


def _close_book(book: CallBook, receipt: Receipt, folder: Path) -> None:
    """Writes the receipt, and that of a command that was killed."""
    from ragbench.errors import RunError
    from ragbench.ledger.folder import RunFolder

    if not folder.is_dir():
        return
    try:
        with RunFolder(path=folder).locked():
            book.open()
            book.close(receipt)
    except RunError:  # another command holds the folder by now, and the book in it is its own
        book.close(receipt)


def say_receipt(
    receipt: Receipt, book: CallBook | None = None, not_sent: Mapping[str, str] | None = None
) -> None:
    """Tells on standard error what a command spent; nothing when nobody was asked."""
    if not receipt.lines:
        return
    calls = sum(line.calls for line in receipt.lines)
    cached = sum(line.cached for line in receipt.lines)
    failed = sum(line.failed for line in receipt.lines)
    requests = sum(line.requests for line in receipt.lines)
    prompt = sum(line.usage.prompt_tokens for line in receipt.lines)
    answer = sum(line.usage.completion_tokens for line in receipt.lines)
    thought = sum(line.usage.reasoning_tokens for line in receipt.lines)
    hidden = f" ({thought:,} of them hidden reasoning)" if thought else ""
    cost = "not known" if receipt.cost is None else f"{receipt.cost:.4f} {receipt.currency or ''}"
    console.say(
        f"asked   {calls:,} calls ({cached:,} kept from before, {failed:,} failed) in "
        f"{requests:,} requests; {prompt:,} tokens in, {answer:,} out{hidden}; "
        f"cost {cost.rstrip()}"
    )
    if receipt.unconfirmed:
        lost = f"{receipt.unconfirmed:.4f} for requests whose answer never came"
        console.say(f"        and up to {lost}")
    if book is not None and book.asked_again:
        console.say(
            f"        {book.asked_again:,} requests were in flight when an earlier command was "
            f"killed and were sent again: {book.cost_again:.4f} of the cost"
        )
    for name, told in (not_sent or {}).items():
        console.say(f"        {name} is not sent: the endpoint says: {told}")
