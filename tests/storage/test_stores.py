"""A store of another package, by the scheme of its addresses."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kogniterm import settings
from kogniterm.addons.fleet.task_queue import open_queue
from kogniterm.errors import SettingsError, StorageError, UsageError
from kogniterm.memory import open_memory
from kogniterm.sessions.session_database import open_store
from kogniterm.storage.drivers import scheme_of
from kogniterm.storage.stores import known_schemes

# A connection of psycopg commits nothing by itself, unless it is asked to.
MODULE = """
import psycopg

def connect(address):
    return psycopg.connect(address.replace("carrots://", "postgresql://"))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that serves `carrots://` and `broken://`."""
    folder = tmp_path / "packages"
    info = folder / "carrots-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "carrots.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: carrots\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[kogniterm.stores]\ncarrots = carrots:connect\nbroken = carrots:missing\n"
    )
    monkeypatch.syspath_prepend(str(folder))


def load(tmp_path: Path, address: str) -> settings.Settings:
    environ = {"HOME": str(tmp_path), "KOGNITERM_DATABASE_URL": address}
    return settings.load({}, environ=environ)


@pytest.mark.usefixtures("package")
def test_sessions_and_memory_are_kept_in_a_store_of_another_package(
    tmp_path: Path, postgres_url: str
) -> None:
    address = postgres_url.replace("postgresql://", "carrots://")
    found = load(tmp_path, address).database_url
    assert found is not None
    assert found.get_secret_value() == address
    store, _recovery = open_store(address, user="ana", version="1.0")
    with closing(store):
        store.add_row("one", folder="/", model="m")
    with open_memory(address, user="ana") as memory:
        memory.add("The carrots are orange.")
    for user, sessions, facts in (("ana", 1, 1), ("bob", 0, 0)):
        again, _recovery = open_store(address, user=user, version="1.0")
        with closing(again), open_memory(address, user=user) as memory:
            assert (len(again.sessions()), len(memory.facts())) == (sessions, facts)
    with pytest.raises(StorageError, match="queue needs a postgresql:// address"):
        open_queue(address, "ana", tmp_path)


@pytest.mark.usefixtures("package")
def test_a_scheme_without_a_store_names_those_that_are_installed(tmp_path: Path) -> None:
    assert known_schemes() == ("postgresql", "broken", "carrots")
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, "mysql://ana:tortuga@db/base")
    assert str(raised.value) == (
        "KOGNITERM_DATABASE_URL is ********, but must be an address with one of these schemes: "
        "postgresql, broken, carrots."
    )
    with pytest.raises(UsageError, match="No store serves mysql:// addresses; use one of these"):
        open_memory("mysql://db/base", user="ana")


@pytest.mark.usefixtures("package")
def test_a_store_that_cannot_be_loaded_is_one_clear_error() -> None:
    with pytest.raises(StorageError, match="store for broken:// cannot be loaded from carrots:mi"):
        open_memory("broken://db/base", user="ana")


def test_an_address_is_not_taken_for_a_file() -> None:
    assert scheme_of("postgresql://me@host/db") == "postgresql"
    assert scheme_of("carrots+tls://host/db") == "carrots+tls"
    assert not scheme_of(Path("/home/me/kogniterm.db"))
    assert not scheme_of("notes/a://b")
