"""Providers by name: where they are, which variables hold their key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from ragbench.errors import ConfigError


class Provider(NamedTuple):
    """An endpoint that many use."""

    name: str
    """The first part of a model's name, such as ``anthropic`` in ``anthropic/claude-sonnet-5``."""
    base_url: str
    keys: tuple[str, ...] = ()
    """Environment variables that may hold its key, in the order in which they are looked at."""


AZURE = Provider("azure", "", ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"))
"""Its address is each customer's own: ``AZURE_OPENAI_ENDPOINT``."""
_AZURE_HOSTS = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
_GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"
_KNOWN = (
    Provider("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    Provider("anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",)),
    Provider("gemini", _GEMINI, ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    Provider("openrouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    Provider("mistral", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    Provider("deepseek", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    Provider("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    Provider("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    Provider("fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    Provider("xai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    Provider("cohere", "https://api.cohere.ai/compatibility/v1", ("COHERE_API_KEY", "CO_API_KEY")),
    Provider("ollama", "http://localhost:11434/v1"),
    Provider("lmstudio", "http://localhost:1234/v1"),
    Provider("llamacpp", "http://localhost:8080/v1"),
    Provider("vllm", "http://localhost:8000/v1"),
    Provider("litellm", "http://localhost:4000/v1", ("LITELLM_API_KEY",)),
    AZURE,
)
PROVIDERS: Mapping[str, Provider] = {provider.name: provider for provider in _KNOWN}
"""By name. Any other OpenAI-compatible endpoint is named by its address."""


def by_model(model: str) -> tuple[Provider, str] | None:
    """The provider that a model's name begins with, and the rest of the name.

    Example:
        >>> by_model("openrouter/anthropic/claude-sonnet-5")[1]
        'anthropic/claude-sonnet-5'
    """
    name, _, rest = model.partition("/")
    provider = PROVIDERS.get(name)
    return None if provider is None or not rest else (provider, rest)


def by_address(base_url: str) -> Provider | None:
    """The provider at an address, whatever its path; None for any other host, and this machine."""
    host = (urlsplit(base_url).hostname or "").lower()
    if host.endswith(_AZURE_HOSTS):
        return AZURE
    for provider in PROVIDERS.values():
        if provider.keys and host != "localhost" and urlsplit(provider.base_url).hostname == host:
            return provider
    return None


def azure_address(environ: Mapping[str, str], *, dated: bool) -> str:
    """The address of the user's own Azure resource."""
    resource = environ.get("AZURE_OPENAI_ENDPOINT", "").strip().rstrip("/")
    if not resource:
        raise ConfigError(
            "a model of Azure is named, and AZURE_OPENAI_ENDPOINT does not give its resource: "
            "set it to https://NAME.openai.azure.com, or give base_url"
        )
    if dated or resource.endswith("/v1"):
        return resource
    return f"{resource}/openai/v1"
