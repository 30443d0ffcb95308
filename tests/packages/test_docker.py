"""The Dockerfile: its steps are those that were tried, and its context is enough for the wheel."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "packaging" / "docker"
TRIED = (
    "WORKDIR /src",
    "COPY . .",
    "RUN python -m venv /opt/kogniterm",
    "RUN /opt/kogniterm/bin/pip install --no-cache-dir --disable-pip-version-check --compile"
    ' ".[fleet]"',
    "RUN apt-get update && apt-get install --yes --no-install-recommends bubblewrap git ripgrep"
    " && rm -rf /var/lib/apt/lists/*",
    "RUN useradd --create-home --uid 1000 --shell /bin/bash user",
    "COPY --from=build /opt/kogniterm /opt/kogniterm",
    "RUN ln -s /opt/kogniterm/bin/kogniterm /usr/local/bin/kogniterm",
    "ENV LANG=C.UTF-8",
    "USER user",
    "RUN mkdir -p /home/user/.config/kogniterm /home/user/.local/share/kogniterm /home/user/work",
    "WORKDIR /home/user/work",
    'ENTRYPOINT ["kogniterm"]',
)
"""Steps that were executed in order, by chroot, in roots that debootstrap made of Debian 12."""


def test_the_steps_are_those_that_were_tried() -> None:
    text = re.sub(r"\\\n\s*", "", (DOCKER / "Dockerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases == ["python:3.13-slim-bookworm"] * 2
    steps = tuple(line for line in lines if not line.startswith("FROM "))
    assert steps == TRIED, "try the changed steps in a Debian root, then change them here"


def test_the_context_has_what_the_wheel_is_built_of_and_no_more() -> None:
    nothing, *lines = (DOCKER / "Dockerfile.dockerignore").read_text("utf-8").split()
    assert nothing == "*"
    sent = [line[1:] for line in lines if line.startswith("!")]
    left_out = [line for line in lines if not line.startswith("!")]
    assert left_out == ["**/__pycache__"]
    assert all((ROOT / name).exists() for name in sent)
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, wheel = table["project"], table["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {
        "pyproject.toml",
        project["readme"],
        *project["license-files"],
        *wheel["packages"],
        *wheel["force-include"],
        *wheel["shared-data"],
    }
    for name in needed:
        assert any(name == one or fnmatch(name, f"{one}/*") for one in sent), name
    assert not any(name.startswith((".", "tests")) for name in sent)
