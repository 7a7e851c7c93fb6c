"""What a run records of a system: its classes and settings, no secret, nothing of the machine."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    BaselineRAG,
    Document,
    RAGConfig,
    RAGInterface,
    as_rag,
    build_operator,
    build_reranker,
)
from ragbench.ledger.identity import described
from ragbench.masking import is_secret, mask_text, mask_url
from ragbench.rag.load import describe_rag
from ragbench.search.pipeline.documents import make_chunker


class Colour(Enum):
    RED = "red"


@dataclass
class Store:
    url: str
    password: str = "hush"
    path: Path = Path("index")


@dataclass
class Settings(RAGConfig):
    api_key: str = "hush"
    store: Store = field(default_factory=lambda: Store("https://bob:hush@db/x?token=hush"))


class Retriever(RAGInterface, families=("retrieval",)):
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return []


def test_secrets_are_masked_wherever_they_stand() -> None:
    arguments: dict[str, Any] = {
        "openai_api_key": "hush",
        "headers": {"Authorization": "Bearer hush", "Accept": "text/plain"},
        "value": "Bearer hush",
        "token": None,
        "dsn": "postgresql://bob:hush@db/x",
        "max_tokens": 100,
    }

    description = describe_rag(Retriever(Settings()), "https://bob:hush@host/rag", arguments)

    text = json.dumps(description)
    assert "hush" not in text
    assert "bob" not in text
    assert description["spec"] == "https://***@host/rag"
    assert description["config"]["store"]["url"] == "https://***@db/x?token=***"


def test_what_is_no_secret_stays_beside_the_masked_ones() -> None:
    arguments: dict[str, Any] = {
        "headers": {"Authorization": "Bearer hush", "Accept": "text/plain"},
        "token": None,
        "max_tokens": 100,
    }

    described_arguments = describe_rag(Retriever(), "m:Retriever", arguments)["arguments"]

    assert described_arguments["headers"]["Accept"] == "text/plain"
    assert described_arguments["token"] is None
    assert described_arguments["max_tokens"] == 100


def argument_described(value: object) -> Any:
    description = describe_rag(Retriever(), "m:Retriever", {"argument": value})
    return description["arguments"]["argument"]


def test_a_path_within_the_project_is_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert argument_described(str(tmp_path / "data" / "index")) == "data/index"
    assert argument_described(Path("data/x")) == "data/x"


def test_a_path_outside_the_project_is_its_name_and_a_digest_of_the_whole() -> None:
    first_version = argument_described("/srv/data/v1/index")
    second_version = argument_described("/srv/data/v2/index")

    assert first_version.startswith("index#")
    assert "/srv" not in first_version
    assert first_version != second_version


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # An address in the memory of this process would be another one in each run.
        (object(), {"class": "builtins:object"}),
        ({"b", "a"}, ["a", "b"]),
        ((1, 2.5, float("nan")), [1, 2.5, "nan"]),
        (Colour.RED, "red"),
    ],
    ids=["an object", "a set", "numbers", "an enum"],
)
def test_a_value_is_described_alike_on_every_machine(value: object, expected: object) -> None:
    assert argument_described(value) == expected


def test_a_function_is_described_by_its_name() -> None:
    description = argument_described(json.dumps)

    assert description["function"] == "json:dumps"
    # No address in the memory of this process.
    assert "0x" not in json.dumps(description)


def test_bytes_are_described_in_json() -> None:
    assert json.dumps(argument_described(b"x"))


def test_what_the_system_says_of_its_stages_is_described() -> None:
    class WithIdentity(Retriever):
        def stage_identity(self, stage: str) -> object:
            return {"index": "v2", "api_key": "hush"} if stage == "retrieve" else None

    description = describe_rag(WithIdentity(), "m:WithIdentity")

    assert description["stages"] == {"retrieve": {"index": "v2", "api_key": "***"}}


def test_an_adapter_is_described_by_what_it_adapts() -> None:
    rag = as_rag(retrieve=Retriever(RAGConfig(top_k=2)), generate=str.join, top_k=3)

    description = describe_rag(rag, "module:rag")

    assert description["class"] == "ragbench:adapted"
    assert description["top_k"] == 3
    retriever = description["adapts"][0]
    assert retriever["class"].endswith(":Retriever")
    assert retriever["config"]["top_k"] == 2


# --- whatever is described does not depend on where ragbench's own classes lie


def retrieve(query: str, top_k: int = 3) -> list[str]:
    return [query][:top_k]


DOCUMENTS = [Document(id="d", text="The tower was built in 1901.")]
RERANK = {"action": "rerank", "type": "lexical"}
EXTRACTIVE = {"action": "compress", "type": "extractive", "budget": 50}
FUSION = {"name": "rrf", "rerankers": ["lexical", "ppr"]}


@pytest.mark.parametrize(
    "describe",
    [
        pytest.param(lambda: described(build_operator(RERANK)), id="rerank"),
        pytest.param(lambda: described(build_operator(EXTRACTIVE)), id="extractive"),
        pytest.param(lambda: described(build_reranker(FUSION)), id="rrf"),
        pytest.param(lambda: described(make_chunker("sentences")), id="chunker"),
        pytest.param(lambda: describe_rag(BaselineRAG(DOCUMENTS), "baseline"), id="baseline"),
        pytest.param(lambda: describe_rag(as_rag(retrieve), "retrieve"), id="adapted"),
        pytest.param(lambda: described(DOCUMENTS[0]), id="document"),
    ],
)
def test_no_module_of_ragbench_is_named(describe: Callable[[], object]) -> None:
    text = json.dumps(describe(), default=str)

    assert '"ragbench:' in text
    without_adapters = text.replace("ragbench:adapted", "")
    assert re.search(r"ragbench[.:][a-z_]+[.:]", without_adapters) is None


def test_a_type_is_its_name() -> None:
    top_k = build_operator({"action": "filter", "type": "top_k", "k": 3})

    assert described(top_k) == {"class": "ragbench:TopK", "name": "filter.top_k", "k": 3}


# --- secrets

SECRET_NAMES = (
    "api_key apiKey OPENAI_API_KEY X-Api-Key token hf_token Authorization password db.password "
    "Cookie Set-Cookie client_secret accessKey pwd pw sig X-Amz-Signature AccountKey DOC_SIGNING"
)
PUBLIC_NAMES = (
    "max_tokens tokenizer top_k key sort_key keyword author secretary index monkey api_key_file "
    "TOKEN_PATH pass_rate private_notes"
)


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_a_name_of_a_secret_is_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", PUBLIC_NAMES.split())
def test_a_name_that_only_sounds_like_a_secret_is_none(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("http://host/path?q=1#x", "http://host/path?q=1#x"),
        ("http://user@host", "http://***@host"),
        ("http://user:p%40ss@host:80/x", "http://***@host:80/x"),
        ("http://h/x?access_token=a&b=c", "http://h/x?access_token=***&b=c"),
        ("http://[bad", "***"),
    ],
)
def test_credentials_of_a_url_are_masked(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_credentials_in_a_text_are_masked() -> None:
    text = "GET http://bob:pw@host/x failed (Authorization: Bearer abcd.efgh), key xyzxyz"

    masked = mask_text(text, ["xyz", "xyzxyz"])

    assert masked == "GET http://***@host/x failed (Authorization: Bearer ***), key ***"


@pytest.mark.parametrize(
    "prose",
    [
        "Invalid token: unexpected end",
        "eos_token=50256, max_tokens=4096",
        "token_f1: 0.53211",
        "got an unexpected token=None",
        "the secret: never give up",
        "?code=404",
        "sort_key=name",
        "-----BEGIN CERTIFICATE-----\nMIIE",
        "api_key_env=MY_KEY",
    ],
)
def test_what_is_no_credential_stays(prose: str) -> None:
    assert mask_text(prose) == prose


@pytest.mark.parametrize(
    "piece", ["cookie=", "token:", "password='", "-----BEGIN PRIVATE KEY-----", 'secret="\\']
)
def test_a_long_text_of_half_shapes_takes_no_time(piece: str) -> None:
    # Were it quadratic, this would take minutes.
    assert mask_text(piece * 30_000)
