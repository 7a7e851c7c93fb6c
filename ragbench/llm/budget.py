"""What was spent, what may be, and the table of prices.

What was spent is added up by purpose and model, and written in a run's folder before and after each
request. A command that ends leaves what it spent in one line of ``receipts.jsonl``. Until then each
request is in ``calls.jsonl``, one line when it is sent and one when it is over, each written at
once: a process that is killed leaves behind what it did, and the next command makes its receipt of
it.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import count
from pathlib import Path
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

import msgspec

from ragbench.core.chat import Price, Usage
from ragbench.core.record import Record
from ragbench.errors import ConfigError, LLMBudgetError, LLMCacheError
from ragbench.private_files import open_private

if TYPE_CHECKING:
    import asyncio

    from ragbench.llm.endpoint import Endpoint

CALLS = "calls.jsonl"
"""The file with the requests of the command that runs, or was killed."""
RECEIPTS = "receipts.jsonl"
"""The file with the receipts of the commands that ended, one line each."""


@dataclass(kw_only=True, slots=True)
class ReceiptLine:
    """What the calls to one model for one purpose took."""

    purpose: str
    """What the calls were for, such as a metric's name."""
    model: str
    calls: int = 0
    """Questions asked; one that needed several requests counts once."""
    cached: int = 0
    """Of those, answered from the cache, at no cost."""
    failed: int = 0
    """Of those, that ended in an error."""
    requests: int = 0
    """Requests sent, repetitions included."""
    prompt_tokens: int = 0
    """Of all requests that were answered; not of cached calls."""
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cost: Decimal | None = Decimal(0)
    """None when the cost of any answer is unknown: that is not 0."""
    unconfirmed: Decimal | None = Decimal(0)
    """The most that requests may have cost whose answer never came, or did not report its tokens.
    Not part of ``cost``. None when that is unknown."""
    unconfirmed_requests: int = 0
    unconfirmed_estimate: Decimal | None = Decimal(0)
    """What those cost if they were like the answered ones; None where none was answered."""


class Receipt(Record):
    """What calls took, line by line and in all."""

    lines: tuple[ReceiptLine, ...]
    price_origin: str | None
    """Where the price comes from, with its date; None when it is not known."""

    @classmethod
    def of(cls, receipts: Iterable[Receipt]) -> Receipt:
        """Several receipts as one.

        The one receipt has all their lines by purpose and model, and names each origin of prices
        once. A run's command has one receipt a client; its users read one table. Lines of the same
        purpose and model stay apart.
        """
        lines: list[ReceiptLine] = []
        origins: dict[str, None] = {}  # each once, in order
        for receipt in receipts:
            lines += receipt.lines
            if receipt.price_origin:
                origins[receipt.price_origin] = None
        lines.sort(key=lambda line: (line.purpose, line.model))
        return cls(lines=tuple(lines), price_origin="; ".join(origins) or None)

    @property
    def currency(self) -> str | None:
        """The currency of the receipt's amounts; None when no price is known.

        Reports print it behind each amount; an amount without a price has none to print.
        """
        return Price.currency if self.price_origin else None

    @property
    def cost(self) -> Decimal | None:
        """The cost of all calls of the receipt; None when the price of any is not known.

        A sum without the unknown part would look like a cheap run.
        """
        return total(line.cost for line in self.lines)

    @property
    def unconfirmed(self) -> Decimal | None:
        """The most that all lost answers of the receipt may have cost.

        None where that amount is not known. A lost answer is one that never came, or came without
        its tokens: its endpoint may bill it.
        """
        return total(line.unconfirmed for line in self.lines)

    @property
    def unconfirmed_estimate(self) -> Decimal | None:
        """The likely cost of all lost answers of the receipt; None where that is not known.

        A lost answer is one that never came; its endpoint may bill it. The estimate is by the mean
        of the answered requests.
        """
        return total(line.unconfirmed_estimate for line in self.lines)


