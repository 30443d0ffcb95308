"""Check that the installed KogniTerm has the files of the checkout whose prompts are in $1.

A file of its own, so that `make check` sees a name of kogniterm that is gone.
"""

import sys
from pathlib import Path

import kogniterm
from kogniterm import prompts

folder = Path(kogniterm.__file__).parent
assert "site-packages" in folder.parts, folder
wanted = sorted(file.stem for file in Path(sys.argv[1]).glob("*.md"))
assert wanted, "no prompts in the checkout"
shipped = prompts.shipped_files()
assert sorted(shipped) == wanted, sorted(shipped)
for name in wanted:
    assert shipped[name].path.is_relative_to(folder / "_prompts"), shipped[name].path
    assert all(one.text for one in shipped[name].texts.values()), name
assert (folder / "_prompts").is_dir()
for needed in ("py.typed", "ui/locale/es.po"):
    assert (folder / needed).is_file(), needed
print("prompts in the wheel:", *wanted)
