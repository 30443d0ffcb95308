"""The set-up of the embedded model, where a terminal test would need 491 MB."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm import settings
from kogniterm.addons.local_model import sources, weights
from kogniterm.addons.local_model.weights import PartialFile, Weights
from kogniterm.paths import resolve
from kogniterm.runtime.operations import provider_login
from tests.ui.test_set_up import User, keyboard, set_up

__all__ = ["keyboard"]


SIZE = 3 << 20


async def test_a_download_can_be_stopped_and_goes_on_where_it_stopped(
    tmp_path: Path, keyboard: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(SIZE)
    small = replace(
        weights.CATALOGUE[0],
        size=SIZE,
        sha256=hashlib.sha256(data).hexdigest(),
        packages=replace(weights.CATALOGUE[0].packages, part_size=SIZE),
    )
    monkeypatch.setattr(weights, "CATALOGUE", (small, *weights.CATALOGUE[1:]))
    begun: list[int] = []

    def slow(_entry: Weights, _file: str | None) -> weights.Source:
        def fill(partial: PartialFile) -> None:
            begun.append(partial.size)
            while not partial.complete:
                if len(begun) == 1 and partial.size == SIZE // 3:
                    os.write(keyboard[0], b"\x1b")
                    while True:  # until stopped, as a connection that delivers nothing more
                        partial.tell()
                partial.write(data[partial.size : partial.size + SIZE // 3])

        return fill

    monkeypatch.setattr(sources, "source_of", slow)
    user = User("Embedded model", "Embedded model", "Ask before everything")
    assert await set_up(user, tmp_path, keyboard).choose()
    assert begun == [0, SIZE // 3]
    first, second = (question.choices[-2].about for question in user.shown[:2])
    assert (first, second) == (
        "3 MB download, no key, small tasks",
        "2 MB left to download, no key, small tasks",
    )
    assert any(line.startswith("Download stopped.") for line in user.said)
    assert (tmp_path / ".cache" / "kogniterm" / "models" / small.file).read_bytes() == data


def test_weights_that_are_named_are_enough(tmp_path: Path) -> None:
    given = {"HOME": str(tmp_path), "KOGNITERM_LOCAL_WEIGHTS": "/nowhere.gguf"}
    assert not provider_login.needs_set_up(settings.load(environ=given), resolve(given))


def test_weights_that_are_there_are_enough(tmp_path: Path) -> None:
    given = {"HOME": str(tmp_path)}
    folder = resolve(given).weights
    folder.mkdir(parents=True)
    (folder / weights.CATALOGUE[0].file).write_bytes(b"weights")
    assert not provider_login.needs_set_up(settings.load(environ=given), resolve(given))
