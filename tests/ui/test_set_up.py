"""The set-up where a terminal test would need other packages, Ollama, or 491 MB."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kogniterm import settings
from kogniterm.host import installation
from kogniterm.models import model_registry
from kogniterm.models.catalog import BY_NAME
from kogniterm.paths import resolve
from kogniterm.runtime.operations import provider_login
from kogniterm.types import Phrase
from kogniterm.ui.questions.pick_list import ListQuestion
from kogniterm.ui.set_up import SetUp, SetUpScreen
from tests.support.web_server import Page, WebServer, serving

KEY = "an-invented-key.Z9-for-the-tests"


class User:
    """A user who answers lists with the labels in `answers`; the lists shown are recorded."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.said: list[str] = []
        self.shown: list[ListQuestion] = []
        self.can_edit = self.stays = False

    async def ask(self, question: Any) -> Any:
        assert isinstance(question, ListQuestion)
        self.shown.append(question)
        label = self.answers.pop(0)
        return next(item.value for item in question.choices if item.words == label)

    def say(self, text: Phrase, _level: str) -> None:
        self.said.append(str(text))

    def about(self, label: str) -> str | None:
        """Return the description beside a label in the last list; None if there is no such item."""
        return next((item.about for item in self.shown[-1].choices if item.words == label), None)


@pytest.fixture
def keyboard() -> Iterator[tuple[int, int]]:
    """Yield (master, slave) of the user's terminal."""
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


@contextlib.asynccontextmanager
async def _hand_over(*, raw: bool = False) -> AsyncIterator[None]:
    yield


def set_up(user: User, home: Path, keyboard: tuple[int, int], **environ: str) -> SetUp:
    given = {"HOME": str(home), "OLLAMA_HOST": "127.0.0.1:1", **environ}
    given = {name: value for name, value in given.items() if value}
    screen = SetUpScreen(user, user.say, _hand_over, keyboard[1], keyboard[1])
    return SetUp(screen, settings.load(environ=given), resolve(given))


@pytest.fixture
def other_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let OpenAI need a package that an installer puts into the folder returned."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    one = BY_NAME["openai"]._replace(package="an_other_package", distribution="other-package")
    monkeypatch.setitem(BY_NAME, "openai", one)
    for holder in (provider_login, model_registry):
        monkeypatch.setattr(holder, "BY_NAME", BY_NAME)
    keyed = tuple(one if each.name == "openai" else each for each in provider_login.KEYED)
    monkeypatch.setattr(provider_login, "KEYED", keyed)
    return folder


def installing(monkeypatch: pytest.MonkeyPatch, *command: str) -> None:
    """Let `command` stand in for pip, which tests cannot have download anything."""
    monkeypatch.setattr(installation, "installer", lambda *_packages, folder: list(command) or None)


async def test_a_missing_package_is_installed_on_demand(
    tmp_path: Path, keyboard: tuple[int, int], monkeypatch: pytest.MonkeyPatch, other_package: Path
) -> None:
    installing(monkeypatch, "/bin/sh", "-c", f"touch {other_package}/an_other_package.py")
    user = User("OpenAI", "Install it", "Not now")
    one = asyncio.ensure_future(set_up(user, tmp_path, keyboard).choose())
    while b"API key (hidden" not in await asyncio.to_thread(os.read, keyboard[0], 4096):
        pass
    os.write(keyboard[0], b"\x03")
    assert not await one
    assert user.shown[0].choices[1].about == "needs the package other-package"
    assert user.shown[1].title == "OpenAI needs the package other-package. Install it now?"
    assert "install other-package" in user.shown[1].choices[0].about
    assert "Get a key at https://platform.openai.com/api-keys" in user.said
    assert user.about("OpenAI") == "API key"


@pytest.mark.parametrize("command", [("/bin/false",), ("/bin/true",), ()])
async def test_a_package_that_is_not_installed_is_named_with_its_command(
    tmp_path: Path,
    keyboard: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    other_package: Path,
    command: tuple[str, ...],
) -> None:
    installing(monkeypatch, *command)
    user = User("OpenAI", *(["Install it"] if command else []), "Not now")
    assert not await set_up(user, tmp_path, keyboard).choose()
    assert user.said[-1].startswith("other-package is not installed. Run `")
    assert user.said[-1].endswith("install other-package`, then `kogniterm login openai`.")


