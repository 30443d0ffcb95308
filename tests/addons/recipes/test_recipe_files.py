"""Files of recipes with mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.addons.recipes.recipe_store import read_file
from tests.settings.test_user_files import Site, cases, check_sentence

SITES = {"recipe": Site("yaml", "recipe.yaml", read_file)}


@pytest.mark.parametrize(("site", "fault"), cases(SITES))
def test_each_reader_says_in_one_sentence_what_is_wrong(
    site: str, fault: str, tmp_path: Path
) -> None:
    check_sentence(SITES[site], fault, tmp_path)
