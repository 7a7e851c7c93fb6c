"""Which endpoint the user means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ragbench.errors import ConfigError, NoModelError
from ragbench.llm.concurrency import CallLimits, RetryPolicy
from ragbench.llm.endpoint import ApiKey, Endpoint, StructuredOutput
from ragbench.llm.found_settings import CHAT, EMBEDDINGS, KEYS, FoundSettings, Setting
from ragbench.llm.providers import by_model

DEFAULT_CACHE = "reports/llm-cache.sqlite"
"""Beside the runs, so that a run finds what another one paid for; nothing in the home folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LLMSettings:
    """What is needed to ask a model."""

    endpoint: Endpoint
    limits: CallLimits
    cache: str | None
    """Path of the file of answers; None when none are kept."""
    cache_bytes: int
    settings: tuple[Setting, ...]
    """Each setting that was given or matters, with its origin."""


def resolve(
    options: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> LLMSettings:
    """Puts together what the user said in several places."""
    own = {name: value for name, value in (section or {}).items() if name not in _OF_PANEL}
    found = FoundSettings(options, own, file, environ, CHAT)
    base_url = found.base_url()
    return _settings(found, base_url, found.key(base_url), DEFAULT_CACHE)


_OF_PANEL = ("panel", "panel_vote")
"""Names of the section ``llm`` that are no settings of one model."""
_OWN_TO_ENDPOINT = frozenset(
    {
        "base_url", "model", "api_key_env", "api_key_file", "api_key_command", "headers",
        "api_version", "reasoning_effort", "extra", "structured", "context", "prompt_check",
        "price_input", "price_output", "price_cached_input",
    }
)  # fmt: skip
"""What one judge of a panel does not take over from the first, where it is at another place."""


def resolve_panel(
    environ: Mapping[str, str],
    *,
    given: str | None = None,
    options: Mapping[str, object] | None = None,
    section: Mapping[str, object] | None = None,
    file: str = "",
) -> tuple[tuple[LLMSettings, ...], str | None]:
    """The judges beside the first, and how they vote. None where nothing is said about it."""
    base = {name: value for name, value in (section or {}).items() if name not in _OF_PANEL}
    base |= {name: value for name, value in (options or {}).items() if value is not None}
    told: object = given or (section or {}).get("panel") or environ.get("RAGBENCH_LLM_PANEL")
    if isinstance(told, str):
        told = [name.strip() for name in told.split(",") if name.strip()]
    if told is not None and not isinstance(told, list):
        raise ConfigError(f"{file or 'llm'}: panel must be a list of models")
    found: list[LLMSettings] = []
    for entry in cast("list[object]", told or []):
        own = {"model": entry} if isinstance(entry, str) else entry
        if not isinstance(own, dict) or "model" not in own:
            raise ConfigError(f"{file or 'llm'}: each of panel must be a model or its settings")
        found.append(_juror(base, cast("dict[str, object]", own), environ, file))
    vote = (section or {}).get("panel_vote") or environ.get("RAGBENCH_LLM_PANEL_VOTE")
    return tuple(found), None if vote is None else str(vote)


def _juror(
    base: Mapping[str, object], own: Mapping[str, object], environ: Mapping[str, str], file: str
) -> LLMSettings:
    """A judge's settings: its own over those that the first one has."""
    elsewhere = "base_url" in own or by_model(str(own["model"])) is not None
    kept = {
        name: value
        for name, value in base.items()
        if name != "model" and not (elsewhere and name in _OWN_TO_ENDPOINT)
    }
    known = dict(environ)
    if elsewhere:
        for name in _OWN_TO_ENDPOINT:
            known.pop(f"RAGBENCH_LLM_{name.upper()}", None)
        known.pop("RAGBENCH_LLM_API_KEY", None)
        known.pop("OPENAI_BASE_URL", None)
    known.pop("RAGBENCH_LLM_MODEL", None)
    return resolve({}, known, section={**kept, **own}, file=file)


def resolve_embeddings(
    environ: Mapping[str, str],
    *,
    section: Mapping[str, object] | None = None,
    file: str = "",
    chat: LLMSettings | None = None,
) -> LLMSettings:
    """The same for the model that gives vectors: ``RAGBENCHEMBEDDINGS_<NAME>``."""
    found = FoundSettings({}, section or {}, file, environ, EMBEDDINGS)
    if chat is not None and found.value("base_url") is None and found.provider() is None:
        cache = chat.cache or "off"
        if not any(found.value(name) for name in KEYS):
            return _settings(found, chat.endpoint.base_url, chat.endpoint.key, cache)
        return _settings(found, chat.endpoint.base_url, found.key(chat.endpoint.base_url), cache)
    base_url = found.base_url()
    cache = DEFAULT_CACHE if chat is None else chat.cache or "off"
    return _settings(found, base_url, found.key(base_url), cache)


def _settings(found: FoundSettings, base_url: str, key: ApiKey, cache: str) -> LLMSettings:
    model = found.value("model")
    if model is None:
        option = "--llm-model, " if found.kind == CHAT else ""
        what = "model" if found.kind == CHAT else "model for embeddings"
        raise NoModelError(
            f"no {what} is named. Give {option}'model' in the section {found.kind} of "
            f"ragbench.yaml or {found.prefix}MODEL"
        )
    endpoint = Endpoint(
        base_url=base_url,
        model=found.model(),
        key=key,
        structured=StructuredOutput(found.value("structured", StructuredOutput.AUTO.value)),
        price=found.price(),
        **found.given(
            "headers", "api_version", "temperature", "seed", "max_tokens", "reasoning_effort",
            "reasoning_tokens", "context", "prompt_check", "extra",
        ),
    )  # fmt: skip
    limits = CallLimits(
        retry=RetryPolicy(**found.given("retries", "rate_limit_wait")),
        **found.given("timeout", "deadline", "concurrency"),
    )
    path = found.value("cache", cache)
    return LLMSettings(
        endpoint=endpoint,
        limits=limits,
        cache=None if path == "off" else path,
        cache_bytes=found.value("cache_max_mb", 1000) * 1_000_000,
        settings=found.told(endpoint, path),
    )
