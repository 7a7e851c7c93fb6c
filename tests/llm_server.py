"""An OpenAI-compatible server that fails as real ones do, in seeded proportions, and counts.

Which fault a request meets depends on the seed, on what it asks and on how often that was asked
before; not on the order in which requests arrive. So a run of many calls at once is repeatable.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

Payload = dict[str, Any]


def instance_of(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """A value that follows a JSON schema, such as pydantic writes them."""
    root = schema if root is None else root
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return instance_of(root["$defs"][name], root)
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "allOf", "oneOf"):
        if key in schema:
            return instance_of(schema[key][0], root)
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: instance_of(inner, root) for name, inner in properties.items()}
    if kind == "array":
        return [instance_of(schema.get("items", {}), root)]
    simple = {"string": "text", "integer": 1, "number": 1.0, "boolean": True, "null": None}
    return simple.get(str(kind), "text")


def in_prompt(payload: Payload) -> Mapping[str, Any] | None:
    """The schema that ends the last message."""
    prompt: str = payload["messages"][-1]["content"]
    if "JSON schema" not in prompt:
        return None
    heading = prompt.rindex("JSON schema")
    start = prompt.index("\n{", heading) + 1
    schema: Mapping[str, Any] = json.loads(prompt[start:])
    return schema


def in_format(payload: Payload) -> Mapping[str, Any] | None:
    """The schema that a model has to follow, or sees; None where it sees none."""
    response_format = payload.get("response_format", {})
    json_schema: Mapping[str, Any] = response_format.get("json_schema", {})
    return json_schema.get("schema") or in_prompt(payload)


def said_by_default(payload: Payload) -> str:
    """An echo of the last message; with ``response_format`` or a schema in the prompt, JSON.

    A validator quotes the first passage of its evidence, a judge all of them.
    """
    prompt: str = payload["messages"][-1]["content"]
    schema = in_format(payload)
    if schema is None:
        return prompt
    answer = instance_of(schema)
    question, _, _ = prompt.partition("\n\n")
    if "quotes" in answer:  # of an honest validator
        evidence = json.loads(question)["evidence"]
        answer["quotes"] = evidence[:1]
    if "verdicts" in answer:  # of an honest judge
        task = json.loads(question)
        return support_verdicts(task, "supported", task["evidence"])
    return json.dumps(answer)


def support_verdicts(task: Mapping[str, Any], verdict: str, quotes: Sequence[str] = ()) -> str:
    """The answer of a judge of ``support`` that gives the same verdict of each statement."""
    verdicts = []
    for number, _ in enumerate(task["statements"], start=1):
        row = {"number": number, "reason": "r", "quotes": [*quotes], "verdict": verdict}
        verdicts.append(row)
    return json.dumps({"verdicts": verdicts})


@dataclass(kw_only=True)
class Call:
    path: str
    payload: Payload
    headers: dict[str, str]
    fault: str | None
    """None: answered well."""


class Answered(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: str
    whole: bool = True
    """Whether the connection holds until all of it is sent."""


@dataclass(kw_only=True)
class Served:
    """A server in a thread of its own: ``with FaultServer(...) as server: server.url``."""

    peak: int = 0
    """The most requests in flight at once."""
    url: str = field(init=False, default="")
    prefix: str = field(init=False, default="/v1")
    _in_flight: int = field(init=False, default=0)

    async def answer(self, path: str, headers: dict[str, str], payload: Payload) -> Answered:
        raise NotImplementedError

    def __enter__(self) -> Self:
        ready = threading.Event()
        work: Callable[[], None] = lambda: asyncio.run(self._serve(ready))  # noqa: E731
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                while await self._request(reader, writer):
                    pass
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                connections.discard(task)
                writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=512)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}{self.prefix}"
        ready.set()
        await self._stop.wait()
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request of a connection; whether there may be another."""
        head = await reader.readuntil(b"\r\n\r\n")
        request_line, *header_lines = head.decode("latin-1").split("\r\n")
        path = request_line.split()[1]
        headers: dict[str, str] = {}
        for line in header_lines:
            name, _, value = line.partition(":")
            if name:
                headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self._in_flight += 1
        self.peak = max(self.peak, self._in_flight)
        try:
            answered = await self.answer(path, headers, json.loads(body))
        finally:
            self._in_flight -= 1
        writer.write(_on_the_wire(answered))
        await writer.drain()
        return answered.whole


