"""`kogniterm login`: set up a provider at a terminal, or with its key on standard input."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from kogniterm.cli.options import CallOptions, Example, Subparsers, add_verb, current_folder
from kogniterm.cli.verb_helpers import paths_in_use, visible
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, ModelKeyMissingError, UsageError
from kogniterm.runtime.operations.action import Argument
from kogniterm.types import Phrase
from kogniterm.ui.locale import mark, translate

if TYPE_CHECKING:
    from kogniterm.models.catalog import Provider
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings

PROVIDER = Argument(
    "provider", "Provider: google_genai, openai, anthropic, ollama or local", "PROVIDER", nargs="?"
)
NO_TEST = Argument("--no-test", "Save the key without a test call")
MAX_KEY = 10_000
"""Most bytes read from standard input; a key is far shorter."""


def add_parser(subparsers: Subparsers) -> None:
    """Add `login`."""
    add_verb(
        subparsers,
        "login",
        [PROVIDER, NO_TEST],
        description=mark(
            "Set up a provider: enter its key, test it, and save it in your own settings file. "
            "Without a terminal, the key is read from standard input."
        ),
        examples=(Example("kogniterm login"), Example("kogniterm login openai < KEYFILE")),
    )


def run(call: CallOptions, provider: str | None = None, no_test: bool = False) -> int:
    """Log in; returns the exit status."""
    from kogniterm.runtime.operations.provider_login import provider_called

    paths = paths_in_use()
    if call.env_file:
        raise UsageError(
            "login saves the key in {file}; leave --env-file out.", file=paths.env_file
        )
    known = provider_called(provider) if provider else None
    settings = call.load_settings()
    if sys.stdin.isatty() and sys.stderr.isatty():
        set_up = _at_terminal(call, settings, paths, known, test=not no_test)
    else:
        set_up = _from_input(settings, paths, known, test=not no_test)
    if not asyncio.run(set_up):
        return EXIT_NOT_DONE
    _tell_result(call, paths, known)
    return EXIT_DONE


async def _at_terminal(
    call: CallOptions, settings: Settings, paths: Paths, provider: Provider | None, *, test: bool
) -> bool:
    from kogniterm.cli.user_screen import UserScreen
    from kogniterm.settings import environment, quick
    from kogniterm.ui.set_up import SetUp

    first = quick(environment(), call.settings)
    user = UserScreen(first, sys.stderr, None, sys.stdin.fileno(), str(current_folder()))
    set_up = SetUp(user.set_up_screen(), settings, paths, test=test)
    try:
        return await (set_up.choose() if provider is None else set_up.log_in(provider))
    finally:
        user.close()


async def _from_input(
    settings: Settings, paths: Paths, provider: Provider | None, *, test: bool
) -> bool:
    from kogniterm.runtime.operations import provider_login as login

    if provider is None or provider not in login.KEYED:
        raise UsageError(
            "Without a terminal, name the provider of the key on standard input: "
            "kogniterm login PROVIDER < KEYFILE, where PROVIDER is one of {names}.",
            names=", ".join(one.name for one in login.KEYED),
        )
    key = sys.stdin.buffer.read(MAX_KEY).decode("utf-8", "replace").strip()
    own_server = login.own_server(settings, provider)
    problem = login.key_problem(provider, key, own_server=own_server)
    if problem is not None:
        raise UsageError(problem.template, **problem.values)
    name = login.test_model(settings, provider)
    if name and test:
        await login.try_key(settings, paths, name, key)
    login.save(paths, provider, key)
    _write(Phrase("Key saved in {file}, readable only by you.", {"file": paths.env_file}))
    return True


def _tell_result(call: CallOptions, paths: Paths, provider: Provider | None) -> None:
    """Write which model is used now, and which stronger place holds another key."""
    from kogniterm.runtime.operations import provider_login as login

    settings = call.load_settings()
    if provider in login.ACCOUNTS and provider is not None:
        other = login.other_origin(settings, provider, paths)
        if other:
            _write(
                Phrase(
                    "This is also set by {origin}, which takes precedence over {file}.",
                    {"origin": other, "file": paths.env_file},
                )
            )
    try:
        name = login.model_in_use(settings, paths)
    except ModelKeyMissingError as error:
        _write(error.text)
        return
    _write(Phrase("kogniterm now uses {name}.", {"name": name}))
    if provider is not None and name.partition(":")[0] != provider.name:
        name = f"{provider.name}:{provider.default_model}".rstrip(":")
        values = {"provider": Phrase(provider.label), "name": name}
        _write(Phrase("For {provider}, start with: kogniterm --model {name}", values))


def _write(text: Phrase) -> None:
    sys.stdout.write(visible(translate(text)) + "\n")
