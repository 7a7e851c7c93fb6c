from collections.abc import Iterator

import pytest

from tests.json_server import serving_json
from tests.unit.rag.http_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    with serving_json(
        server.respond, server.answer_headers, server.request_headers.update
    ) as server.url:
        yield server