def total(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """The sum of amounts of money; None when one of the amounts is not known.

    An unknown cost must not read as 0 in any report.
    """
    sum_so_far = Decimal(0)
    for amount in amounts:
        if amount is None:
            return None
        if amount:  # adding a 0 could change how many decimals are written
            sum_so_far += amount
    return sum_so_far


class Ledger:
    """Adds up what is sent, answered and asked: as it happens, or from a book's lines.

    Each event is a tuple that begins with a letter: "p", the price was learned; "s", a request was
    sent; "a", it was answered; "e", it ended otherwise; "q", a question is over. They are added up
    in `add` alone, and written to the book as they are, so a book read again adds up to the same.
    """

    def __init__(self, price: Price | None = None, book: CallBook | None = None) -> None:
        """Begins without an event: no call of this command is booked yet.

        Args:
            price: what costs are reckoned by; None where the endpoint has to say them.
            book: the run's book, into which each event is written, too; None for none.
        """
        self._price = price
        self._book = book
        """Where each event is written, too; None where nothing is kept."""
        self._origin: str | None = None
        """Where the price comes from that costs are reckoned by, as receipts name it; None until an
        event says so."""
        self._answered: Counter[tuple[str, str]] = Counter()
        """How many requests were answered, by purpose and model."""
        self._lines: dict[tuple[str, str], ReceiptLine] = {}
        """The lines of the receipt so far, by purpose and model."""
        self._open: dict[int, tuple[ReceiptLine, Decimal | None]] = {}
        """Requests in flight by their numbers, each with the most that it can cost."""

    def request(self, purpose: str, model: str, *, most: Decimal | None = None) -> int:
        """Books that a request is sent which costs ``most`` at most; gives the request's number.

        `answered` or `ended` closes the request by that number. The request is in the run's book
        before it is sent: the book of a command that is killed in between still shows it.
        """
        number = next(_NUMBERS)
        # Before the first request, so that the receipt of a killed command names its price, too.
        price = self._price
        if price is not None and self._origin is None:
            self._record_event("p", price.currency, price.origin)
        self._record_event("s", number, purpose, model, most)
        return number

    def answered(self, number: int, usage: Usage, cost: Decimal | None) -> None:
        """Books that a request was answered, with the tokens or cost that its endpoint reported.

        Args:
            number: of the request, as `request` gave it.
            cost: in US dollars; None where neither the endpoint nor a price gives it.
        """
        # In the order in which `add` unpacks them; books on disk have the same order.
        tokens = (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens)
        # Costs that the endpoint reports need an origin: a receipt without one shows no currency.
        if self._price is None and cost is not None and self._origin is None:
            self._record_event("p", Price.currency, "as the endpoint reports")
        self._record_event("a", number, tokens, cost)

    def ended(self, number: int, *, billed: bool) -> None:
        """Books that a request ended without a usable answer.

        The request leaves the requests in flight.

        Args:
            billed: whether its endpoint may bill it all the same; then the most that it can cost is
                shown as unconfirmed. False where it never reached the endpoint: it cost nothing.
        """
        self._record_event("e", number, billed)

    def call(self, purpose: str, model: str, *, cached: bool = False, failed: bool = False) -> None:
        """Books that a question is over, which took no request (cached), one, or several.

        A question is what a metric or operator asks; retries and corrections are requests of the
        same question. Receipts count both.
        """
        self._record_event("q", purpose, model, cached, failed)

    def receipt(self) -> Receipt:
        """The receipt of all calls booked in the ledger so far, its lines sorted.

        It may be asked for at any time: requests in flight are in its count of requests, not in its
        costs.
        """
        # A price that is given names the origin, even before the first request.
        origin = self._origin
        if self._price is not None:
            origin = self._price.origin
        lines = [self._with_estimate(line) for line in self._lines.values()]
        receipt = Receipt(lines=tuple(lines), price_origin=origin)
        return Receipt.of([receipt])  # sorts the lines

    def _with_estimate(self, line: ReceiptLine) -> ReceiptLine:
        """A line with what its lost requests may have cost, by the mean of the answered ones.

        An endpoint may bill a request whose answer never came. The estimate is never above the most
        that lost requests can have cost, and None where no request was answered to go by.
        """
        answered = self._answered[line.purpose, line.model]
        lost = line.unconfirmed_requests
        estimate = None
        # Nothing was lost: 0 is exact, also where no cost is known.
        if not lost:
            estimate = Decimal(0)
        elif answered and line.cost is not None and line.unconfirmed is not None:
            cost_by_mean = line.cost / answered * lost
            estimate = min(cost_by_mean, line.unconfirmed)
        return replace(line, unconfirmed_estimate=estimate)

    def _record_event(self, *event: Any) -> None:
        """Adds an event to the ledger's sums, and writes it to the run's book where there is one.

        Events begin with a letter, as `Ledger` lists them. The sums come first: `CallBook.note` may
        fail.
        """
        self.add(*event)
        if self._book is not None:
            self._book.note(*event)

    def add(self, *event: Any) -> None:
        """Adds an event to the ledger's sums.

        The event is one of this command, or a line of a killed command's book. The letters "p",
        "s", "a", "e" and "q" and what follows each are stored in ``calls.jsonl``: another form
        makes the books of killed commands unreadable, and their costs are lost.
        """
        match event:
            case "p", _, origin:
                self._origin = origin
            case "s", number, purpose, model, most:
                line = self._line_of_model(purpose, model)
                line.requests += 1
                self._open[number] = (line, _decimal(most))
            case "a", number, (prompt, completion, reasoning), cost:
                # A number that was never sent raises KeyError: `CallBook.open` skips such a line of
                # a book.
                line, _ = self._open.pop(number)
                self._answered[line.purpose, line.model] += 1
                line.prompt_tokens += prompt
                line.completion_tokens += completion
                line.reasoning_tokens += reasoning
                line.cost = total((line.cost, _decimal(cost)))
            case "e", number, billed:
                line, most = self._open.pop(number)
                if billed:
                    # Not a part of the cost: whether it is billed is not known.
                    line.unconfirmed = total((line.unconfirmed, most))
                    line.unconfirmed_requests += 1
            case "q", purpose, model, cached, failed:
                line = self._line_of_model(purpose, model)
                line.calls += 1
                if cached:
                    line.cached += 1
                if failed:
                    line.failed += 1
            case _:
                pass  # something else wrote this line of the book

    def cut_off(self) -> int:
        """Ends all requests in flight, since their command was killed; gives their number.

        Each request counts as one that may be billed: its endpoint may have gone on without anybody
        to answer.
        """
        numbers = list(self._open)
        for number in numbers:
            self.add("e", number, True)
        return len(numbers)

    def _line_of_model(self, purpose: str, model: str) -> ReceiptLine:
        """The receipt's line of a purpose and a model, begun with the first event of the two.

        A line sums the calls to one model for one purpose, such as a metric.
        """
        new_line = ReceiptLine(purpose=purpose, model=model)
        return self._lines.setdefault((purpose, model), new_line)


_NUMBERS = count(1)
"""Numbers of requests; several ledgers may write into one book, so no two share a number."""


def _decimal(amount: Decimal | str | None) -> Decimal | None:
    """An amount of money as a number: a line of a run's book holds it as text, to stay exact."""
    if amount is None:
        return None
    return Decimal(amount)


class CallBook:
    """The book of one command, in its run's folder: each event as a line, written at once.

    Several event loops and threads may write into it.
    """

    def __init__(self, folder: Path) -> None:
        """Writes nothing to the run's folder yet: a run that asks no model has no book of calls."""
        self._folder = folder
        self._lock = threading.RLock()  # of one thread: `note` opens the book inside of it
        self._file: int | None = None
        """The open file's descriptor; None before the first event and after the end."""
        self.spent_before = Decimal(0)
        """What earlier commands of the run spent, or may have spent; 0 until the book is opened."""

    def open(self) -> None:
        """Begins the command's book of calls, where it has not begun.

        A book that is there already is that of a command that was killed: its lines become a
        receipt first, so that what it spent counts against the run's cap.
        """
        calls = self._folder / CALLS
        receipts = self._folder / RECEIPTS
        with self._lock:
            if self._file is not None:
                return
            try:
                if calls.exists():
                    earlier = Ledger()
                    for line in _json_lines(calls):
                        # A line that was cut, or that something else wrote, is skipped.
                        with suppress(ValueError, TypeError, KeyError, InvalidOperation):
                            earlier.add(*line)
                    in_flight = earlier.cut_off()
                    _append_receipt(
                        receipts, earlier.receipt(), ended="killed", in_flight=in_flight
                    )
                self.spent_before = _spent_by_receipts(receipts)
                # The old book is emptied only now: if this process is killed before that, its costs
                # count twice at the next opening, which is better than lost.
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
                self._file = os.open(calls, flags, 0o600)
            except OSError as error:
                raise LLMCacheError(f"{calls} cannot be written: {error.strerror}") from error

    def note(self, *event: Any) -> None:
        """Appends an event of a ledger to the book of calls, as a line of JSON, at once.

        A process that is killed thereby leaves the requests that it paid for. `Ledger` lists the
        events.
        """
        with self._lock:
            # An answer or an end ("a", "e") opens no book: where it comes after the end of the
            # command, the book that has its request is closed, and a new one would lack the
            # request.
            if event[0] in "psq":
                self.open()
            if self._file is not None:
                # One write a line: a process that dies leaves whole lines.
                os.write(self._file, msgspec.json.encode(event) + b"\n")

    def close(self, receipt: Receipt) -> None:
        """Ends the book of calls: its lines become one receipt.

        There is no receipt where no model was asked.
        """
        with self._lock:
            file = self._file
            self._file = None
        # The receipt first: a process that is killed in between counts its costs twice, and loses
        # none of them.
        if receipt.lines:
            _append_receipt(self._folder / RECEIPTS, receipt, ended="done")
        if file is not None:
            os.close(file)
            with suppress(OSError):
                (self._folder / CALLS).unlink()


_RECEIPT_FIELDS = (
    "currency",
    "price_origin",
    "cost",
    "unconfirmed",
    "unconfirmed_estimate",
    "lines",
)
"""What a line of `RECEIPTS` holds of a receipt: its fields, and the sums that it computes."""


def _append_receipt(path: Path, receipt: Receipt, **ending: Any) -> None:
    """Appends a receipt to a run's ``receipts.jsonl``; amounts are exact numbers as text, or null.

    Receipts show what was paid when, repetitions and lost answers included, and so differ from run
    to run: the report shows what the answers took that its scores rest on.
    """
    # The keys of the line are stored: `_spent_by_receipts` of a later version reads them.
    line: dict[str, Any] = {}
    for name in _RECEIPT_FIELDS:
        line[name] = getattr(receipt, name)
    line.update(ending)
    with open_private(path, "ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")


def _json_lines(path: Path) -> Iterator[Any]:
    """The JSON values of a file, one a line; lines that cannot be read are skipped.

    Books and receipts are files of a killed command or may have been edited: one bad line must not
    hide what the others cost. A missing file has no lines.
    """
    with suppress(FileNotFoundError), path.open("rb") as file:
        for raw in file:
            with suppress(ValueError, RecursionError):
                yield msgspec.json.decode(raw)


def _spent_by_receipts(path: Path) -> Decimal:
    """The sum that all commands of a run spent, or may have spent, by its receipts.

    The cap of a run counts from this sum, so lost answers count as well, at the most that they may
    have cost ("unconfirmed"): their endpoint may bill them. An amount that is not known is null,
    and counts as 0. So does a line that is no receipt: a line that was cut or edited must not keep
    every later command of the run from asking.
    """
    spent = Decimal(0)
    for receipt in _json_lines(path):
        with suppress(TypeError, KeyError, InvalidOperation):
            for line in receipt["lines"]:
                amount = Decimal(line["cost"] or 0) + Decimal(line["unconfirmed"] or 0)
                if amount.is_finite():
                    spent += amount
    return spent


def amount_of(amount: str | Decimal, name: str) -> Decimal:
    """A sum of money from a user's text; ``name`` is the setting that an error names.

    Amounts are exact decimal numbers: sums of floats would not keep a cap to the cent.
    """
    try:
        return Decimal(amount)
    except InvalidOperation:
        raise ConfigError(f"{name} must be a number, not '{amount}'") from None


class Budget:
    """The limit of costs for all clients together, in any number of event loops and threads.

    Before a request is sent, the most that it can cost is set aside; afterwards what it did cost is
    booked. So the sum of what was spent and of what is in flight never exceeds the limit, however
    many calls there are at once.
    """

    def __init__(self, limit: Decimal | None, *, run_limit: Decimal | None = None) -> None:
        """Takes the limits of one command and of its run; refuses any that is no sum of money.

        An infinite or negative limit could not be compared with a cost: nothing would be capped.
        """
        for amount in (limit, run_limit):
            if amount is None:
                continue
            if not amount.is_finite() or amount < 0:
                raise ConfigError("a cost must be a number of at least 0")
        self.limit = limit
        """The most that this command may spend; None for no limit."""
        self.run_limit = run_limit
        """The most that all commands of a run may spend together; None for no limit."""
        self.book: CallBook | None = None
        """The run's book of calls, which knows what earlier commands of the run spent; None outside
        of a run."""
        self.spent = Decimal(0)
        """What all requests that are over cost; of one whose cost was not reported and that may be
        billed, the most that it can have cost."""
        self.reserved = Decimal(0)
        """The money set aside for requests in flight."""
        self._lock = threading.Lock()
        """Guards the amounts and the waiting calls: loops in several threads book at once."""
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        """Calls that wait for money to come back, each as its event loop and the event that is set
        when some has."""

    @property
    def is_capped(self) -> bool:
        """Whether the budget has a limit.

        With one, no call may be made whose highest cost is unknown.
        """
        return self.limit is not None or self.run_limit is not None

    @property
    def left(self) -> Decimal | None:
        """The money that may still be spent, including that set aside for requests.

        None where there is no limit. Where little is left, answers are given less room
        (`Caller.affordable`).
        """
        amounts_left = [limit - spent for _, limit, spent in self._limits_in_force()]
        return min(amounts_left, default=None)

    def _limits_in_force(self) -> list[tuple[str, Decimal, Decimal]]:
        """The limits that are set, as (words for an error, limit, spent so far).

        The list is empty where none is set. `_set_aside` compares each limit with the next
        request's highest cost.
        """
        caps: list[tuple[str, Decimal, Decimal]] = []
        if self.limit is not None:
            caps.append(("the cost", self.limit, self.spent))
        if self.run_limit is not None:
            spent_in_run = self.spent
            if self.book is not None:
                spent_in_run += self.book.spent_before
            subject = "the cost of all commands of this run"
            caps.append((subject, self.run_limit, spent_in_run))
        return caps

    async def reserve(self, amount: Decimal) -> None:
        """Sets the most that a request can cost aside before it is sent, to keep all caps.

        Where there is too little money now, the call waits for requests in flight, which may cost
        less than was set aside for them. Raises `LLMBudgetError` where waiting cannot help.
        """
        while True:
            money_came_back = self._set_aside(amount)
            if money_came_back is None:
                return
            await money_came_back.wait()

    def _set_aside(self, amount: Decimal) -> asyncio.Event | None:
        """Sets money aside and gives None, or gives the event that some money has come back.

        Of several calls at once only so many are let through as fit below the cap together.

        Raises:
            LLMBudgetError: so much is spent that waiting for requests in flight cannot help.
        """
        if self.book is not None:
            self.book.open()  # reads what earlier commands spent
        with self._lock:
            fits = True
            for subject, limit, spent in self._limits_in_force():
                # Waiting gives back money set aside, never money spent: so this request cannot fit
                # any more.
                if spent + amount > limit:
                    raise LLMBudgetError(
                        f"{subject} is capped at {limit:f}; {spent:.6f} is spent, and the next "
                        f"call may cost up to {amount:.6f}. Answers are kept: a higher cap "
                        "goes on from there"
                    )
                # Too much only together with what is in flight: some of that may come back.
                if spent + self.reserved + amount > limit:
                    fits = False
            if fits:
                self.reserved += amount
                return None
            # Loaded late: recorded runs, which ask nobody, do not wait for it.
            from asyncio import Event, get_running_loop

            money_came_back = Event()
            self._waiting.append((get_running_loop(), money_came_back))
            return money_came_back

    def settle(self, amount: Decimal, cost: Decimal) -> None:
        """Books the cost of a request that is over, and frees the rest set aside for it.

        Calls that wait for money then look again.

        Args:
            amount: what `reserve` set aside for the request.
            cost: what it did cost; the whole amount where nobody knows.
        """
        with self._lock:
            self.reserved -= amount
            self.spent += cost
            # Taken out under the lock: a call that has to wait again gets into the next list.
            waiting = self._waiting
            self._waiting = []
        for loop, money_came_back in waiting:
            if not loop.is_closed():  # who waited there has been cancelled
                # An event of asyncio may be set in its own loop alone.
                loop.call_soon_threadsafe(money_came_back.set)


_DATE_IN_NAME = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|20\d{6})$")
"""The date at the end of a model's name; a dated version costs what the model costs."""


