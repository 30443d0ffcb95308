"""What a sent line is: a slash command, or words that may name files and background jobs."""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kogniterm.storage.folders import named

if TYPE_CHECKING:
    from kogniterm.types import Job

_NAMED = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|(\S+))')
_AROUND = "\"'.,;:()[]?!¿¡…"
JOBS = "jobs"
JOB = "job:"


def mentions(line: str, folder: str = "") -> tuple[str, ...]:
    """The files named with @ in `line` that exist, seen from `folder` (or from where we are)."""
    found = (quoted or word.strip(_AROUND) for quoted, word in _NAMED.findall(line))
    return tuple(dict.fromkeys(name for name in found if name and _is_there(folder, name)))


def _is_there(folder: str, name: str) -> bool:
    """Whether `name` is a file's. In a folder that may not be entered none is: words have @ too."""
    return os.path.exists(named(folder, name))  # noqa: PTH110 - pathlib's own test raises there


def job_outputs(line: str, jobs: Sequence[Job]) -> tuple[str, ...]:
    """The outputs of the jobs that `line` names: `@job:ID`, or `@jobs` for all of them."""
    words = {word.strip(_AROUND) for _quoted, word in _NAMED.findall(line)}
    return tuple(
        job.output_path
        for job in jobs
        if job.output_path and (JOBS in words or f"{JOB}{job.id}" in words)
    )


def is_slash_command(line: str) -> bool:
    """A path like /etc/hosts is an input, /help is a command."""
    return line.startswith("/") and "\n" not in line and "/" not in line.split()[0][1:]
