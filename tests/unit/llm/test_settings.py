"""Where settings come from, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ragbench.core.chat import Price, Usage
from ragbench.errors import ConfigError
from ragbench.llm.budget import price_for
from ragbench.llm.endpoint import ApiKey, Endpoint
from ragbench.llm.settings import LLMSettings, resolve

KEY = "sk-0123456789-secret"
OWN = "RAGBENCH_LLM_API_KEY"


def origins(settings: LLMSettings) -> dict[str, tuple[str, str]]:
    return {each.name: (each.value, each.origin) for each in settings.settings}


def test_options_go_before_the_file_before_the_environment() -> None:
    given = {"MODEL": "from-environment", "SEED": "1", "TIMEOUT": "7.5"}
    environ = {f"RAGBENCH_LLM_{name}": value for name, value in given.items()}
    section = {"model": "from-file", "seed": 2}
    settings = resolve({"model": "from-option"}, environ, section=section, file="ragbench.yaml")
    assert (settings.endpoint.model, settings.endpoint.seed) == ("from-option", 2)
    assert settings.limits.timeout == 7.5
    shown = origins(settings)
    assert shown["model"] == ("from-option", "option --llm-model")
    assert shown["seed"] == ("2", "ragbench.yaml: llm.seed")
    assert shown["timeout"] == ("7.5", "RAGBENCH_LLM_TIMEOUT")
    assert shown["cache"] == ("reports/llm-cache.sqlite", "default")


def test_everything_can_be_said_in_the_environment() -> None:
    given = {
        "MODEL": "m",
        "BASE_URL": "http://localhost:8000/v1/",
        "TEMPERATURE": "none",
        "MAX_TOKENS": "99",
        "EXTRA": '{"top_p": 0.5}',
        "STRUCTURED": "json_object",
        "PRICE_INPUT": "0.10",
        "PRICE_OUTPUT": "0",
        "RETRIES": "1",
        "DEADLINE": "60",
        "CACHE": "off",
        "CACHE_MAX_MB": "5",
    }
    settings = resolve({}, {f"RAGBENCH_LLM_{name}": value for name, value in given.items()})
    judge = settings.endpoint
    assert judge.base_url == "http://localhost:8000/v1"
    assert judge.host == "localhost"
    assert judge.parameters == {"max_tokens": 99, "top_p": 0.5}
    assert judge.structured == "json_object"
    assert judge.price == Price(
        input=Decimal("0.10"), output=Decimal(0), origin="RAGBENCH_LLM_PRICE_INPUT"
    )
    assert (settings.limits.retries, settings.limits.deadline) == (1, 60.0)
    assert (settings.cache, settings.cache_bytes) == (None, 5_000_000)


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({"OPENAI_API_KEY": KEY}, "OPENAI_API_KEY"),
        ({}, "OPENAI_API_KEY"),  # OpenAI's own address needs one; its absence is told later
        ({OWN: KEY, "OPENAI_API_KEY": KEY}, OWN),
        ({"OPENAI_BASE_URL": "http://a.test/v1", "OPENAI_API_KEY": KEY}, "OPENAI_API_KEY"),
        ({"RAGBENCH_LLM_API_KEY_ENV": "MINE", "OPENAI_API_KEY": KEY}, "MINE"),
        # A key must not travel to a host that it is not for.
        ({"RAGBENCH_LLM_BASE_URL": "http://a.test/v1", "OPENAI_API_KEY": KEY}, None),
        ({"RAGBENCH_LLM_BASE_URL": "http://a.test/v1", OWN: KEY}, OWN),
        ({"RAGBENCH_LLM_API_KEY_ENV": "MINE", OWN: KEY}, "MINE"),
    ],
)
def test_which_key_is_used(environ: dict[str, str], variable: str | None) -> None:
    settings = resolve({"model": "m"}, environ)
    assert settings.endpoint.key == ApiKey(variable=variable)
    assert KEY not in repr(settings)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, "no model is named"),
        ({"model": "m", "modle": 1}, "there is no setting 'modle'. Known: base_url, model"),
        ({"model": "m", "seed": 1.5}, "option --llm-seed must be a whole number"),
        ({"model": "m", "seed": True}, "must be a whole number"),
        ({"model": "m", "temperature": 3}, "temperature must be at most 2"),
        ({"model": "m", "timeout": "nan"}, "must be a number of at least 0"),
        ({"model": "m", "timeout": 0}, "timeout must be above 0"),
        ({"model": "m", "extra": "{"}, "must be an object"),
        ({"model": "m", "extra": "[]"}, "must be an object"),
        ({"model": "m", "extra": {"api_key": KEY}}, "looks like a credential"),
        ({"model": "m", "extra": {"stream": True}}, "cannot be an extra field"),
        ({"model": "m", "structured": "xml"}, "must be one of auto, json_schema"),
        ({"model": "m", "price_input": 1}, "both price_input and price_output"),
        ({"model": "m", "base_url": "localhost:8000"}, "is not an http:// or https:// address"),
        ({"model": "m", "base_url": f"http://u:{KEY}@a.test/v1"}, "neither a user"),
        ({"model": "m", "base_url": f"http://a.test/v1?api_key={KEY}"}, "nor anything after"),
        ({"model": "m", "api_key_file": "key", "api_key_env": "OTHER"}, "give one of them"),
        ({"model": "m", "concurrency": 0}, "at least 1"),
        ({"model": " "}, "must be a text"),
    ],
)
def test_what_is_wrong_is_reported_without_credentials(options: dict[str, Any], shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(options, {})
    assert shown in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("", "is empty"),
        ("two words", "is not an API key"),
        ("a\nb", "is not an API key"),
        ("ä", "ASCII"),
        (None, "No such file"),
    ],
)
def test_a_file_that_holds_no_key_is_reported(
    tmp_path: Path, content: str | None, shown: str
) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content, "utf-8")
    with pytest.raises(ConfigError, match=shown):
        ApiKey(file=str(tmp_path / "key")).read({})


# --- prices


def test_the_table_knows_models_at_their_makers_address() -> None:
    openai = "https://api.openai.com/v1"
    known = price_for(Endpoint(base_url=openai, model="gpt-4o-mini-2024-07-18"))
    assert known is not None and (known.input, known.output) == (Decimal("0.15"), Decimal("0.60"))
    assert "api.openai.com, 20" in known.origin
    own = price_for(Endpoint(base_url=openai, model="gpt-4o-2024-05-13"))
    assert own is not None
    assert own.input == 5  # named by itself: it costs more than its model
    assert price_for(Endpoint(base_url=openai, model="gpt-99")) is None
    assert price_for(Endpoint(base_url="https://gateway.test/v1", model="gpt-4o-mini")) is None


def test_a_call_costs_what_its_tokens_cost() -> None:
    price = Price(input=Decimal(2), output=Decimal(8), cached_input=Decimal("0.5"))
    usage = Usage(prompt_tokens=1000, cached_prompt_tokens=400, completion_tokens=100)
    assert price.of(usage) == Decimal("0.0022")  # 600 x 2 + 400 x 0.5 + 100 x 8, a million
    assert price.at_most(prompt_tokens=1000, completion_tokens=100) == Decimal("0.0028")
