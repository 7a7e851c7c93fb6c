"""A dump of JSON Lines by byte ranges: pieces that workers read, each line in exactly one of them.

A line belongs to the piece in which it begins. So pieces of any size hold every line once, whatever
is read first.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from ragbench.core.validation import RetrievalDump
from ragbench.errors import Problem
from ragbench.io.addresses import read_range
from ragbench.io.dumps.decode import Decoder, RawRetrieval
from ragbench.io.dumps.form import DumpForm, DumpMapping, DumpRecord
from ragbench.io.dumps.forms import find_form
from ragbench.io.json_files import line_value, parse_json
from ragbench.io.limits import ReadLimits
from ragbench.io.lines import Line
from ragbench.io.source import Problems
from ragbench.io.values import ValueProblem

PIECE_BYTES = 2 << 20
"""How much of a dump a worker reads at a time."""
_MORE = 1 << 20
_GAP = 1 << 20
"""Lines that lie no further apart are read together."""
_KEPT = 100
"""Problems in a row that are reported one by one."""


class Piece(NamedTuple):
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
    place: Place
    line: int
    """From 1, in its piece."""
    query_id: str | None
    query: str | None
    retrieval: RetrievalDump | None
    """None where it has no query, or a problem."""
    problem: Problem | None


PieceItem = int | Problem | Passed | PlacedRetrieval


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitDump:
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
        for start in range(0, self.size, self.piece):
            yield Piece(start, min(self.size, start + self.piece))

    def read(self, piece: Piece) -> Iterator[PieceItem]:
        """The retrievals of the lines that begin in a piece, and what is wrong, in their order.

        Lines count from 1 in the piece. The last thing is how many lines there are; a line that is
        longer than the limits allow ends the dump, and gives -1.
        """
        number = passed = reported = 0
        for line in lines_of(self.address, piece, self.size, self.limits.record):
            number = line.number
            if len(line.raw) > self.limits.record:
                message = self.limits.long_record("the line")
                yield Problem(message=message, path=self.name, line=number)
                yield -1
                return
            for found in self._of_line(line):
                if isinstance(found, PlacedRetrieval):
                    if passed:
                        yield Passed(passed)
                    reported = passed = 0
                    yield found
                elif reported < _KEPT:
                    reported += 1
                    yield found
                else:
                    passed += 1
        if passed:
            yield Passed(passed)
        yield number

    def at(self, places: Sequence[Place]) -> Iterator[RetrievalDump | None]:
        """The retrievals at some places, without their ids; None where there is no such one now."""
        for start, group in _near(places):
            end = max(place.start + place.size for place in group)
            data = read_range(self.address, start, end)
            for place in group:
                at = place.start - start
                yield self._one(data[at : at + place.size], place)

    def _one(self, raw: bytes, place: Place) -> RetrievalDump | None:
        try:
            record = DumpRecord(self.name, None, parse_json(raw))
            found = next(islice(self._decoder.raw(record), place.number, None), None)
            if found is None:
                return None
            return self._decoder.retrieval(found, "", found.query or "")
        except ValueProblem:
            return None

    def _of_line(self, line: Line) -> Iterator[Problem | PlacedRetrieval]:
        problems = Problems()
        for value in line_value(line, self.name, problems):
            record = DumpRecord(self.name, line.number, value)
            try:
                for number, raw in enumerate(self._decoder.raw(record)):
                    yield self._placed(raw, Place(line.offset, len(line.raw), number), line.number)
            except ValueProblem as problem:
                yield Problem(message=str(problem), path=self.name, line=line.number)
        yield from problems

    def _placed(self, raw: RawRetrieval, place: Place, line: int) -> PlacedRetrieval:
        retrieval = problem = None
        if raw.query is not None:
            try:
                retrieval = self._decoder.retrieval(raw, "", raw.query)
            except ValueProblem as error:
                problem = Problem(message=str(error), path=self.name, line=line)
        return PlacedRetrieval(place, line, raw.query_id, raw.query, retrieval, problem)

    @property
    def _decoder(self) -> Decoder:
        return _decoder(self.mapping, self.form)


@lru_cache(maxsize=4)
def _decoder(mapping: DumpMapping, name: str) -> Decoder:
    """Made anew in each process: forms hold functions that do not travel."""
    form = find_form(name)
    if not isinstance(form, DumpForm):
        raise TypeError(f"{name} joins several files")
    return Decoder(mapping, form)


def _near(places: Sequence[Place]) -> Iterator[tuple[int, list[Place]]]:
    """Runs of places that are worth one reading, each with where it begins."""
    run: list[Place] = []
    end = 0
    for place in places:
        if run and not run[0].start <= place.start <= end + _GAP:
            yield run[0].start, run
            run = []
        run.append(place)
        end = max(end if len(run) > 1 else 0, place.start + place.size)
    if run:
        yield run[0].start, run


def lines_of(address: str, piece: Piece, size: int, longest: int) -> Iterator[Line]:
    """The lines that begin in a piece; the last one may end behind it.

    Args:
        longest: bytes of a line that are read at most, and one more.
    """
    # A line begins behind a line's end: the byte before the piece shows whether one does here.
    first = max(0, piece.start - 1)
    data = read_range(address, first, piece.end)
    at = data.find(b"\n") + 1 if piece.start else 0
    if piece.start and not at:
        return
    number = 0
    most = longest + 1 + len(codecs.BOM_UTF8)
    while first + at < piece.end:
        number += 1
        stop = data.find(b"\n", at) + 1
        if stop:
            raw = data[at : min(stop, at + most)]
        else:
            raw = _to_its_end(address, data[at : at + most], piece.end, size, most)
        line = _without_mark(Line(number, first + at, raw), longest)
        if line.raw:
            yield line
        if not stop or len(line.raw) > longest:
            return
        at = stop


def _without_mark(line: Line, longest: int) -> Line:
    """A line without the byte order mark that may stand before the first one."""
    start = len(codecs.BOM_UTF8)
    if line.offset or not line.raw.startswith(codecs.BOM_UTF8):
        start = 0
    return Line(line.number, line.offset + start, line.raw[start : start + longest + 1])


def _to_its_end(address: str, begun: bytes, at: int, size: int, most: int) -> bytes:
    raw = bytearray(begun)
    while at < size and len(raw) < most:
        more = read_range(address, at, min(size, at + _MORE))
        end = more.find(b"\n") + 1
        raw += more[:end] if end else more
        if end:
            break
        at += len(more)
    return bytes(raw[:most])
