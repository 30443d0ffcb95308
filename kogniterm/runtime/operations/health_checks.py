"""Checks of the installation: what is configured, reachable and missing, and what to do.

Every check is a function that yields findings; no check shows a key, and none leaves the machine
but `_connect`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urlsplit

from kogniterm import prompts
from kogniterm.errors import KognitermError, SettingsError, why
from kogniterm.host.checkout import running_version
from kogniterm.host.identity import account_name
from kogniterm.host.installation import install_command, missing_bytecode, program_folder
from kogniterm.host.programs import find_program
from kogniterm.installed import rows
from kogniterm.models.catalog import BY_NAME
from kogniterm.runtime.extensions.servers.mcp_servers import user_servers
from kogniterm.runtime.operations.updates import fetched_commits, installed_version
from kogniterm.runtime.trust.plugin_folders import PROJECT
from kogniterm.settings import environment
from kogniterm.storage.drivers import open_postgres
from kogniterm.storage.stores import POSTGRES, load_store, scheme_of, without_password
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.execution.sandbox_probe import Probe
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings

State = Literal["ok", "note", "bad"]
CONNECT_SECONDS = 3.0
LITTLE_SPACE = 100_000_000

ENDPOINTS = (
    ("Gemini", "google_genai", "google_api_key", "google_base_url"),
    ("OpenAI", "openai", "openai_api_key", "openai_base_url"),
    ("Anthropic", "anthropic", "anthropic_api_key", "anthropic_base_url"),
    ("Ollama", "ollama", "ollama_base_url", "ollama_base_url"),
)
"""Name, the name in the catalog, the setting that configures it, the setting of its URL."""
PROGRAMS = (
    ("bash", Phrase("running commands"), True),
    ("bwrap", Phrase("a sandbox where only bubblewrap may make one"), False),
    ("rg", Phrase("fast search"), False),
    ("git", Phrase("showing changes in a project"), False),
)
"""Name, what it is for, whether it is needed."""


class Finding(NamedTuple):
    """One line of the report; `fix` says what to do about a bad one."""

    state: State
    what: Phrase
    fix: Phrase | None = None


def check_installation(
    settings: Settings | None, paths: Paths, folder: Callable[[], Path], *, online: bool
) -> Iterator[Finding]:
    """Check everything; without settings (they are wrong) only what does not need them.

    `folder` returns the working folder, or raises a `KognitermError` when there is none.
    """
    yield from _updates()
    yield _bytecode()
    if settings is not None:
        yield from _settings_files(paths)
        yield from _own_prompts(paths)
        yield from _mcp_servers(paths)
        yield from _model(settings, paths, folder)
        yield from _providers(settings)
        yield from _database(settings, paths)
        yield _kept_replies(settings, paths)
        yield from _sandbox(settings, paths)
        if online:
            yield from _online(settings)
    yield from _folders(paths)
    yield from _programs()
    yield from _optional_packages()


def _verbatim(text: str) -> Phrase:
    """Return a phrase of a command or of names, which need no translation."""
    return Phrase("{text}", {"text": text})


def python_finding() -> Finding:
    """Return which KogniTerm runs on which Python and system."""
    from platform import machine, python_version, system

    host = f"Python {python_version()}, {system()} {machine()}"
    return Finding("ok", _verbatim(f"KogniTerm {running_version()}, {host}"))


def _updates() -> Iterator[Finding]:
    for notice in (installed_version(), fetched_commits(program_folder().parent)):
        if notice is not None:
            yield Finding("note", notice)


def _bytecode() -> Finding:
    """Return whether each start compiles the packages; that more than doubles its CPU time."""
    missing = missing_bytecode()
    if missing is None:
        return Finding("ok", Phrase("bytecode: compiled"))
    values = {"folders": ", ".join(missing.folders), "command": missing.command}
    if not missing.unsaved:
        once = Phrase("bytecode: missing in {folders}; the next task compiles it first", values)
        return Finding("note", once, _verbatim(missing.command))
    lasting = Phrase(
        "bytecode: missing in {folders}; each start compiles it again and takes twice as long",
        values,
    )
    if missing.unsaved == "setting":
        return Finding("note", lasting, _verbatim(missing.command))
    return Finding("note", lasting, Phrase("as the owner of the folder: {command}", values))


def _settings_files(paths: Paths) -> Iterator[Finding]:
    for file in (paths.config_file, paths.env_file):
        if not file.exists():
            yield Finding("note", Phrase("{file} does not exist", {"file": file}))
            continue
        yield Finding("ok", Phrase("settings: {file}", {"file": file}))
        if file.stat().st_mode & 0o077:
            others = Phrase("{file} is readable by other users", {"file": file})
            yield Finding("note", others, _verbatim(f"chmod 600 {file}"))


def _own_prompts(paths: Paths) -> Iterator[Finding]:
    """Yield what is to be said of the user's own texts for the model."""
    try:
        own = prompts.own_files(paths.prompts)
    except SettingsError as error:
        yield Finding("bad", Phrase("prompts"), error.text)
        return
    for name, file in own.items():
        yield Finding("note", Phrase("prompts: {file} is used", {"file": file.path}))
        for words in prompts.without_safety(file):
            yield Finding(
                "note",
                Phrase("{file} leaves out “{words}”", {"file": file.path, "words": words}),
                Phrase("Safety rests on these words too; see docs/prompts.md."),
            )
        if file.copied_from and file.copied_from != prompts.shipped_files()[name].digest:
            yield Finding(
                "note",
                Phrase(
                    "The shipped prompt {name} changed since {file} was copied",
                    {"name": name, "file": file.path},
                ),
                _verbatim(f"kogniterm config prompts diff {name}"),
            )


