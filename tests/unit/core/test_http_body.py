"""Bodies of answers as they come in parts, and packed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from types import SimpleNamespace

from ragbench.core.http_body import _unpacked_pieces


async def unpacked(*parts: bytes) -> bytes:
    async def stream() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    response = SimpleNamespace(headers={"content-encoding": "deflate"}, stream=stream())
    return b"".join([piece async for piece in _unpacked_pieces(response)])


def test_an_empty_part_before_a_packed_body_is_passed_over() -> None:
    packed = zlib.compress(b'{"ok": 1}')

    assert asyncio.run(unpacked(b"", packed[:4], b"", packed[4:])) == b'{"ok": 1}'
