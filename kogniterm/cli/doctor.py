"""`kogniterm doctor`: what is configured, what is reachable, what is missing, and what to do.

Every check is a function that returns findings; no check shows a key, and none leaves the
machine unless `--online` is given.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from kogniterm.cli.options import here, settings_of
from kogniterm.errors import EXIT_NOT_DONE, KognitermError, SettingsError, why
from kogniterm.system_programs import find_program
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from kogniterm.execution.sandbox import Probe
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings

State = Literal["ok", "note", "bad"]
_MARKS: dict[State, str] = {"ok": "ok  ", "note": "-   ", "bad": "!!  "}
CONNECT_SECONDS = 3.0
LITTLE_SPACE = 100_000_000

ENDPOINTS = (
    ("Gemini", "google_api_key", "google_base_url", "https://generativelanguage.googleapis.com"),
    ("OpenAI", "openai_api_key", "openai_base_url", "https://api.openai.com"),
    ("Anthropic", "anthropic_api_key", "anthropic_base_url", "https://api.anthropic.com"),
    ("Ollama", "ollama_base_url", "ollama_base_url", ""),
)
"""Name, the setting that configures it, the setting of its URL, the usual URL."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `fix` says what to do about a bad one."""

    state: State
    what: str
    fix: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `doctor`."""
    parser = subparsers.add_parser(
        "doctor",
        help=_("check what is configured, reachable and missing"),
        description=_("Exit status 0 when a task could be done, 1 when something is in the way."),
    )
    parser.add_argument(
        "--online",
        action="store_true",
        help=_("also open a connection to each configured provider and database"),
    )
    parser.add_argument("--json", action="store_true", help=_("as one JSON object"))


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 when anything in it is bad."""
    from kogniterm.settings import environment, quick

    paths = quick(environment()).paths
    findings = list(_python())
    try:
        settings = settings_of(args)
    except SettingsError as error:
        findings.append(Finding("bad", _("settings"), translate(error.text)))
    else:
        findings += _settings(settings, paths)
        for check in (_model, _providers, _storage, _sandbox):
            findings += check(settings, paths)
        if args.online:
            findings += _online(settings)
    findings += [*_folders(paths), *_programs(), *_extras()]
    _print(findings, as_json=args.json)
    return EXIT_NOT_DONE if any(f.state == "bad" for f in findings) else 0


def _print(findings: list[Finding], *, as_json: bool) -> None:
    if as_json:
        import json

        rows = [{"state": f.state, "what": f.what, "fix": f.fix} for f in findings]
        sys.stdout.write(json.dumps({"findings": rows}, indent=2, ensure_ascii=False) + "\n")
        return
    for finding in findings:
        sys.stdout.write(f"{_MARKS[finding.state]}{finding.what}\n")
        if finding.fix:
            sys.stdout.write(f"    {finding.fix}\n")


def _python() -> Iterator[Finding]:
    from platform import machine, python_version, system

    from kogniterm import __version__

    where = f"{system()} {machine()}"
    yield Finding("ok", f"KogniTerm {__version__}, Python {python_version()}, {where}")


def _settings(settings: Settings, paths: Paths) -> Iterator[Finding]:
    for file in (paths.config_file, paths.env_file):
        if not file.exists():
            yield Finding("note", _("{file} does not exist").format(file=file))
            continue
        yield Finding("ok", _("settings from {file}").format(file=file))
        if file.stat().st_mode & 0o077:
            yield Finding(
                "note",
                _("{file} can be read by others").format(file=file),
                f"chmod 600 {file}",
            )
    del settings


def _model(settings: Settings, paths: Paths) -> Iterator[Finding]:
    from kogniterm.models.registry import default_name
    from kogniterm.runtime.build import model_options

    try:
        name = settings.model or default_name(model_options(settings, paths, here()))
    except KognitermError as error:
        yield Finding("bad", _("no model"), translate(error.text))
        return
    yield Finding("ok", _("model {name}").format(name=name))
    if name.partition(":")[0] != "local":
        return
    if not _installed("xllamacpp"):
        yield Finding(
            "bad", _("the local model's runtime is missing"), "pip install 'kogniterm[local]'"
        )
    weights = Path(settings.local_weights) if settings.local_weights else paths.weights
    found = weights.is_file() or any(weights.glob("*.gguf"))
    if found:
        yield Finding("ok", _("weights in {folder}").format(folder=weights))
    else:
        yield Finding("bad", _("the local model's weights are missing"), "kogniterm models pull")


def _providers(settings: Settings, paths: Paths) -> Iterator[Finding]:
    for name, configured, url, usual in ENDPOINTS:
        if getattr(settings, configured) is None:
            yield Finding("note", _("{name}: not configured").format(name=name))
            continue
        where = getattr(settings, url) or usual
        origin = settings.origin(configured)
        yield Finding(
            "ok",
            _("{name}: configured by {origin}, at {where}").format(
                name=name, origin=origin, where=_without_secrets(where)
            ),
        )


