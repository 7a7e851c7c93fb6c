from collections.abc import Iterator

import pytest

from tests.json_server import serving_json
from tests.unit.rag.http_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()
    with serving_json(state.respond, state.said, state.heard.update) as state.url:
        yield state
