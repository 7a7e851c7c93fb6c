from __future__ import annotations

import re

import orjson
import pytest

from ragbench.core.outcome import Failure


def failure_of(error: BaseException) -> Failure:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001  # whatever a RAG may raise
        return Failure.of(raised, stage="generate")


def test_the_chain_of_causes_is_kept_and_ends() -> None:
    try:
        try:
            try:
                raise OSError("connection refused")
            except OSError as error:
                raise LookupError("no index") from error
        except LookupError:
            raise ValueError("no answer")  # noqa: B904  # the chain by context is what is tested
    except ValueError as error:
        failure = Failure.of(error, stage="retrieve")
    assert failure.cause == "LookupError: no index <- OSError: connection refused"
    assert str(failure) == f"retrieve: ValueError: no answer <- {failure.cause}"
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert Failure.of(one, stage="retrieve").cause == "ValueError: two"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "\x1b[31m", "名", ""])
def test_any_message_can_be_written_down(text: str) -> None:
    failure = failure_of(ValueError(text))
    for part in (failure.message, failure.traceback, str(failure)):
        assert part is not None
        part.encode()
    orjson.dumps(failure)


def test_a_message_that_cannot_be_made_is_reported() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("nested")

    said = "(its message cannot be read: RuntimeError)"
    assert failure_of(Broken()).message == said
    error = ValueError("outer")
    error.__cause__ = Broken()
    assert failure_of(error).cause == f"Broken: {said}"


def test_a_huge_message_keeps_its_ends() -> None:
    failure = failure_of(ValueError("begin" + "x" * 5_000_000 + "end"))
    assert re.fullmatch(r"begin.*\(4,990,008 characters\).*end", failure.message, re.S)
    assert failure.traceback is not None
    assert max(len(failure.message), len(failure.traceback)) < 11_000
