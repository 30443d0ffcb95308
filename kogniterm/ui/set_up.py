"""The short set-up of a first start without a model, and of `kogniterm login`.

It asks for a provider, reads the key without echoing it, tries it, and has it saved in the user's
own settings file. Nothing is written before the user has given the whole answer.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kogniterm.errors import KognitermError, TurnInterruptedError
from kogniterm.models.embedded import EmbeddedModel, PullProgress, WeightsState, embedded_model
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.pick_list import list_question
from kogniterm.ui.terminal.user_terminal import (
    hidden_line,
    run_program,
    run_stoppable,
    unless_stopped,
)

if TYPE_CHECKING:
    from kogniterm.models.catalog import Provider
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings
    from kogniterm.ui.questions.question import Asker

LATER = "later"
SERVICE = "service"
_MOST_MODELS = 20
TOUR = "tour"


def _folder() -> str:
    """Return the folder that KogniTerm runs in; the root where it was removed meanwhile."""
    try:
        return str(Path.cwd())
    except OSError:
        return "/"


class TerminalRelease(Protocol):
    """Gives the terminal without anything drawn on it."""

    def __call__(self, *, raw: bool = False) -> AbstractAsyncContextManager[None]:
        """Give it; `raw` never echoes what is typed."""


@dataclass(frozen=True, slots=True)
class SetUpScreen:
    """The terminal of a set-up: its questions, its sentences, and its two descriptors."""

    questions: Asker
    say: Callable[[Phrase, str], None]
    hand_over: TerminalRelease
    keyboard: int
    screen: int


class SetUp:
    """Asks what a model needs, and keeps it; without `test`, a key is not tried.

    `tour` is the command of the tour, where it is offered.
    """

    def __init__(
        self,
        screen: SetUpScreen,
        settings: Settings,
        paths: Paths,
        *,
        test: bool = True,
        tour: Sequence[str] = (),
    ) -> None:
        self._screen = screen
        self._settings = settings
        self._paths = paths
        self._test = test
        self._tour = tour

    async def choose(self) -> bool:
        """Ask which model to use until one is set up; False when the user wants none now."""
        from kogniterm.models.catalog import BY_NAME

        while True:
            items = await asyncio.to_thread(self._items)
            question = list_question(_("Choose a model to start with"), *items)
            chosen = await self._screen.questions.ask(question)
            if chosen == LATER:
                return False
            if chosen == TOUR:
                async with self._screen.hand_over():
                    await run_program(self._tour)
            elif await (self._service() if chosen == SERVICE else self.log_in(BY_NAME[chosen])):
                await self._choose_way()
                return True

    async def _choose_way(self) -> None:
        """Ask how to work, where that was never chosen; Esc asks before everything."""
        from kogniterm.runtime.services.policy_service import open_sandbox
        from kogniterm.settings.layers import save_setting

        settings, paths = self._settings, self._paths
        if settings.model_fields_set & {"allow_reads", "approval_mode"}:
            return
        bounds, _why = await asyncio.to_thread(open_sandbox, settings, paths, _folder())
        reads = _("Read-only without asking (recommended)")
        auto = _("Automatic in the sandbox")
        confined = _("commands run confined; what must leave it asks")
        question = list_question(
            _("How should KogniTerm work?"),
            ("reads", reads, _("what only reads runs; everything else asks")),
            *((("auto", auto, confined),) if bounds.kind != "none" else ()),
            ("ask", _("Ask before everything"), _("each command and edit waits for your key")),
        )
        way = await self._screen.questions.ask(question)
        try:
            save_setting(paths.config_file, "allow_reads", way != "ask")
            if way == "auto":
                save_setting(paths.config_file, "approval_mode", "auto")
        except KognitermError as error:
            self._screen.say(error.text, "warning")

    def _items(self) -> list[tuple[str, str, str]]:
        from kogniterm.runtime.operations import provider_login as login

        found = [(one.name, one.label, self._about_key(one)) for one in login.KEYED]
        address, models = login.ollama_models(self._settings)
        about = _("at {address}, no key").format(address=address.partition("//")[2])
        found.append(("ollama", login.OLLAMA.label, about if models else _("not running")))
        found.append((SERVICE, _("Compatible service"), _("an OpenAI-compatible address")))
        if (embedded := embedded_model()) is not None:
            found.append(("local", _("Embedded model"), self._about_local(embedded)))
        if self._tour:
            found.append((TOUR, _("Take the tour first"), _("one minute, scripted, no key")))
        return [*found, (LATER, _("Not now"), "")]

    def _about_key(self, provider: Provider) -> str:
        from kogniterm.runtime.operations.provider_login import missing_package

        if missing_package(provider):
            return _("needs the package {package}").format(package=provider.distribution)
        return _("API key")

    def _about_local(self, embedded: EmbeddedModel) -> str:
        from kogniterm.models.catalog import BY_NAME
        from kogniterm.runtime.operations.provider_login import missing_package

        state = embedded.states(self._paths.weights)[0]
        size = (state.size - state.bytes_on_disk) // 1_000_000
        if missing_package(BY_NAME["local"]):
            size += BY_NAME["local"].package_size
        elif state.state == "ready":
            return _("downloaded, no key, small tasks")
        if state.state == "partial":
            return _("{size} MB left to download, no key, small tasks").format(size=size)
        return _("{size} MB download, no key, small tasks").format(size=size)

    async def log_in(self, provider: Provider) -> bool:
        """Ask what `provider` needs and keep it; False when nothing came of it."""
        if not await self._has_package(provider):
            return False
        if provider.name == "local" and (embedded := embedded_model()) is not None:
            weights = embedded.states(self._paths.weights)[0]
            try:
                downloaded = await self._download(embedded, weights)
            except KognitermError as error:
                self._screen.say(error.text, "error")
                return False
            if not downloaded:
                self._screen.say(
                    Phrase(
                        "Download stopped. It continues where it stopped when you choose it again."
                    ),
                    "info",
                )
                return False
            self._screen.say(Phrase("{title} is ready.", {"title": weights.title}), "info")
            return True
        return await (self._ollama() if provider.name == "ollama" else self._has_key(provider))

    # --- a package -----------------------------------------------------------------------------

    async def _has_package(self, provider: Provider) -> bool:
        """Return whether the package of `provider` is there, offering to install a missing one."""
        from kogniterm.host.installation import installer
        from kogniterm.runtime.operations.provider_login import missing_package

        command = missing_package(provider)
        if not command:
            return True
        program = installer(provider.distribution or "", folder=_folder())
        if program is not None:
            title = _("{provider} needs the package {package}. Install it now?").format(
                provider=translate(Phrase(provider.label)), package=provider.distribution
            )
            items = ("install", _("Install it"), command), ("back", _("Back"))
            if await self._screen.questions.ask(list_question(title, *items)) == "back":
                return False
            self._screen.say(Phrase("Installing; Esc stops"), "info")
            async with self._screen.hand_over(raw=True):
                status = await unless_stopped(run_stoppable(program), self._screen.keyboard)
            importlib.invalidate_caches()
            if status == 0 and not missing_package(provider):
                return True
        self._screen.say(
            Phrase(
                "{package} is not installed. Run `{command}`, then `kogniterm login {name}`.",
                {"package": provider.distribution, "command": command, "name": provider.name},
            ),
            "warning",
        )
        return False

    # --- a key ---------------------------------------------------------------------------------

    async def _has_key(self, provider: Provider) -> bool:
        from kogniterm.runtime.operations import provider_login as login

        self._screen.say(Phrase("Get a key at {address}", {"address": provider.key_page}), "info")
        while True:
            prompt = _("{provider} API key (hidden, Esc: back): ")
            key = await self._enter(prompt.format(provider=provider.label))
            if key is None:
                self._screen.say(Phrase("No key was saved."), "info")
                return False
            own_server = login.own_server(self._settings, provider)
            problem = login.key_problem(provider, key, own_server=own_server)
            if problem is not None:
                self._screen.say(problem, "warning")
                continue
            what = await self._try_key(provider, key)
            if what == "save":
                login.save(self._paths, provider, key)
                self._screen.say(
                    Phrase(
                        "Key saved in {file}, readable only by you.", {"file": self._paths.env_file}
                    ),
                    "info",
                )
                return True
            if what == "back":
                self._screen.say(Phrase("No key was saved."), "info")
                return False

    async def _enter(self, prompt: str, *, shown: bool = False) -> str | None:
        async with self._screen.hand_over(raw=True):
            files = (self._screen.keyboard, self._screen.screen)
            return await hidden_line(*files, prompt, shown=shown)

    async def _service(self) -> bool:
        """Ask for the address, the key and a model of an OpenAI-compatible service."""
        from kogniterm.runtime.operations import provider_login as login

        asked = _("Address, such as http://127.0.0.1:8000/v1 (Esc: back): ")
        address = (await self._enter(asked, shown=True) or "").rstrip("/")
        wanted = _("API key, empty for none (hidden, Esc: back): ")
        key = await self._enter(wanted) if address else None
        problem = login.key_problem(login.OPENAI, key, own_server=True) if key else None
        if key is None or problem is not None:
            self._screen.say(problem or Phrase("Nothing was saved."), "info")
            return False
        found = await asyncio.to_thread(login.models_at, self._settings, self._paths, address, key)
        if not found.models:
            none = Phrase("{address} offers no models.", {"address": address})
            self._screen.say(found.problem or none, "warning")
            return False
        items = [(one.name, one.name.partition(":")[2]) for one in found.models[:_MOST_MODELS]]
        title = _("Choose a model of this service")
        model = await self._screen.questions.ask(list_question(title, *items, (LATER, _("Back"))))
        if model == LATER:
            return False
        login.save_service(self._paths, address, key, model)
        self._screen.say(Phrase("Address saved in {file}.", {"file": self._paths.env_file}), "info")
        return True

    async def _try_key(self, provider: Provider, key: str) -> str:
        """Test the key, repeatedly if the user wants; return "save", "again" or "back"."""
        from kogniterm.runtime.operations.provider_login import test_model

        if not self._test:
            return "save"
        name = test_model(self._settings, provider)
        if not name:
            self._screen.say(
                Phrase("The key was not tested: name a model of this server with --model."), "info"
            )
            return "save"
        while True:
            if await self._works(name, key):
                return "save"
            chosen = await self._screen.questions.ask(
                list_question(
                    _("The test did not succeed. What now?"),
                    ("again", _("Enter the key again")),
                    ("test", _("Repeat the test")),
                    ("save", _("Save it anyway")),
                    ("back", _("Back")),
                )
            )
            if chosen != "test":
                return chosen

    async def _works(self, name: str, key: str) -> bool:
        """Return whether the test call was answered; why not is shown."""
        from kogniterm.runtime.operations.provider_login import try_key

        self._screen.say(Phrase("Testing the key with {name}; Esc stops", {"name": name}), "info")
        try:
            async with self._screen.hand_over(raw=True):
                answered = await unless_stopped(
                    try_key(self._settings, self._paths, name, key), self._screen.keyboard
                )
        except KognitermError as error:
            self._screen.say(error.text, "error")
            return False
        if answered is None:
            self._screen.say(Phrase("Test stopped."), "info")
            return False
        self._screen.say(Phrase("The key works."), "info")
        return True

    # --- models without a key ------------------------------------------------------------------

    async def _ollama(self) -> bool:
        from kogniterm.runtime.operations import provider_login as login

        address, models = await asyncio.to_thread(login.ollama_models, self._settings)
        if not models:
            self._screen.say(
                Phrase(
                    "Ollama does not answer, or has no model. Start it, and pull a model with: "
                    "ollama pull MODEL"
                ),
                "warning",
            )
            return False
        if self._settings.ollama_base_url is None:
            login.save(self._paths, login.OLLAMA, address)
            self._screen.say(
                Phrase("Address saved in {file}.", {"file": self._paths.env_file}), "info"
            )
        return True

    async def _download(self, embedded: EmbeddedModel, weights: WeightsState) -> bool:
        from kogniterm.ui.screen.progress import transfer

        stopped = threading.Event()
        self._screen.say(Phrase("Downloading {title}; Esc stops", {"title": weights.title}), "info")
        async with self._screen.hand_over(raw=True):
            with transfer(weights.name) as display:

                def progress(now: PullProgress) -> None:
                    if stopped.is_set():
                        raise TurnInterruptedError("Download stopped.")
                    display.update(now.done, now.total, now.doing)

                def work() -> bool:
                    embedded.pull(weights.name, self._paths.weights, progress, None)
                    return True

                done = await unless_stopped(
                    asyncio.to_thread(work), self._screen.keyboard, stopped.set
                )
        return bool(done)
