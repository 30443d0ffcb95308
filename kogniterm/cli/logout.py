"""`kogniterm logout`: remove a saved key, and say where else one stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kogniterm.cli.options import CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.runtime.operations.action import Argument, Report
from kogniterm.types import Phrase
from kogniterm.ui.locale import mark, translate

if TYPE_CHECKING:
    from kogniterm.models.catalog import Provider
    from kogniterm.paths import Paths


def add_parser(subparsers: Subparsers) -> None:
    """Add `logout`."""
    add_verb(
        subparsers,
        "logout",
        [
            Argument(
                "provider",
                "Provider: google_genai, openai, anthropic or ollama",
                "PROVIDER",
                nargs="?",
            )
        ],
        description=mark(
            "Remove a provider's key from your own settings file. Keys in the environment or in "
            "other files stay."
        ),
        examples=(Example("kogniterm logout"), Example("kogniterm logout openai")),
    )


def run(call: CallOptions, provider: str | None) -> Report:
    """Remove the key; the status is 1 when there is none."""
    from kogniterm.runtime.operations import provider_login as login

    paths = paths_in_use()
    known = login.provider_called(provider) if provider else _only_one(paths)
    if known is not None and known not in login.ACCOUNTS:
        raise UsageError(
            "The embedded model has no key. To delete its weights: kogniterm models remove NAME"
        )
    if known is None:
        none = Phrase("No key is saved in {file}.", {"file": paths.env_file})
        return Report(notes=[translate(none)], status=EXIT_NOT_DONE)
    values = {"provider": Phrase(known.label), "file": paths.env_file}
    removed = login.forget(paths, known)
    told = (
        Phrase("Removed {provider} from {file}.", values)
        if removed
        else Phrase("{file} has no key for {provider}.", values)
    )
    other = login.other_origin(call.load_settings(), known, paths)
    notes = []
    if other:
        remains = Phrase(
            "It is still set by {origin}; logout does not change that.", {"origin": other}
        )
        notes.append(translate(remains))
    status = EXIT_DONE if removed else EXIT_NOT_DONE
    return Report(lines=[translate(told)], notes=notes, status=status)


def _only_one(paths: Paths) -> Provider | None:
    """Return the one saved provider; None without any. Raises `UsageError` for several."""
    from kogniterm.runtime.operations.provider_login import list_configured

    found = list_configured(paths)
    if len(found) > 1:
        raise UsageError(
            "Keys of several providers are saved. Name the one to remove: {names}.",
            names=", ".join(one.name for one in found),
        )
    return found[0] if found else None
