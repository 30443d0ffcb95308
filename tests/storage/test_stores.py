"""A store of another package, by the scheme of its addresses."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kogniterm import settings
from kogniterm.errors import SettingsError, StorageError, UsageError
from kogniterm.memory import open_memory
from kogniterm.paths import Paths
from kogniterm.runtime.operations.health_checks import check_installation
from kogniterm.sessions.session_database import open_store
from kogniterm.storage.stores import known_schemes, scheme_of

# A connection of psycopg commits nothing by itself, unless it is asked to.
MODULE = """
import psycopg

def connect(address):
    return psycopg.connect(address.replace("carrots://", "postgresql://"))

def refuse(address):
    raise RuntimeError("no carrots at " + address)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with a store for `carrots://`, some that do not work, and one of two."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "carrots.py").write_text(MODULE)
    (folder / "faulty.py").write_text("raise RuntimeError('not today')\n")
    install(folder, "carrots", "Carrots = carrots:connect\nbroken = carrots:missing\n"
            "my_store = carrots:refuse\nfaulty = faulty:connect\nnothing = carrots\n"
            "two words = carrots:connect\ntwice = carrots:connect\n")  # fmt: skip
    install(folder, "others", "Twice = others:connect\nPostgres = others:connect\n")
    monkeypatch.syspath_prepend(str(folder))


def install(folder: Path, name: str, entries: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kogniterm.stores]\n{entries}")


def load(tmp_path: Path, address: str) -> settings.Settings:
    environ = {"HOME": str(tmp_path), "KOGNITERM_DATABASE_URL": address, "KOGNITERM_SANDBOX": "off"}
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


@pytest.mark.usefixtures("package")
def test_a_scheme_without_a_store_names_those_that_are_installed(tmp_path: Path) -> None:
    names = "postgresql, broken, carrots, faulty, my_store, nothing, twice"
    assert known_schemes() == tuple(names.split(", "))
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, "mysql://ana:tortuga@db/base")
    assert str(raised.value) == (
        "KOGNITERM_DATABASE_URL is ********, but must be an address with one of these schemes: "
        f"{names}."
    )
    with pytest.raises(UsageError, match="No store serves mysql:// addresses; use one of these"):
        open_memory("mysql://db/base", user="ana")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("broken", "The store for broken:// cannot be loaded from carrots:missing: "),
        ("faulty", "The store for faulty:// cannot be loaded from faulty:connect: not today"),
        ("nothing", "The store for nothing:// cannot be loaded from carrots: "),
        ("twice", "Several packages serve twice:// addresses (carrots:connect, others:connect)"),
    ],
)
def test_a_store_that_cannot_be_loaded_is_one_clear_error(
    scheme: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(StorageError) as raised:
        open_memory(f"{scheme}://db/base", user="ana")
    assert str(raised.value).startswith(said)
    found = load(tmp_path, f"{scheme}://db/base")
    checked = check_installation(
        found, Paths(tmp_path, tmp_path, tmp_path), lambda: tmp_path, online=False
    )
    (shown,) = (one for one in checked if str(one.what).startswith("database: "))
    assert (shown.state, str(shown.fix)) == ("bad", str(raised.value))


@pytest.mark.usefixtures("package")
def test_a_failure_of_a_store_is_shown_without_the_address(tmp_path: Path) -> None:
    address = load(tmp_path, "MY_Store://ana:tortuga@db/base").database_url
    assert address is not None
    assert address.get_secret_value() == "my_store://ana:tortuga@db/base"
    with pytest.raises(StorageError) as raised:
        open_memory("MY_Store://ana:tortuga@db/base", user="ana")
    assert str(raised.value) == (
        "MY_Store://ana:…@db/base cannot be reached; check the address and that the server is "
        "running, then try again: no carrots at my_store://ana:…@db/base"
    )


def test_an_address_is_not_taken_for_a_file() -> None:
    assert scheme_of("postgresql://me@host/db") == "postgresql"
    assert scheme_of("carrots+tls://host/db") == "carrots+tls"
    assert not scheme_of(Path("/home/me/kogniterm.db"))
    assert not scheme_of("notes/a://b")
