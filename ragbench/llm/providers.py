"""Providers by name: where they are, which variable holds their key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ragbench.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """An endpoint that many use."""

    name: str
    """The first part of a model's name, such as ``anthropic`` in ``anthropic/claude-sonnet-5``."""
    base_url: str
    keys: tuple[str, ...] = ()
    """Environment variables that may hold its key, in the order in which they are looked at."""


AZURE = Provider(name="azure", base_url="", keys=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"))
"""Its address is each customer's own: ``AZURE_OPENAI_ENDPOINT``."""

_AZURE_HOSTS = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(name="openai", base_url="https://api.openai.com/v1", keys=("OPENAI_API_KEY",)),
        Provider(
            name="anthropic", base_url="https://api.anthropic.com/v1", keys=("ANTHROPIC_API_KEY",)
        ),
        Provider(
            name="gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ),
        Provider(
            name="openrouter", base_url="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)
        ),
        Provider(name="mistral", base_url="https://api.mistral.ai/v1", keys=("MISTRAL_API_KEY",)),
        Provider(
            name="deepseek", base_url="https://api.deepseek.com/v1", keys=("DEEPSEEK_API_KEY",)
        ),
        Provider(name="groq", base_url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",)),
        Provider(
            name="together", base_url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)
        ),
        Provider(
            name="fireworks",
            base_url="https://api.fireworks.ai/inference/v1",
            keys=("FIREWORKS_API_KEY",),
        ),
        Provider(name="xai", base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",)),
        Provider(
            name="cohere",
            base_url="https://api.cohere.ai/compatibility/v1",
            keys=("COHERE_API_KEY", "CO_API_KEY"),
        ),
        Provider(name="ollama", base_url="http://localhost:11434/v1"),
        Provider(name="lmstudio", base_url="http://localhost:1234/v1"),
        Provider(name="llamacpp", base_url="http://localhost:8080/v1"),
        Provider(name="vllm", base_url="http://localhost:8000/v1"),
        Provider(name="litellm", base_url="http://localhost:4000/v1", keys=("LITELLM_API_KEY",)),
        AZURE,
    )
}
"""By name. Any other OpenAI-compatible endpoint is named by its address."""


def by_model(model: str) -> tuple[Provider, str] | None:
    """The provider that a model's name begins with, and the rest of the name.

    Example:
        >>> by_model("openrouter/anthropic/claude-sonnet-5")[1]
        'anthropic/claude-sonnet-5'
    """
    name, slash, rest = model.partition("/")
    provider = PROVIDERS.get(name)
    return None if provider is None or not slash or not rest else (provider, rest)


def by_address(base_url: str) -> Provider | None:
    """The provider at an address, whatever its path; None for any other host.

    Servers on this machine have no keys, so they need not be told apart.
    """
    host = (urlsplit(base_url).hostname or "").lower()
    if host.endswith(
        (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
    ):
        return AZURE
    for provider in PROVIDERS.values():
        if provider.keys and provider.base_url and urlsplit(provider.base_url).hostname == host:
            return None if host == "localhost" else provider
    return None


def azure_address(environ: Mapping[str, str], *, dated: bool) -> str:
    """The address of the user's own Azure resource."""
    resource = environ.get("AZURE_OPENAI_ENDPOINT", "").strip().rstrip("/")
    if not resource:
        raise ConfigError(
            "a model of Azure is named, and AZURE_OPENAI_ENDPOINT does not say at which resource: "
            "set it to https://NAME.openai.azure.com, or give base_url"
        )
    if dated or resource.endswith("/v1"):
        return resource
    return f"{resource}/openai/v1"
