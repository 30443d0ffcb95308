"""Print the packages of this environment with their licences, for the folder that contains them.

third_party.py [NAME…]: without those that are named, which are used only to build.
"""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distributions

LICENCES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT")


def licence_texts(package: Distribution) -> list[str]:
    """Return the texts that the package ships as its licence."""
    found = (file for file in package.files or () if ".dist-info" in str(file.parent))
    named = sorted(file for file in found if file.name.upper().startswith(LICENCES))
    texts = (file.locate().read_text(encoding="utf-8", errors="replace").strip() for file in named)
    return list(dict.fromkeys(texts))


def main(left_out: set[str]) -> None:
    """Print one part for each package, in the order of their names."""
    print("KogniTerm's self-contained folder contains CPython (Python Software Foundation License)")
    print("and these packages.\n")
    for package in sorted(distributions(), key=lambda one: one.metadata["Name"].lower()):
        about = package.metadata
        name = about["Name"]
        if name.lower() in left_out:
            continue
        licence = about.get("License-Expression") or (about.get("License") or "").split("\n")[0]
        classed = [one for one in about.get_all("Classifier") or () if one.startswith("License ::")]
        named = licence or ", ".join(one.split(" :: ")[-1] for one in classed)
        print(f"{'=' * 80}\n{name} {package.version}: {named or 'see below'}\n")
        for text in licence_texts(package):
            print(f"{text}\n")


if __name__ == "__main__":
    main(set(sys.argv[1:]))