def _mcp_servers(paths: Paths) -> Iterator[Finding]:
    """Yield what is to be said of the user's own MCP servers; none is started."""
    file = paths.extensions.mcp_servers
    found = user_servers(file)
    yield from (Finding("bad", problem) for problem in found.problems)
    for server in found.servers:
        lacking = server.missing({**environment(), PROJECT: ""}) if server.enabled else ()
        if lacking:
            values = {"name": server.name, "names": ", ".join(lacking)}
            yield Finding(
                "note", Phrase("MCP server {name} needs {names} in your environment", values)
            )
    names = ", ".join(server.name for server in found.servers if server.enabled)
    if names:
        yield Finding("ok", Phrase("MCP servers: {names}", {"names": names}))


def _model(settings: Settings, paths: Paths, folder: Callable[[], Path]) -> Iterator[Finding]:
    from kogniterm.models.catalog import PROVIDERS
    from kogniterm.models.model_registry import default_name
    from kogniterm.runtime.opening import model_options

    try:
        name = settings.model or default_name(model_options(settings, paths, folder()))
    except KognitermError as error:
        yield Finding("bad", Phrase("model: none available"), error.text)
        return
    chosen = Finding("ok", Phrase("model: {name}", {"name": name}))
    if name.partition(":")[0] != "local":
        yield chosen
        return
    runtime = next(one for one in PROVIDERS if one.name == "local")
    has_runtime = not runtime.package or _is_installed(runtime.package)
    weights = Path(settings.local_weights) if settings.local_weights else paths.weights
    has_weights = weights.is_file() or any(weights.glob("*.gguf"))
    if has_runtime and has_weights:
        yield chosen
    if not has_runtime and runtime.distribution:
        missing = Phrase("local model runtime: not installed")
        yield Finding("bad", missing, _verbatim(install_command(runtime.distribution)))
    if has_weights:
        yield Finding("ok", Phrase("local model weights: {folder}", {"folder": weights}))
    else:
        missing = Phrase("local model weights: not found")
        yield Finding("bad", missing, _verbatim("kogniterm models pull"))


def _providers(settings: Settings) -> Iterator[Finding]:
    for name, in_catalog, configured, url in ENDPOINTS:
        if getattr(settings, configured) is None:
            yield Finding("note", Phrase("{name}: not configured", {"name": name}))
            continue
        values = {
            "name": name,
            "origin": settings.origin(configured).shown,
            "where": _without_secrets(getattr(settings, url) or BY_NAME[in_catalog].url),
        }
        yield Finding("ok", Phrase("{name}: configured by {origin}, at {where}", values))


def _database(settings: Settings, paths: Paths) -> Iterator[Finding]:
    if settings.database_url is None:
        yield Finding("ok", Phrase("database: {file}", {"file": paths.database}))
        return
    scheme = scheme_of(settings.database_url.get_secret_value())
    if scheme not in POSTGRES:
        what = Phrase("database: {scheme} (database_url)", {"scheme": scheme})
        try:
            load_store(scheme)
        except KognitermError as error:
            yield Finding("bad", what, error.text)
        else:
            yield Finding("ok", what)
        return
    yield Finding("ok", Phrase("database: PostgreSQL (database_url)"))
    if not _is_installed("psycopg"):
        missing = Phrase("PostgreSQL driver: not installed")
        yield Finding("bad", missing, _verbatim(install_command("psycopg[binary]")))