def price_for(endpoint: Endpoint) -> Price | None:
    """The price of an endpoint's tokens: the user's own, else a list price; None when not known.

    List prices are looked up by host and model. A date at the end of a model's name is ignored
    where the list does not have it.
    """
    if endpoint.price is not None:
        return endpoint.price
    prices = _price_table().get(endpoint.host, {})
    name = endpoint.model.removeprefix("models/")  # as Gemini lists its own
    undated_name = _DATE_IN_NAME.sub("", name)
    # The exact name first: a list may price a dated version apart.
    return prices.get(name) or prices.get(undated_name)


@cache
def _price_table() -> dict[str, dict[str, Price]]:
    """The list prices that come with ragbench, by host and model.

    Each price has the list's date as its origin, which receipts name: prices change.
    """
    content = get_data("ragbench.llm", "prices.json") or b""
    prices_by_host: dict[str, Any] = {}
    for table in msgspec.json.decode(content)["tables"]:
        host = table["host"]
        # Names the price in receipts: prices change, so the date belongs to it.
        origin = f"list price of {host}, {table['as_of']}"
        if "note" in table:
            origin += f", {table['note']}"
        prices: dict[str, Any] = {}
        for model, price in table["models"].items():
            prices[model] = {**price, "origin": origin}
        prices_by_host[host] = prices
    return msgspec.convert(prices_by_host, dict[str, dict[str, Price]])


