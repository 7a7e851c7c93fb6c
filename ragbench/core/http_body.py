"""The bodies of answers over HTTP, read and unpacked as long as they are within the limit.

Clients of httpx know no limit: an endless body fills the memory, and so does a small one that
unpacks to much. `BodyReader` is an event hook, which such a client calls before it reads a body.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from typing import Any

from ragbench.core.sizes import long_record, record_limit
from ragbench.errors import RagbenchError

ACCEPTED_PACKING = {"Accept-Encoding": "gzip, deflate"}
"""The header of requests whose answers are read here. Python unpacks these two in pieces of a size
that we choose; the packages for others give whatever a few bytes unpack to."""
_PIECE = 1 << 20
"""Bytes that are unpacked at a time."""
_LARGE = 4 << 20
"""Bytes from which on one body is read at a time: of many calls in flight, each may be endless."""


class BodyError(RagbenchError):
    """A body is too large, or cannot be unpacked."""


class BodyReader:
    """Reads the bodies of a client's answers. For one event loop."""

    def __init__(self) -> None:
        """Takes the limit of a record as it is set now, and a lock for large bodies.

        The lock lets one large body be read at a time.
        """
        self._limit = record_limit()
        """Bytes of the longest body; unchanged for as long as the client is open."""
        self._reading_large = asyncio.Lock()

    async def __call__(self, response: Any) -> None:
        """Puts the unpacked body into a response, in place of the connection that it comes from.

        The client calls it with each response, as an event hook. By itself it would read a body of
        any size: here it is unpacked piece by piece, and refused once it is too large.
        """
        body = await self._read(response)
        await response.stream.aclose()
        response.headers.pop("content-encoding", None)
        # By a response of the client's package: httpx and httpx2 have streams of their own.
        response.stream = type(response)(response.status_code, content=body).stream

    async def _read(self, response: Any) -> bytes:
        """The whole unpacked body of a response; raises as soon as it is too long.

        Large bodies are read one at a time: several at once could fill the memory.
        """
        announced = response.headers.get("content-length", "")
        if announced.isdecimal():
            self._check(int(announced))
        body = bytearray()
        pieces = _unpacked_pieces(response)
        try:
            async for piece in pieces:
                body += piece
                if len(body) > _LARGE:
                    break
            # The same iterator goes on where the loop before broke off.
            async with self._reading_large:
                async for piece in pieces:
                    body += piece
                    self._check(len(body))
            self._check(len(body))
            return bytes(body)
        finally:
            body.clear()  # the traceback of an error would keep it

    def _check(self, size: int) -> None:
        """Raises where a body of so many bytes exceeds the limit of a record.

        An endless body is so refused before it fills the memory.
        """
        if size > self._limit:
            raise BodyError(long_record("the answer", self._limit))


async def _unpacked_pieces(response: Any) -> AsyncIterator[bytes]:
    """The unpacked body of a response in pieces of a megabyte at most.

    A few packed bytes may unpack to gigabytes: the reader can so stop in time.

    Raises:
        BodyError: the body is packed in another way than asked for, damaged, or breaks off.
    """
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing in ("", "identity"):
        async for part in response.stream:
            yield part
        return
    if packing not in _WINDOW_BITS:
        raise BodyError(
            f"the answer is packed as '{packing}', which was not asked for "
            f"(Accept-Encoding: {ACCEPTED_PACKING['Accept-Encoding']})"
        )
    unpacker = zlib.decompressobj(_WINDOW_BITS[packing])
    is_first = True
    async for part in response.stream:
        # Seen at the first part alone: behind it any byte may be anything.
        if is_first and part and packing == "deflate" and not _has_zlib_header(part):
            unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        is_first = is_first and not part
        while part:
            try:
                yield unpacker.decompress(part, _PIECE)
            except zlib.error as error:
                raise BodyError(f"the answer cannot be unpacked as {packing}: {error}") from None
            await asyncio.sleep(0)  # other calls, and the ends of their times, get their turn
            part = unpacker.unconsumed_tail
            if unpacker.eof and unpacker.unused_data:  # gzip files may follow one another
                part = unpacker.unused_data
                unpacker = zlib.decompressobj(_WINDOW_BITS[packing])
    if not is_first and not unpacker.eof:
        raise BodyError(f"the answer is packed as {packing} and breaks off")


_WINDOW_BITS = {
    "gzip": 16 + zlib.MAX_WBITS,
    "x-gzip": 16 + zlib.MAX_WBITS,
    "deflate": zlib.MAX_WBITS,
}
"""By the name of a packing (RFC 9110, 8.4.1): what tells zlib of its header."""


def _has_zlib_header(part: bytes) -> bool:
    """Whether a body packed by deflate begins with zlib's header, as RFC 9110 demands.

    Some servers leave the header out, and zlib then has to be set to raw data.
    """
    return part[0] & 0x0F == zlib.DEFLATED
