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


# --- where a setting comes from


def origins(settings: LLMSettings) -> dict[str, tuple[str, str]]:
    """Each setting's value and where it is from, by name."""
    return {setting.name: (setting.value, setting.origin) for setting in settings.settings}


@pytest.fixture(name="settings")
def settings_of_an_option_a_file_and_the_environment() -> LLMSettings:
    return resolve(
        {"model": "from-option"},
        {
            "RAGBENCH_LLM_MODEL": "from-environment",
            "RAGBENCH_LLM_SEED": "1",
            "RAGBENCH_LLM_TIMEOUT": "7.5",
        },
        section={"model": "from-file", "seed": 2},
        file="ragbench.yaml",
    )


def test_an_option_overrides_the_file_and_the_environment(settings: LLMSettings) -> None:
    assert settings.endpoint.model == "from-option"
    assert origins(settings)["model"] == ("from-option", "option --llm-model")


def test_the_file_overrides_the_environment(settings: LLMSettings) -> None:
    assert settings.endpoint.seed == 2
    assert origins(settings)["seed"] == ("2", "ragbench.yaml: llm.seed")


def test_the_environment_overrides_the_default(settings: LLMSettings) -> None:
    assert settings.limits.timeout == 7.5
    assert origins(settings)["timeout"] == ("7.5", "RAGBENCH_LLM_TIMEOUT")


def test_a_setting_that_is_nowhere_has_its_default(settings: LLMSettings) -> None:
    assert origins(settings)["cache"] == ("reports/llm-cache.sqlite", "default")


@pytest.fixture(name="from_environment", scope="module")
def settings_of_the_environment_alone() -> LLMSettings:
    return resolve(
        {},
        {
            "RAGBENCH_LLM_MODEL": "m",
            "RAGBENCH_LLM_BASE_URL": "http://localhost:8000/v1/",
            "RAGBENCH_LLM_TEMPERATURE": "none",
            "RAGBENCH_LLM_MAX_TOKENS": "99",
            "RAGBENCH_LLM_EXTRA": '{"top_p": 0.5}',
            "RAGBENCH_LLM_STRUCTURED": "json_object",
            "RAGBENCH_LLM_PRICE_INPUT": "0.10",
            "RAGBENCH_LLM_PRICE_OUTPUT": "0",
            "RAGBENCH_LLM_RETRIES": "1",
            "RAGBENCH_LLM_DEADLINE": "60",
            "RAGBENCH_LLM_CACHE": "off",
            "RAGBENCH_LLM_CACHE_MAX_MB": "5",
        },
    )


def test_the_endpoint_can_be_in_the_environment(from_environment: LLMSettings) -> None:
    endpoint = from_environment.endpoint

    assert endpoint.base_url == "http://localhost:8000/v1"
    assert endpoint.host == "localhost"
    assert endpoint.parameters == {"max_tokens": 99, "top_p": 0.5}
    assert endpoint.structured == "json_object"


def test_the_price_can_be_in_the_environment(from_environment: LLMSettings) -> None:
    assert from_environment.endpoint.price == Price(
        input=Decimal("0.10"), output=Decimal(0), origin="RAGBENCH_LLM_PRICE_INPUT"
    )


def test_limits_and_the_cache_can_be_in_the_environment(from_environment: LLMSettings) -> None:
    assert from_environment.limits.retries == 1
    assert from_environment.limits.deadline == 60.0
    assert from_environment.cache is None
    assert from_environment.cache_bytes == 5_000_000


# --- keys


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        pytest.param({"OPENAI_API_KEY": KEY}, "OPENAI_API_KEY", id="at OpenAI"),
        pytest.param({}, "OPENAI_API_KEY", id="none at OpenAI: its absence is reported later"),
        pytest.param({OWN: KEY, "OPENAI_API_KEY": KEY}, OWN, id="our own goes first"),
        pytest.param(
            {"OPENAI_BASE_URL": "http://a.test/v1", "OPENAI_API_KEY": KEY},
            "OPENAI_API_KEY",
            id="the address and the key of OpenAI",
        ),
        pytest.param(
            {"RAGBENCH_LLM_API_KEY_ENV": "MINE", "OPENAI_API_KEY": KEY},
            "MINE",
            id="a variable that is named",
        ),
        pytest.param(
            {"RAGBENCH_LLM_BASE_URL": "http://a.test/v1", "OPENAI_API_KEY": KEY},
            None,
            id="a key of OpenAI does not travel to another host",
        ),
        pytest.param(
            {"RAGBENCH_LLM_BASE_URL": "http://a.test/v1", OWN: KEY}, OWN, id="our own travels"
        ),
        pytest.param(
            {"RAGBENCH_LLM_API_KEY_ENV": "MINE", OWN: KEY},
            "MINE",
            id="a variable that is named goes before our own",
        ),
    ],
)
def test_which_key_is_used(environ: dict[str, str], variable: str | None) -> None:
    settings = resolve({"model": "m"}, environ)

    assert settings.endpoint.key == ApiKey(variable=variable)
    assert KEY not in repr(settings)


# --- settings that cannot be


@pytest.mark.parametrize(
    ("options", "message"),
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
    ids=str,
)
def test_a_wrong_setting_is_reported_without_credentials(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(options, {})

    assert message in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("two words", "is not an API key"),
        ("a\nb", "is not an API key"),
        ("ä", "ASCII"),
    ],
)
def test_a_file_that_holds_no_key_is_reported(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "key").write_text(content, "utf-8")

    with pytest.raises(ConfigError, match=message):
        ApiKey(file=str(tmp_path / "key")).read({})


def test_a_file_of_a_key_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        ApiKey(file=str(tmp_path / "key")).read({})


# --- prices


OPENAI = "https://api.openai.com/v1"


def test_the_table_has_prices_of_models_at_their_makers_address() -> None:
    price = price_for(Endpoint(base_url=OPENAI, model="gpt-4o-mini-2024-07-18"))

    assert price is not None
    assert price.input == Decimal("0.15")
    assert price.output == Decimal("0.60")
    assert "api.openai.com, 20" in price.origin


def test_a_version_that_the_table_names_has_its_own_price() -> None:
    price = price_for(Endpoint(base_url=OPENAI, model="gpt-4o-2024-05-13"))

    assert price is not None
    assert price.input == 5  # more than its model


@pytest.mark.parametrize(
    ("base_url", "model"),
    [
        pytest.param(OPENAI, "gpt-99", id="an unknown model"),
        pytest.param("https://gateway.test/v1", "gpt-4o-mini", id="another address"),
    ],
)
def test_a_price_that_the_table_does_not_have_is_not_guessed(base_url: str, model: str) -> None:
    assert price_for(Endpoint(base_url=base_url, model=model)) is None


# Dollars for a million tokens.
PRICE = Price(input=Decimal(2), output=Decimal(8), cached_input=Decimal("0.5"))


def test_a_call_costs_what_its_tokens_cost() -> None:
    usage = Usage(prompt_tokens=1000, cached_prompt_tokens=400, completion_tokens=100)

    # 600 x 2 + 400 x 0.5 + 100 x 8, a million
    assert PRICE.of(usage) == Decimal("0.0022")


def test_a_call_costs_most_where_nothing_of_it_is_cached() -> None:
    # 1000 x 2 + 100 x 8, a million
    assert PRICE.at_most(prompt_tokens=1000, completion_tokens=100) == Decimal("0.0028")