def _kept_replies(settings: Settings, paths: Paths) -> Finding:
    from kogniterm.models.reply_cache import ReplyCache

    count, held = ReplyCache(paths.of_sessions.model_replies).size()
    values = {"count": count, "kilobytes": -(-held // 1000)}
    if not settings.model_cache:
        return Finding("ok", Phrase("kept replies of models: switched off, {count} left", values))
    return Finding("ok", Phrase("kept replies of models: {count} ({kilobytes} kB)", values))


def _folders(paths: Paths) -> Iterator[Finding]:
    for folder in (paths.config, paths.data, paths.cache):
        nearest = next(f for f in (folder, *folder.parents) if f.exists())
        values = {"folder": folder}
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            fix = Phrase(
                "change its owner, or set KOGNITERM_CONFIG_DIR, "
                "KOGNITERM_DATA_DIR or KOGNITERM_CACHE_DIR to another folder"
            )
            state: State = "bad" if folder == paths.data else "note"
            yield Finding(state, Phrase("{folder} is not writable", values), fix)
        elif shutil.disk_usage(nearest).free < LITTLE_SPACE:
            yield Finding("bad", Phrase("the disk of {folder} is nearly full", values))
        else:
            yield Finding("ok", Phrase("{folder} is writable", values))


def _programs() -> Iterator[Finding]:
    for name, purpose, needed in PROGRAMS:
        found = find_program(name)
        missing = Phrase(
            "{name}: not found; needed for {purpose}", {"name": name, "purpose": purpose}
        )
        state: State = "ok" if found else "bad" if needed else "note"
        yield Finding(state, _verbatim(f"{name}: {found}") if found else missing)


def _sandbox(settings: Settings, paths: Paths) -> Iterator[Finding]:
    from kogniterm.execution.sandbox_probe import probe

    if settings.sandbox == "off":
        origin = {"origin": settings.origin("sandbox").shown}
        yield Finding("note", Phrase("sandbox: switched off by {origin}", origin))
        return
    try:
        found = probe(paths.data / "probe", settings.sandbox)
    except OSError as error:
        reason = {"why": why(error)}
        yield Finding("note", Phrase("sandbox: could not be tested: {why}", reason))
        return
    yield from sandbox_findings(found)


def sandbox_findings(found: Probe) -> Iterator[Finding]:
    """Yield which sandbox works, what it lacks, and why a stronger one does not work."""
    from kogniterm.execution.sandbox.confinement import GIVES

    missing = "bubblewrap" in found.reasons and find_program("bwrap") is None
    refused = [
        Phrase("sandbox: {kind} does not work: {why}", {"kind": GIVES[kind].name, "why": reason})
        for kind, reason in found.reasons.items()
        if kind != "off"
    ]
    install = Phrase("install bubblewrap for a stronger sandbox") if missing else None
    if found.kind == "none":
        yield from (Finding("note", one) for one in refused)
        fix = Phrase("fix the problems above, or run with --no-sandbox")
        if missing:
            fix = Phrase("install bubblewrap, or run with --no-sandbox")
        yield Finding("note", Phrase("sandbox: none works here; --auto-approve needs one"), fix)
        return
    gives = GIVES[found.kind]
    works = Phrase("sandbox: {kind} works (writes outside were refused)", {"kind": gives.name})
    yield Finding("ok", works)
    lacks = [text for ability, text in _LACKING.items() if not getattr(gives, ability)]
    if gives.own_sockets and not found.own_sockets:
        lacks.append(_LACKING["own_sockets"])
    if "signal" in found.remains:
        lacks.append(Phrase("signals to your processes outside get through"))
    if lacks:
        values = {"kind": gives.name, "lacks": tuple(lacks)}
        yield Finding("note", Phrase("{kind} is weaker: {lacks}", values))
        yield from (Finding("note", one, install) for one in refused)


_LACKING = {
    "own_network": Phrase("commands have no loopback for servers"),
    "own_sockets": Phrase("local sockets do not work"),
    "own_processes": Phrase("processes outside are listed"),
    "own_terminals": Phrase("programs cannot open terminals"),
    "shared_memory": Phrase("process pools do not work"),
    "private_tmp": Phrase("/tmp is closed"),
    "hides_names": Phrase("names of hidden files are shown"),
    "keeps_files": Phrase("files that git and editors run are not protected"),
    "keeps_modes": Phrase("mode, owner and times of your files outside can be changed"),
}
"""Texts for what a kind of sandbox lacks, by the ability in its table."""


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _optional_packages() -> Iterator[Finding]:
    from kogniterm.models.catalog import PROVIDERS

    known = [(one.distribution, one.package) for one in PROVIDERS]
    known += [(package, module) for _user, package, module in rows("PACKAGES")]
    there = {name: _is_installed(module) for name, module in known if name and module}
    there |= {"psycopg": _is_installed("psycopg")}
    for package, installed in there.items():
        yield package_finding(package, installed=installed)


def package_finding(package: str, *, installed: bool) -> Finding:
    """Return whether an optional package is installed."""
    values = {"package": package}
    if installed:
        return Finding("ok", Phrase("package {package}: installed", values))
    return Finding("note", Phrase("package {package}: not installed", values))


def _online(settings: Settings) -> Iterator[Finding]:
    from kogniterm.models.model_lists import require_answer

    checks: list[tuple[str, str, Callable[[], None]]] = []
    for name, in_catalog, configured, url in ENDPOINTS:
        if getattr(settings, configured) is not None:
            provider = BY_NAME[in_catalog]
            where = _without_secrets(getattr(settings, url) or provider.url)
            checks.append((name, where, partial(require_answer, provider, where, CONNECT_SECONDS)))
    if settings.database_url is not None:
        address = settings.database_url.get_secret_value()
        opened = partial(open_postgres, address, user=account_name())
        checks.append(("PostgreSQL", without_password(address), lambda: opened().close()))
    for name, where, check in checks:
        try:
            check()
        except KognitermError as error:
            yield Finding("bad", error.text)
        else:
            what = Phrase("{name}: {where} is reachable", {"name": name, "where": where})
            yield Finding("ok", what)


def _without_secrets(url: str) -> str:
    """Return a URL without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
