"""Settings of other agents with mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.addons.import_agents.foreign.found import Place
from kogniterm.addons.import_agents.foreign.source_files import SourceFiles
from tests.settings.test_user_files import Site, cases, check_sentence


def told_by_import(path: Path) -> object:
    files = SourceFiles(Place(path.parent, {}))
    assert files.settings(path) == {}
    return files.problems


SITES = {
    "JSON": Site("json", "settings.json", told_by_import),
    "TOML": Site("toml", "settings.toml", told_by_import),
}


@pytest.mark.parametrize(("site", "fault"), cases(SITES))
def test_each_reader_says_in_one_sentence_what_is_wrong(
    site: str, fault: str, tmp_path: Path
) -> None:
    check_sentence(SITES[site], fault, tmp_path)