def check_cap(endpoint: Endpoint) -> None:
    """Refuses an endpoint of which nobody knows beforehand the most that a call can cost.

    A cap is kept by setting that amount aside before each request.
    """
    if price_for(endpoint) is None:
        raise ConfigError(
            f"the cost cannot be capped: the price of {endpoint.model} at {endpoint.base_url} is "
            "not known. Give price_input and price_output, per million tokens (0 where it costs "
            "nothing)"
        )
    if endpoint.max_tokens is None:
        raise ConfigError("the cost cannot be capped without max_tokens: no answer has a limit")


_MOST_A_MESSAGE = 16
"""Tokens that a chat template may add to each message, such as its role."""
_MOST_A_REQUEST = 256
"""Tokens that it may add to a request: the date, a default system prompt."""


def most_prompt_tokens(payload: Mapping[str, Any]) -> int:
    """An upper bound of the tokens in a request's prompt, before any endpoint has counted them.

    The most that a request can cost is set aside by it, so it may be too high and never too low.

    Every token of a byte-level or SentencePiece vocabulary stands for at least one byte of UTF-8,
    so the bytes bound the tokens, whatever the vocabulary. A chat template's own words come on top.
    """
    message_count = len(payload.get("messages", ()))
    # JSON escapes make the text longer, never shorter.
    text = json.dumps(payload, ensure_ascii=False)
    size = len(text.encode("utf-8", "replace"))
    return size + _MOST_A_MESSAGE * message_count + _MOST_A_REQUEST
