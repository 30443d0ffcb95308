"""Which settings hold the key and the address of which provider."""

from __future__ import annotations

KEY_SETTINGS = {
    "google_genai": "google_api_key",
    "openai": "openai_api_key",
    "anthropic": "anthropic_api_key",
}
URL_SETTINGS = {
    "google_genai": "google_base_url",
    "openai": "openai_base_url",
    "anthropic": "anthropic_base_url",
    "ollama": "ollama_base_url",
}
