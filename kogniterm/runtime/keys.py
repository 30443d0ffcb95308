"""Which settings hold the key and the address of which provider, and keys that are not read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.types import Text

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings

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


def keys_not_read(settings: Settings, paths: Paths, folder: Path) -> Text | None:
    """Return that the `.env` of a working folder names keys, where no key is set otherwise.

    A project's file sets nothing: whoever wrote it would choose whose account is used and what a
    command may do. Its names are looked at and its values are not.
    """
    from kogniterm.settings import names_in

    file = folder / ".env"
    if any(getattr(settings, field) is not None for field in KEY_SETTINGS.values()):
        return None
    if not file.is_file() or file.resolve() == paths.env_file.resolve():
        return None
    found = names_in(file, tuple(KEY_SETTINGS.values()))
    if not found:
        return None
    return Text(
        "{file} names {names}. It is not used, because a project's files set nothing of yours. To "
        "use it, start with --env-file {file}, or copy the line to {own}.",
        {"file": file, "names": ", ".join(found), "own": paths.env_file},
    )