def _storage(settings: Settings, paths: Paths) -> Iterator[Finding]:
    if settings.database_url is None:
        yield Finding("ok", _("database {file}").format(file=paths.database))
        return
    yield Finding("ok", _("database: the PostgreSQL of database_url"))
    if not _installed("psycopg"):
        yield Finding(
            "bad", _("the PostgreSQL driver is missing"), "pip install 'kogniterm[postgres]'"
        )


def _folders(paths: Paths) -> Iterator[Finding]:
    for folder in (paths.config, paths.data, paths.cache):
        nearest = next(f for f in (folder, *folder.parents) if f.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            yield Finding(
                "bad" if folder == paths.data else "note",
                _("{folder} cannot be written").format(folder=folder),
                _("change its owner, or set another with KOGNITERM_DATA_DIR and its siblings"),
            )
        elif shutil.disk_usage(nearest).free < LITTLE_SPACE:
            yield Finding("bad", _("the disk of {folder} is nearly full").format(folder=folder))
        else:
            yield Finding("ok", _("{folder} can be written").format(folder=folder))


def _programs() -> Iterator[Finding]:
    for name, purpose, needed in (
        ("bash", _("runs the commands"), True),
        ("bwrap", _("the strongest sandbox"), False),
        ("rg", _("fast search"), False),
        ("git", _("shows changes of a project"), False),
    ):
        found = find_program(name)
        if found:
            yield Finding("ok", f"{name}: {found}")
        else:
            state: State = "bad" if needed else "note"
            yield Finding(
                state, _("{name} is missing: {purpose}").format(name=name, purpose=purpose)
            )


def _sandbox(settings: Settings, paths: Paths) -> Iterator[Finding]:
    from kogniterm.execution.sandbox import probe

    if settings.sandbox == "off":
        switched_off = _("sandbox: switched off by {origin}")
        yield Finding("note", switched_off.format(origin=settings.origin("sandbox")))
        return
    try:
        found = probe(paths.data / "probe", settings.sandbox)
    except OSError as error:
        untried = _("the sandbox could not be tried: {why}")
        yield Finding("note", untried.format(why=translate(why(error))))
        return
    yield from sandbox_findings(found)


def sandbox_findings(found: Probe) -> Iterator[Finding]:
    """Say which sandbox works, what it cannot refuse, and why a stronger one does not work."""
    reasons = {kind: translate(reason) for kind, reason in found.reasons.items()}
    missing = "bubblewrap" in reasons and find_program("bwrap") is None
    install = _("install bubblewrap for a stronger one") if missing else ""
    if found.kind == "bubblewrap":
        yield Finding("ok", _("sandbox: bubblewrap works (what it must refuse was refused)"))
    elif found.kind == "landlock":
        yield Finding("ok", _("sandbox: Landlock works (what it must refuse was refused)"))
        weaker = _(
            "Landlock cannot refuse changes to the mode, owner and times of your own files "
            "outside, nor hide file names and processes"
        )
        if "signal" in found.remains:
            weaker = _("{before}; with this kernel also signals to your own processes").format(
                before=weaker
            )
        yield Finding("note", weaker)
        for kind, reason in reasons.items():
            not_used = _("sandbox: {kind} does not work: {why}").format(kind=kind, why=reason)
            yield Finding("note", not_used, install)
    else:
        for kind, reason in reasons.items():
            yield Finding(
                "note", _("sandbox: {kind} does not work: {why}").format(kind=kind, why=reason)
            )
        fix = _("install bubblewrap, or run with --no-sandbox")
        if not missing:
            fix = _("remove the reasons above, or run with --no-sandbox")
        yield Finding("note", _("no sandbox works here; --auto-approve needs one"), fix)


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _extras() -> Iterator[Finding]:
    from kogniterm.memory.vectors import vectors_installed
    from kogniterm.models.catalog import PROVIDERS

    there = {p.extra: _installed(p.package) for p in PROVIDERS if p.extra and p.package}
    there |= {"postgres": _installed("psycopg"), "vectors": vectors_installed()}
    for extra, installed in there.items():
        if installed:
            yield Finding("ok", _("extra {extra}: installed").format(extra=extra))
        else:
            yield Finding("note", _("extra {extra}: not installed").format(extra=extra))


def _online(settings: Settings) -> Iterator[Finding]:
    for name, configured, url, usual in ENDPOINTS:
        if getattr(settings, configured) is not None:
            yield _connect(name, getattr(settings, url) or usual)
    if settings.database_url is not None:
        yield _connect("PostgreSQL", settings.database_url.get_secret_value(), 5432)


def _connect(name: str, url: str, port: int = 0) -> Finding:
    """Whether something listens at `url`. Opens a connection, sends nothing: no key leaves."""
    import socket

    parts = urlsplit(url)
    host = parts.hostname or "localhost"
    port = parts.port or port or (443 if parts.scheme == "https" else 80)
    where = f"{host}:{port}"
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return Finding(
            "bad",
            _("{name}: {where} cannot be reached ({why})").format(
                name=name, where=where, why=translate(why(error))
            ),
        )
    return Finding("ok", _("{name}: {where} can be reached").format(name=name, where=where))


def _without_secrets(url: str) -> str:
    """A URL without user, password and query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