async def test_an_installation_can_be_stopped(
    tmp_path: Path, keyboard: tuple[int, int], monkeypatch: pytest.MonkeyPatch, other_package: Path
) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    installing(monkeypatch, "/bin/sh", "-c", f"echo $$ > {begun}; exec sleep 600")
    user = User("OpenAI", "Install it", "Not now")
    one = asyncio.ensure_future(set_up(user, tmp_path, keyboard).choose())
    process = int(await asyncio.to_thread(begun.read_text))
    os.write(keyboard[0], b"\x1b")
    assert not await one
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_ollama_is_offered_where_it_answers(
    tmp_path: Path, keyboard: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User("Not now")
    assert not await set_up(user, tmp_path, keyboard).choose()
    assert user.about("Ollama") == "not running"
    asked = []
    monkeypatch.setattr(
        "kogniterm.models.providers.langchain.list_pulled", lambda url: asked.append(url) or ["m"]
    )
    user = User("Ollama", "Ask before everything")
    assert await set_up(user, tmp_path, keyboard, OLLAMA_HOST="").choose()
    assert asked[-1] == "http://127.0.0.1:11434"
    assert user.shown[0].choices[3].about == "at 127.0.0.1:11434, no key"
    file = tmp_path / ".config" / "kogniterm" / ".env"
    assert file.read_text() == "OLLAMA_HOST=http://127.0.0.1:11434\n"
    environ = {"HOME": str(tmp_path)}
    assert not provider_login.needs_set_up(settings.load(environ=environ), resolve(environ))


@pytest.fixture
def service() -> Iterator[WebServer]:
    """Yield a service that is compatible with OpenAI's."""
    models = json.dumps({"data": [{"id": "small"}, {"id": "org/big"}]})
    with serving({"/v1/models": Page(models)}) as web:
        yield web


@pytest.mark.parametrize("key", ["", KEY])
async def test_a_compatible_service_is_asked_for_its_models(
    tmp_path: Path,
    keyboard: tuple[int, int],
    service: WebServer,
    key: str,
) -> None:
    address = f"{service.url}/v1"
    user = User("Compatible service", "org/big", "Ask before everything")
    one = asyncio.ensure_future(set_up(user, tmp_path, keyboard).choose())
    shown = b""
    while b"\x1b[?2004h" not in shown:  # the line takes what is typed from now on
        shown += await asyncio.to_thread(os.read, keyboard[0], 4096)
    os.write(keyboard[0], f"{address}/\r".encode())
    while b"API key, empty for none" not in shown:
        shown += await asyncio.to_thread(os.read, keyboard[0], 4096)
    assert address.encode() in shown
    os.write(keyboard[0], f"{key}\r".encode())
    assert await one
    sent = [headers.get("Authorization") for _path, headers in service.asked]
    assert sent == [f"Bearer {key}" if key else None]
    environ = {"HOME": str(tmp_path)}
    assert resolve(environ).env_file.read_text() == (
        f"OPENAI_BASE_URL={address}\nOPENAI_API_KEY={key or 'none'}\n"
    )
    kept = settings.load(environ=environ)
    assert (kept.model, kept.openai_base_url) == ("openai:org/big", address)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["127.0.0.1:1/v1\r", "\r"], "is not a valid address"),
        (["http://127.0.0.1:1/v1\r", "\r"], "127.0.0.1:1"),
        (["http://127.0.0.1:1/v1\r", "a key\r"], "This is not a key"),
        (["\x1b"], "Nothing was saved."),
        (["http://127.0.0.1:1/v1\r", "\x1b"], "Nothing was saved."),
    ],
)
async def test_a_service_that_cannot_be_used_is_not_kept(
    tmp_path: Path, keyboard: tuple[int, int], typed: list[str], said: str
) -> None:
    user = User("Compatible service", "Not now")
    one = asyncio.ensure_future(set_up(user, tmp_path, keyboard).choose())
    for prompt, keys in zip((b"Address, such as", b"API key, empty"), typed, strict=False):
        shown = b""
        while prompt not in shown:
            shown += await asyncio.to_thread(os.read, keyboard[0], 4096)
        os.write(keyboard[0], keys.encode())
    assert not await one
    assert said in user.said[-1]
    assert not (tmp_path / ".config" / "kogniterm" / ".env").exists()


async def test_a_server_whose_models_are_unknown_is_not_tested(
    tmp_path: Path, keyboard: tuple[int, int]
) -> None:
    user = User()
    one = set_up(user, tmp_path, keyboard, OPENAI_BASE_URL="http://127.0.0.1:1/v1")
    logged_in = asyncio.ensure_future(one.log_in(BY_NAME["openai"]))
    os.write(keyboard[0], f"{KEY}\r".encode())
    assert await logged_in
    assert "The key was not tested: name a model of this server with --model." in user.said
    file = tmp_path / ".config" / "kogniterm" / ".env"
    assert file.read_text() == f"OPENAI_API_KEY={KEY}\n"


@pytest.mark.parametrize(
    ("environ", "needed"),
    [
        ({}, True),
        ({"GOOGLE_API_KEY": "x"}, False),
        ({"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "http://127.0.0.1:1"}, False),
        ({"OLLAMA_HOST": "127.0.0.1"}, False),
        ({"KOGNITERM_MODEL": "openai:x"}, False),
    ],
)
def test_it_is_needed_only_where_nothing_is_configured(
    tmp_path: Path, environ: dict[str, str], needed: bool
) -> None:
    given = {"HOME": str(tmp_path), **environ}
    assert provider_login.needs_set_up(settings.load(environ=given), resolve(given)) is needed


@pytest.mark.parametrize(
    ("way", "kept"),
    [
        ("Read-only without asking (recommended)", ["allow_reads = true"]),
        ("Automatic in the sandbox", ["allow_reads = true", 'approval_mode = "auto"']),
        ("Ask before everything", ["allow_reads = false"]),
    ],
)
async def test_the_way_to_work_is_asked_once_and_kept(
    tmp_path: Path,
    keyboard: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    kept: list[str],
) -> None:
    async def done(_self: SetUp, _provider: object) -> bool:
        return True

    monkeypatch.setattr(SetUp, "log_in", done)
    user = User("OpenAI", way)
    one = set_up(user, tmp_path, keyboard)
    assert await one.choose()
    file = resolve({"HOME": str(tmp_path)}).config_file
    assert file.read_text().splitlines() == kept
    # Esc takes the last answer, which is the strictest.
    assert user.shown[-1].choices[-1].value == "ask"
    again = User("OpenAI")
    assert await set_up(again, tmp_path, keyboard).choose()
    assert len(again.shown) == 1
