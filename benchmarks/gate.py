"""Fail when KogniTerm takes more CPU time than its limits allow, as a multiple of its floors.

    python -m benchmarks.gate [--only version one_shot …] [--checkout FOLDER]

Each part alternates KogniTerm with its floor and compares the median of the ratios with
`limits.toml`. CPU time of both rises alike on a busy machine, so the ratio hardly moves. A part
above its limit is measured again, twice as often, and fails only if it is above it again.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import floors, sandbox_steps
from benchmarks.measuring import (
    PYTHON,
    ROOT,
    Mark,
    Usage,
    become_subreaper,
    middle,
    on_terminal,
    quiet,
)
from benchmarks.rows import KEYS, LINE, Place, place, python

LIMITS = Path(__file__).with_name("limits.toml")
STEPS = 30
MEGABYTES = 50
SESSIONS = 200


@dataclass(frozen=True, slots=True)
class Limit:
    """The usual ratio of a part, and the noise that is allowed."""

    what: str
    ratio: float
    margin: float

    @property
    def most(self) -> float:
        """Return the ratio above which the part fails."""
        return self.ratio * (1 + self.margin)


@dataclass(frozen=True, slots=True)
class Part:
    """A ratio to measure: `once` gives one sample, `runs` is how many are taken."""

    once: Callable[[Place], float]
    runs: int


def _cpu(words: list[str], at: Place) -> float:
    used: Usage = quiet(words, at.environ, cwd=at.folder)
    return used.cpu


def version(at: Place) -> float:
    """Return one ratio of `--version` to a bare interpreter."""
    return _cpu([*at.kogniterm, "--version"], at) / _cpu(python("pass"), at)


def prompt(at: Place) -> float:
    """Return one ratio of a prompt that takes keys to a bare one."""
    hello = at.script("hello", [{"text": "Hello."}])
    on = partial(on_terminal, environ=at.environ, cwd=at.folder)
    bare = [Mark("floor>", "zq"), Mark("zq")]
    return on(at.prompt(hello), marks=KEYS).cpu / on(python(floors.PROMPT), marks=bare).cpu


def one_shot(at: Place) -> float:
    """Return one ratio of a one-shot of one step to a bare loop of one step."""
    return _cpu(at.run(at.steps(1)), at) / _cpu(python(floors.LOOP, "1"), at)


def steps(at: Place) -> float:
    """Return one ratio of a step to that of a bare loop."""
    ours = _cpu(at.run(at.steps(STEPS + 1)), at) - _cpu(at.run(at.steps(1)), at)
    base = _cpu(python(floors.LOOP, str(STEPS + 1)), at) - _cpu(python(floors.LOOP, "1"), at)
    return ours / base


def sandbox(at: Place) -> float:
    """Return one ratio of a command in the dearest sandbox of namespaces to one outside."""
    del at
    return max(map(sandbox_steps.cost, sandbox_steps.built())) / sandbox_steps.cost("none")


def boxed(at: Place) -> float:
    """Return one ratio of a one-shot of steps in the sandbox to the same without."""
    free = at.run(at.steps(20))
    there = replace(at, folder=at.folder / "work")  # a sandbox round the home would hide less
    there.folder.mkdir(exist_ok=True)
    return _cpu([word for word in free if word != "--no-sandbox"], there) / _cpu(free, there)


def landlock(at: Place) -> float:
    """Return one ratio of a command that Landlock alone confines to one outside."""
    del at
    return sandbox_steps.cost("landlock") / sandbox_steps.cost("none")


def built(at: Place) -> float:
    """Return one ratio of the dearest sandbox of namespaces to a bare interpreter."""
    costs = [sandbox_steps.cost(kind, "--builds") for kind in sandbox_steps.built()]
    return max(costs) / _cpu(python("pass"), at)


def output(at: Place) -> float:
    """Return one ratio of a step that writes a lot to `script -c`."""
    command = f"yes {LINE} | head -c {MEGABYTES}000000"
    big = at.script("big", [{"run": command}, {"text": "done"}])
    ours = _cpu(at.run(big), at) - _cpu(at.run(at.steps(1)), at)
    shutil.rmtree(at.folder / "data" / "outputs", ignore_errors=True)
    return ours / _cpu(["script", "-qc", command, str(at.folder / "typescript")], at)


def listing(at: Place) -> float:
    """Return one ratio of a list of sessions to a bare loop without a step."""
    data = at.folder / "listed"
    file = data / "kogniterm.db"
    if not file.exists():
        data.mkdir()
        words = [PYTHON, "-m", "benchmarks.sessions", "--make", str(SESSIONS), str(file)]
        subprocess.run(words, cwd=ROOT, check=True)
    words = [*at.kogniterm, "sessions", "list", "--limit", str(SESSIONS)]
    there = replace(at, environ={**at.environ, "KOGNITERM_DATA_DIR": str(data)})
    return _cpu(words, there) / _cpu(python(floors.LOOP, "0"), at)


def modules(at: Place) -> float:
    """Return the number of KogniTerm's modules that a one-shot of one step imports."""
    environ = {**at.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    words = at.run(at.steps(1))
    done = subprocess.run(words, env=environ, check=True, capture_output=True, text=True)
    return float(len(set(re.findall(r"\| +(kogniterm[\w.]*)$", done.stderr, re.MULTILINE))))


PARTS: Mapping[str, Part] = {
    "modules": Part(modules, 1),
    "version": Part(version, 15),
    "prompt": Part(prompt, 7),
    "one_shot": Part(one_shot, 3),
    "steps": Part(steps, 3),
    "sandbox": Part(sandbox, 5),
    "boxed": Part(boxed, 3),
    "landlock": Part(landlock, 5),
    "built": Part(built, 5),
    "output": Part(output, 5),
    "listing": Part(listing, 3),
}


def limits() -> dict[str, Limit]:
    """Return the limit of each part."""
    return {name: Limit(**row) for name, row in tomllib.loads(LIMITS.read_text()).items()}


def measure(part: Part, limit: Limit, at: Place) -> tuple[float, list[float]]:
    """Return the median of the ratios, and all of them."""
    found = [part.once(at) for _ in range(part.runs)]
    if middle(found) > limit.most:
        found += [part.once(at) for _ in range(2 * part.runs)]
    return middle(found), found


def _missing(name: str) -> str:
    """Return what keeps a part from being measured here, or nothing."""
    if name == "output" and not shutil.which("script"):
        return "script (util-linux) is not here"
    if name in ("sandbox", "boxed", "built") and not sandbox_steps.built():
        return "no sandbox of namespaces works here"
    if name == "landlock" and name not in sandbox_steps.working():
        return "Landlock does not work here"
    return ""


def check(names: Sequence[str], checkout: Path | None) -> int:
    """Measure parts and print a line for each; return how many take too much."""
    failed = 0
    with place(checkout) as at:
        # What is made once, such as compiled modules and the database, counts for none of them.
        _cpu(at.run(at.steps(1)), at)
        for name in names:
            if missing := _missing(name):
                print(f"{name}: left out, {missing}")
                continue
            limit = limits()[name]
            ratio, found = measure(PARTS[name], limit, at)
            spread = f"{min(found):.2f} to {max(found):.2f} in {len(found)} runs"
            failed += ratio > limit.most
            print(
                f"{name}: {limit.what} = {ratio:.2f} ({spread}); "
                f"limit {limit.ratio} + {limit.margin:.0%} = {limit.most:.2f}: "
                f"{'TOO MUCH CPU TIME' if ratio > limit.most else 'ok'}",
                flush=True,
            )
    return failed


def main() -> int:
    """Measure the parts; return 1 if one of them takes too much."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--checkout", type=Path, help="measure KogniTerm as it is in this folder")
    options = parser.parse_args()
    become_subreaper()
    failed = check(options.only, options.checkout)
    if failed:
        print("Find the cause, or state in the commit why it is worth it and raise limits.toml.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
