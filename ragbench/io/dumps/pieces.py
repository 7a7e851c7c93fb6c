"""A dump of JSON Lines by byte ranges: pieces that workers read, each line in exactly one of them.

A line belongs to the piece in which it begins. So pieces of any size hold every line once, whatever
is read first.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ragbench.core.record import Record
from ragbench.core.validation import RetrievalDump
from ragbench.errors import Problem
from ragbench.io.addresses import read_range
from ragbench.io.detect import reader_of
from ragbench.io.dumps.decode import Decoder
from ragbench.io.dumps.form import AnyRow, DumpMapping, DumpRecord
from ragbench.io.dumps.forms import find_form, forms
from ragbench.io.fields import field_names
from ragbench.io.json_files import (
    Line,
    array_of,
    decode_head,
    is_unambiguous,
    json_elements,
    line_value,
    parse_json,
    read_lines,
    shown_value,
)
from ragbench.io.limits import ReadLimits
from ragbench.io.source import Problems, Source, noting_read_errors
from ragbench.io.values import ValueProblem, is_list, is_object, parse_cell

PIECE_BYTES = 2 << 20
"""How much of a dump a worker reads at a time."""
_TAIL_BYTES = 1 << 20
"""How much is read at a time of a line that ends behind its piece."""
_GAP = 1 << 20
"""Lines that lie no further apart are read together."""
KEPT = 100
"""Problems that are reported one by one; the others are counted."""


class Piece(NamedTuple):
    """A range of bytes."""

    start: int
    end: int


class Place(NamedTuple):
    """Where a retrieval is in a dump."""

    start: int
    size: int
    number: int
    """Which retrieval of the line it is, from 0."""


class Passed(NamedTuple):
    """Problems beyond those that are reported one by one."""

    problems: int


class PlacedRetrieval(NamedTuple):
    """A retrieval of a piece, with where it is."""

    place: Place
    line: int
    """From 1, in its piece."""
    query_id: str | None
    query: str | None
    retrieval: RetrievalDump | None
    """None where it has no query, or a problem."""
    problem: Problem | None


PieceItem = int | Problem | Passed | PlacedRetrieval
"""What reading a piece gives; the number is how many lines it has, see `SplitDump.read`."""


class SplitDump(Record):
    """A dump that can be read by ranges, in any process."""

    name: str
    address: str
    size: int
    version: tuple[str, ...]
    """What is another one once the file has changed; see
    `ragbench.io.addresses.version_of_address`."""
    limits: ReadLimits
    mapping: DumpMapping
    form: str
    piece: int = PIECE_BYTES

    def pieces(self) -> Iterator[Piece]:
        """Pieces (ranges of bytes) that hold the whole dump, each byte once.

        Workers read one piece at a time, side by side.
        """
        for start in range(0, self.size, self.piece):
            yield Piece(start, min(self.size, start + self.piece))

    def read(self, piece: Piece) -> Iterator[PieceItem]:
        """The retrievals of the dump's lines that begin in a piece, and problems, in file order.

        Lines count from 1 in the piece. The last item is how many lines there are: the caller adds
        them up for the line numbers of the whole dump. A line that is longer than the limits allow
        ends the dump, and gives -1.
        """
        line_count = 0
        problem_count = 0
        for line in lines_of(self.address, piece, self.size, self.limits.record):
            line_count = line.number
            if len(line.raw) > self.limits.record:
                message = self.limits.long_record("the line")
                yield Problem(message=message, path=self.name, line=line.number)
                yield -1
                return
            for item in self._retrievals_of_line(line):
                if isinstance(item, Problem):
                    problem_count += 1
                    if problem_count > KEPT:
                        continue  # only counted
                yield item
        if problem_count > KEPT:
            yield Passed(problem_count - KEPT)
        yield line_count

    def at(self, places: Sequence[Place]) -> Iterator[RetrievalDump | None]:
        """The retrievals at some places of the dump, without ids.

        None for a place that has none now.

        So a report shows single cases of a large dump without reading the rest of it again.
        """
        for start, group in _places_read_together(places):
            end = max(place.start + place.size for place in group)
            data = read_range(self.address, start, end)
            for place in group:
                begin = place.start - start
                yield self._retrieval_in(data[begin : begin + place.size], place.number)

    def _retrieval_in(self, line: bytes, number: int) -> RetrievalDump | None:
        """The retrieval of the dump in a line, by its number there; None if there is none any more.

        The file may have changed since its places were noted.
        """
        decoder = _decoder_of_form(self.mapping, self.form)
        with suppress(ValueProblem):
            record = DumpRecord(self.name, None, parse_json(line))
            # A line may hold several retrievals: the one of this number is taken.
            raw = next(islice(decoder.raw(record), number, None), None)
            if raw is not None:
                return decoder.retrieval(raw, "", raw.query or "")
        return None

    def _retrievals_of_line(self, line: Line) -> Iterator[Problem | PlacedRetrieval]:
        """The retrievals in a line of the dump, then the problems of the line as a whole.

        A problem of one retrieval comes with it, and does not hide the others of the line.
        """
        decoder = _decoder_of_form(self.mapping, self.form)
        problems = Problems()
        for value in line_value(line, self.name, problems):
            record = DumpRecord(self.name, line.number, value)
            with noting_read_errors(self.name, problems, line.number):
                for number, raw in enumerate(decoder.raw(record)):
                    retrieval = None
                    own_problems = Problems()
                    with noting_read_errors(self.name, own_problems, line.number):
                        # Without a query it cannot be judged: the caller notes that, with the line
                        # of the dump.
                        if raw.query is not None:
                            retrieval = decoder.retrieval(raw, "", raw.query)
                    problem = next(iter(own_problems), None)
                    yield PlacedRetrieval(
                        place=Place(line.offset, len(line.raw), number),
                        line=line.number,
                        query_id=raw.query_id,
                        query=raw.query,
                        retrieval=retrieval,
                        problem=problem,
                    )
        yield from problems


@lru_cache(maxsize=4)
def _decoder_of_form(mapping: DumpMapping, name: str) -> Decoder:
    """The decoder of a dump in this process, made once: forms hold functions that do not travel.

    Workers get the mapping and the form's name alone.
    """
    return Decoder(mapping, find_form(name))


def _places_read_together(places: Sequence[Place]) -> Iterator[tuple[int, list[Place]]]:
    """Groups of places of a dump that are worth one reading, each with where it begins.

    At an address each reading is a request: what lies close together is read at once.

    Args:
        places: in the order of the file; one that lies before its group begins a new one.
    """
    group: list[Place] = []
    end = 0
    for place in places:
        # Too far behind to be worth reading what lies between, or before the group.
        if group and not group[0].start <= place.start <= end + _GAP:
            yield group[0].start, group
            group = []
            end = 0
        group.append(place)
        end = max(end, place.start + place.size)
    if group:
        yield group[0].start, group


def lines_of(address: str, piece: Piece, size: int, longest: int) -> Iterator[Line]:
    """The lines of a dump that begin in a piece; the last one may end behind the piece.

    A line belongs to the piece in which it begins, so that each is read by exactly one worker.

    Args:
        size: bytes of the dump.
        longest: bytes of a line that are read at most, and one more.
    """
    # A line begins behind a line's end: the byte before the piece shows whether one does here.
    data_start = max(0, piece.start - 1)
    data = bytearray(read_range(address, data_start, piece.end))
    first_line = 0
    if piece.start:
        first_line = data.find(b"\n") + 1
        if first_line == 0:
            return  # the whole piece is within a line of an earlier one
    byte_limit = longest + 1 + len(codecs.BOM_UTF8)
    # The last line may end behind the piece: it is read on up to its end, or to the limit.
    end = piece.end
    while end < size and not data.endswith(b"\n"):
        line_bytes = len(data) - data.rfind(b"\n")
        if line_bytes > byte_limit:
            break
        tail = read_range(address, end, min(size, end + _TAIL_BYTES))
        line_end = tail.find(b"\n") + 1
        if line_end == 0:  # the line goes on behind the tail
            line_end = len(tail)
        data += tail[:line_end]
        end += len(tail)
    stream = BytesIO(data)
    stream.seek(first_line)
    for number, raw in enumerate(iter(partial(stream.readline, byte_limit), b""), start=1):
        offset = data_start + stream.tell() - len(raw)
        if offset >= piece.end:
            return
        # A byte order mark may stand before the first line of the file.
        text = raw.removeprefix(codecs.BOM_UTF8) if offset == 0 else raw
        skipped_bytes = len(raw) - len(text)
        line = Line(number, offset + skipped_bytes, text[: longest + 1])
        if line.raw:
            yield line
        if len(line.raw) > longest:
            return


# --- all of a file, in whatever container

_BLOCK = 1 << 20
"""Bytes that are read at a time to count lines: memory stays flat."""


def count_lines(path: str | Path) -> int | None:
    """The lines of a JSONL file, about its number of queries, for a progress bar.

    None for standard input, other containers, and files that cannot be read.
    """
    file = Path(path)
    if file.suffix.lower() not in (".jsonl", ".ndjson"):
        return None
    try:
        with file.open("rb") as stream:
            line_ends = 0
            last_byte = b"\n"
            while block := stream.read(_BLOCK):
                line_ends += block.count(b"\n")
                last_byte = block[-1:]
    except OSError:
        return None
    # A last line without a line feed is a line, too.
    return line_ends if last_byte == b"\n" else line_ends + 1


_QUERY_KEYS = frozenset({"query", "question", "user_input", "input"})
"""Keys by which an object is a record with a query of its own, and no hit of another."""


def read_records(source: Source, container: str, problems: Problems) -> Iterator[AnyRow]:
    """Yields the records of a dump's file, of whatever container: a line, an element, a row.

    Anything that is no record is noted, and the others follow.

    Args:
        container: the name of the file's format, such as ``jsonl``.
    """
    with noting_read_errors(source.name, problems):
        if container == "jsonl":
            for line in read_lines(source, problems):
                for value in line_value(line, source.name, problems):
                    yield DumpRecord(source.name, line.number, value)
        # By its beginning alone a dump may be taken for a file of SQuAD: both are read as JSON.
        elif container in ("json", "squad"):
            yield from _records_of_json_file(source, problems)
        else:
            for row in reader_of(container)(source, kind="cases", problems=problems):
                if row.cells:
                    values: dict[str, object] = {}
                    for name, cell in row.values.items():
                        values[name] = _cell_value(name, cell)
                    row = row._replace(values=values)
                yield row


def _records_of_json_file(source: Source, problems: Problems) -> Iterator[DumpRecord]:
    """The records of a JSON file: the elements of its array, or the whole file as one response.

    By the beginning of the file it is decided which of the two it is.
    """
    shown = shown_value(decode_head(source.head(problems) or b"", source.encoding))
    key: str | None = None
    elements: Sequence[object] = ()
    if is_list(shown):
        elements = shown
    elif not is_object(shown) or _QUERY_KEYS.isdisjoint(shown):
        # An object with a query of its own is one record, whatever else it holds.
        key, elements = array_of(shown, field_names("array")["retrievals"])
    is_one = (key is None and is_object(shown)) or _is_one_response(elements)
    was_list = False
    for line, raw, value in json_elements(source, key, problems, is_one=is_one):
        # Behind the points of a client's scroll stands the offset of the next page.
        is_offset = was_list and not is_object(value) and not is_list(value)
        if not is_offset and is_unambiguous(raw, value, source.name, line, problems):
            yield DumpRecord(source.name, line, value)
        was_list = is_list(value)


def _is_one_response(hits: Sequence[object]) -> bool:
    """Whether an array's elements are hits of one query, rather than records with a query each.

    The first element decides, as the elements of an array are all alike in both cases.
    """
    if not hits:
        return False
    hit = hits[0]
    if isinstance(hit, str):
        return True  # texts alone
    if is_list(hit):  # a document in a pair with its score, or else the hits of a query
        return len(hit) == 2 and is_object(hit[0]) and isinstance(hit[1], (int, float))
    if is_object(hit):
        if not _QUERY_KEYS.isdisjoint(hit):
            return False
        if not {"score", "distance", "_score"}.isdisjoint(hit):
            return True
    return any(form.is_bare and form.is_hit(hit) for form in forms().values())


@cache
def _text_columns() -> set[str]:
    """Columns of a table of chunks whose cells are text, even in brackets.

    A passage may quote a list. ``context`` and ``input`` are names of a text, and of columns with a
    list or an object, too: they are left out.
    """
    names = {*field_names("hit")["text"], *_QUERY_KEYS, "answer", "response"}
    return names - {"context", "input"}


def _cell_value(name: str, cell: object) -> object:
    """The value of a table's cell in the types of JSON: a spelled list or object becomes one.

    A cell that cannot be read so stays a text. An empty one is None.

    Args:
        name: the column, whose name may say that its cells are text.
    """
    if not isinstance(cell, str) or name.lower() in _text_columns():
        return cell
    text = cell.strip()
    if not text:
        return None
    brackets = text[:1] + text[-1:]
    # `parse_cell` converts by a field: these two stand for any field of lists, and of objects.
    target = {"[]": "reference_contexts", "{}": "metadata"}.get(brackets)
    if target is None:
        return cell
    try:
        return parse_cell(target, text)
    except ValueProblem:
        return cell
