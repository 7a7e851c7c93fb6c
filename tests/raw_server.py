"""A server on this machine that writes to each connection what a test says, byte by byte."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

Serving = Callable[[socket.socket, int], None]
"""Writes an answer to a connection, of which the number is given; the connection is closed then."""


@contextmanager
def serving_raw(serve: Serving) -> Generator[str]:
    """The server's address; a request is read as a whole before it is served."""

    def work(connection: socket.socket, number: int) -> None:
        with connection, suppress(OSError):
            _read_request(connection)
            serve(connection, number)

    def accept() -> None:
        number = 0
        with suppress(OSError):  # the listener is closed
            while True:
                connection, _ = listener.accept()
                number += 1
                threading.Thread(target=work, args=(connection, number), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _read_request(connection: socket.socket) -> None:
    """Reads the head of a request, and as much of a body as it announces."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionError
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    size = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            size = int(line.partition(b":")[2])
    while len(body) < size:
        body += connection.recv(1 << 16)


def answer_of(body: bytes, *headers: str) -> bytes:
    """A whole answer with a length and more headers."""
    lines = ["HTTP/1.1 200 OK", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def reset(connection: socket.socket) -> None:
    """Has the connection end with a reset as it is closed."""
    # Lingering is on, for no second.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