def _on_the_wire(answered: Answered) -> bytes:
    """The head of an answer and its body, or half of the body where the connection is cut."""
    body = answered.body.encode()
    headers: dict[str, object] = {"content-type": "application/json", **answered.headers}
    headers["content-length"] = len(body)
    lines = [f"HTTP/1.1 {answered.status} X"]
    for name, value in headers.items():
        lines.append(f"{name}: {value}")
    head = "\r\n".join([*lines, "", ""]).encode()
    return head + (body if answered.whole else body[: len(body) // 2])


@dataclass(kw_only=True)
class FaultServer(Served):
    faults: Mapping[str, float] = field(default_factory=dict)
    """The share of requests that meet each fault: a status (429, 500), hang, cut, garbage,
    empty_choices; or an answer that is none: bad_json, wrong_schema, refusal, truncated."""
    seed: int = 0
    latency: float = 0.0
    """Seconds before an answer."""
    retry_after: str = "0.01"
    """What a 429 asks for."""
    key: str | None = None
    """The API key that it asks for."""
    say: Callable[[Payload], str] = said_by_default
    """What the model says to a request."""
    usage: bool = True
    """Whether answers tell their tokens."""
    calls: list[Call] = field(default_factory=list)
    """Every request, in the order of arrival."""
    _asked: Counter[str] = field(init=False, default_factory=Counter)

    @property
    def good(self) -> list[Call]:
        return [call for call in self.calls if call.fault is None]

    async def answer(self, path: str, headers: dict[str, str], payload: Payload) -> Answered:
        fault = self._rejected(headers, payload) or self._drawn(payload)
        self.calls.append(Call(path=path, payload=payload, headers=headers, fault=fault))
        if fault == "hang":
            await asyncio.sleep(3600)
        elif self.latency:
            await asyncio.sleep(self.latency)
        return self._made(fault, payload)

    def _rejected(self, headers: dict[str, str], payload: Payload) -> str | None:
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            return "401"
        return "400" if "schema" in payload.get("response_format", {}) else None

    def _drawn(self, payload: Payload) -> str | None:
        """The fault that a request meets by its seed, its text and how often it came before."""
        request = json.dumps(payload, sort_keys=True)
        self._asked[request] += 1
        times = self._asked[request]
        draw = random.Random(f"{self.seed} {times} {request}").random()
        for fault, share in self.faults.items():
            draw -= share
            if draw < 0:
                return fault
        return None

    def _made(self, fault: str | None, payload: Payload) -> Answered:
        if fault == "401":
            sent = self.calls[-1].headers.get("authorization", "none")
            key = sent.removeprefix("Bearer ")
            return Answered(401, {}, _error(f"Incorrect API key: {key}"))
        empty = {"choices": [], "data": [], "model": payload["model"]}
        answers = {
            "429": Answered(429, {"retry-after": self.retry_after}, _error("slow down")),
            "500": Answered(500, {}, _error("the server had an error")),
            "400": Answered(400, {}, _error("response_format is not supported")),
            "garbage": Answered(200, {}, "<html>bad gateway</html>"),
            "empty_choices": Answered(200, {}, json.dumps(empty)),
        }
        if fault in answers:
            return answers[fault]
        body = self._body(fault, payload)
        return Answered(200, {}, json.dumps(body), whole=fault != "cut")

    def _body(self, fault: str | None, payload: Payload) -> Payload:
        if "input" in payload:
            return self._embedded(payload["input"])
        if fault == "bad_json":
            text = 'Sure: {"value": '
        elif fault == "wrong_schema":
            text = '{"something": "else"}'
        else:
            text = self.say(payload)
        message: Payload = {"role": "assistant", "content": text}
        if fault == "refusal":
            message |= {"content": None, "refusal": "I will not."}
        reason = "length" if fault == "truncated" else "stop"
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        body: Payload = {"id": "x", "model": payload["model"], "choices": choices}
        if self.usage:
            prompt = sum(len(part["content"]) // 4 + 4 for part in payload["messages"])
            answer = len(message["content"] or "") // 4 + 1
            body["usage"] = {
                "prompt_tokens": prompt,
                "completion_tokens": answer,
                "total_tokens": prompt + answer,
            }
        return body

    def _embedded(self, texts: list[str]) -> Payload:
        """Vectors that are equal for equal texts; in reverse order, as the interface allows."""
        data = []
        for index, text in enumerate(texts):
            length = float(len(text))
            checksum = float(sum(text.encode()) % 97)
            data.append({"index": index, "embedding": [length, checksum]})
        body: Payload = {"object": "list", "data": data[::-1]}
        if self.usage:
            tokens = sum(len(text) // 4 + 1 for text in texts)
            body["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
        return body


def _error(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "x", "code": None}})
