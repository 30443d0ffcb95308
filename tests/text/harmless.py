"""Lines that hold no secret though many look like one: generated from a seed, and from real files.

What a machine has differs, so a test reads only this repository and Python's own library; the
benchmark reads everything here.
"""

from __future__ import annotations

import gettext
import gzip
import hashlib
import sysconfig
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).resolve().parents[2]
_LONGEST = 400


def _digits(draw: Random, size: int) -> str:
    return "".join(draw.choices("0123456789", k=size))


def _hexed(draw: Random, size: int) -> str:
    return "".join(draw.choices("0123456789abcdef", k=size))


def _isbn(draw: Random) -> str:
    digits = "978" + _digits(draw, 9)
    total = sum(int(one) * (1 + 2 * (place % 2)) for place, one in enumerate(digits))
    whole = digits + str(-total % 10)
    return f"{whole[:3]}-{whole[3:5]}-{whole[5:9]}-{whole[9:12]}-{whole[12]}"


def _uuid(draw: Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


_MADE: tuple[Callable[[Random], str], ...] = (
    lambda draw: f"commit {_hexed(draw, 40)}",
    lambda draw: f"{_hexed(draw, 7)} Fix the build on {draw.randrange(1, 13)}.{draw.randrange(20)}",
    lambda draw: f"id: {_uuid(draw)}",
    lambda draw: f"request_id={_uuid(draw)} status=200 took={draw.randrange(900)}ms",
    lambda draw: f"pkg==1.{draw.randrange(40)} --hash=sha256:{_hexed(draw, 64)}",
    lambda draw: f"sha256-{hashlib.sha256(draw.randbytes(8)).hexdigest()}",
    lambda draw: f"order number {_digits(draw, draw.choice((8, 10, 12)))} was shipped",
    lambda draw: f"pedido {_digits(draw, 9)} enviado el 3 de mayo",
    lambda draw: f"Tel. +34 6{_digits(draw, 2)} {_digits(draw, 3)} {_digits(draw, 3)}",
    lambda draw: f"call +1 ({_digits(draw, 3)}) {_digits(draw, 3)}-{_digits(draw, 4)}",
    lambda draw: f"phone: {_digits(draw, 3)}-{_digits(draw, 3)}-{_digits(draw, 4)}",
    lambda draw: f"ISBN {_isbn(draw)}",
    lambda draw: f"{1_700_000_000 + draw.randrange(10**8)}.{_digits(draw, 6)} GET /index.html 200",
    lambda draw: f"timestamp={1_700_000_000_000 + draw.randrange(10**11)}",
    lambda draw: f"inode {_digits(draw, 8)} size {_digits(draw, 10)} blocks {_digits(draw, 6)}",
    lambda draw: f"-rw-r--r-- 1 root root {draw.randrange(10**8)} 2026-08-1{draw.randrange(9)}",
    lambda draw: f"10.{draw.randrange(255)}.4.7 -> 192.168.0.{draw.randrange(255)}",
    lambda draw: ":".join(_hexed(draw, 2) for _ in range(6)),
    lambda draw: f"version 2026.{draw.randrange(13)}.{draw.randrange(31)}+{_hexed(draw, 8)}",
    lambda draw: f"AS{_digits(draw, 5)} prefix 2001:db8:{_hexed(draw, 4)}::/48",
    lambda draw: f"ticket PROJ-{_digits(draw, 5)} closed by build {_digits(draw, 7)}",
    lambda draw: f"invoice 2026/{_digits(draw, 4)} total {draw.randrange(9000)},50 EUR",
    lambda draw: f"lat=40.{_digits(draw, 7)} lon=-3.{_digits(draw, 7)}",
    lambda draw: f"0x{_hexed(draw, 16)} <main+{draw.randrange(4000)}>",
    lambda draw: f"resolved 'https://r.example/p-{draw.randrange(9)}.tgz#{_hexed(draw, 40)}'",
    lambda draw: f'ETag: "{_hexed(draw, 32)}"',
    lambda draw: f"pid {draw.randrange(4 * 10**6)} ppid 1 rss {_digits(draw, 9)} kB",
    lambda draw: f"progress {draw.randrange(100)}% {_digits(draw, 10)}/{_digits(draw, 10)} bytes",
)


def made(count: int, *, seed: int) -> Iterator[str]:
    """Return `count` lines of ids, sums, times and numbers."""
    draw = Random(seed)
    for number in range(count):
        yield _MADE[number % len(_MADE)](draw)


SAID = """
Ana changes the password every month
the API key lives in the vault
the password is stored in the keyring
la contraseña se guarda en el llavero
cambia la contraseña cada mes
the password must be at least 12 characters
la contraseña debe tener ocho letras
my password is too long for this form
the password is wrong
la contraseña es incorrecta
la contraseña es obligatoria
mi contraseña es demasiado corta
the PIN is locked after three attempts
el PIN es de cuatro cifras
what is the wifi password?
¿cuál es la contraseña del wifi?
the token is expired
el token es válido durante una hora
the secret is in the settings
the secret to good bread is time
la clave es practicar cada día
la clave del éxito es la constancia
the key is to begin early
my key is under the mat
the door code is on the fridge
the passphrase is optional
the security code is required
run 4111 tests in 12 seconds
the card is lost
my card is in my wallet
mi tarjeta es nueva
la tarjeta de red es una Intel
her account is overdrawn
the login is with user and password
usuario y contraseña obligatorios
I forgot my password again
he olvidado mi contraseña
set a password for the archive
pon una contraseña al zip
password: see the vault
contraseña: la de siempre
the pass is closed in winter
the pin is bent on this connector
pin: 7 of the header carries 3.3 V
use the password manager
enter your PIN twice
the password is not needed here
the passphrase for the key was changed
print the document with id 12
the order 12345678 is ready
"""
"""Sentences about secrets that contain none."""


def _stretch(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = line.strip()
        if 3 < len(text) < _LONGEST:
            yield text


def of_files(files: Iterable[Path], *, each: int, draw: Random) -> Iterator[str]:
    """Yield up to `each` lines of every file; compressed pages and message catalogues too."""
    for file in files:
        try:
            if file.suffix == ".mo":
                with file.open("rb") as opened:
                    catalogue = gettext.GNUTranslations(opened)
                text = "\n".join(str(one) for one in vars(catalogue)["_catalog"].values())
            elif file.suffix == ".gz":
                text = gzip.decompress(file.read_bytes()).decode("utf-8", "replace")
            else:
                text = file.read_text("utf-8", "replace")
        except (OSError, ValueError, EOFError):
            continue
        lines = list(_stretch(text.splitlines()))
        yield from draw.sample(lines, min(each, len(lines)))


def of_the_repository(*, each: int, seed: int) -> list[str]:
    """Return lines of this repository: code, pages and Spanish messages, except kogniterm/text."""
    draw = Random(seed)
    files = sorted(
        file
        for folder, ends in (("kogniterm", ".py"), ("docs", ".md"), ("kogniterm", ".po"))
        for file in (ROOT / folder).rglob(f"*{ends}")
        if "text" not in file.parts
    )
    return list(of_files(files, each=each, draw=draw))


def of_the_machine(*, each: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield source and line: manuals, documents, licences, packages' records, Python's library."""
    draw = Random(seed)
    library = Path(sysconfig.get_path("stdlib"))
    packages = Path(pytest.__file__).parents[1]
    places = {
        "manuals": Path("/usr/share/man").glob("**/*.gz"),
        "documents": Path("/usr/share/doc").glob("*/*"),
        "licences": Path("/usr/share/common-licenses").glob("*"),
        "Spanish": Path("/usr/share/locale/es/LC_MESSAGES").glob("*.mo"),
        "library": library.glob("*.py"),
        "library's tests": library.glob("test/test_*.py"),
        "package data": packages.glob("*.dist-info/[RM]E*"),
        "packages": packages.glob("*/*.py"),
    }
    for name, found in places.items():
        files = sorted(found)
        draw.shuffle(files)
        for line in of_files(files[:400], each=each, draw=draw):
            yield name, line
