"""The folders of KogniTerm's files: the XDG rules, worked out from plain values, without I/O.

Three folders: configuration (what the user writes), data (what KogniTerm must not lose) and
cache (what can be fetched again). Working them out looks neither at the disk nor at the
environment; `named` asks for the homes that a `~` stands for, `private_folder` makes folders.
A session and a queued task have a folder with the name of their ID.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from kogniterm.errors import SettingsError, UsageError

OVERRIDES = {
    "config": "KOGNITERM_CONFIG_DIR",
    "data": "KOGNITERM_DATA_DIR",
    "cache": "KOGNITERM_CACHE_DIR",
}
_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
}


class SessionFolders(NamedTuple):
    """Folders with a folder for each session, which is deleted with it.

    They hold whole outputs of commands, kept replies of models, and copies for /undo.
    """

    outputs: Path
    model_replies: Path
    undo: Path


class ExtensionPaths(NamedTuple):
    """The user's instructions, commands, recipes, sub-agents, skills, hooks and MCP servers."""

    config: Path
    data: Path

    @property
    def instructions(self) -> Path:
        """The user's own instructions for the model, in every folder."""
        return self.config / "AGENTS.md"

    @property
    def commands(self) -> Path:
        """Folder of the user's custom commands."""
        return self.config / "commands"

    @property
    def recipes(self) -> Path:
        """Folder of the recipes that were kept, one file each."""
        return self.config / "recipes"

    @property
    def agents(self) -> Path:
        """Folder of the user's sub-agents, one file each."""
        return self.config / "agents"

    @property
    def skills(self) -> Path:
        """Folder of the user's skills, a folder each."""
        return self.config / "skills"

    @property
    def plugins(self) -> Path:
        """Folder of the user's plugins, a folder each."""
        return self.config / "plugins"

    @property
    def skill_data(self) -> Path:
        """Folder of what the user decided about skills: which are accepted, which are off."""
        return self.data / "skills"

    @property
    def hooks(self) -> Path:
        """The user's hooks."""
        return self.config / "hooks.json"

    @property
    def mcp_servers(self) -> Path:
        """The user's MCP servers."""
        return self.config / "mcp.json"

    @property
    def mcp_data(self) -> Path:
        """Folder of what is known of MCP servers: their tools, trust, and tokens."""
        return self.data / "mcp"

    @property
    def mcp_tokens(self) -> Path:
        """Folder of the sign-ins to MCP servers, a file each."""
        return self.mcp_data / "tokens"


class Paths(NamedTuple):
    """The three folders, and the name of every file in them."""

    config: Path
    data: Path
    cache: Path

    @property
    def config_file(self) -> Path:
        """Settings in TOML, written by the user."""
        return self.config / "config.toml"

    @property
    def env_file(self) -> Path:
        """Settings as `NAME=value` lines; the usual home of keys."""
        return self.config / ".env"

    @property
    def policy_file(self) -> Path:
        """The user's own approval rules."""
        return self.config / "policy.toml"

    @property
    def permissions_file(self) -> Path:
        """The permissions that the user granted for projects, written by KogniTerm."""
        return self.config / "permissions.toml"

    @property
    def permission_uses(self) -> Path:
        """The time of the last use of each of these permissions."""
        return self.data / "permission-uses.json"

    @property
    def user_key(self) -> Path:
        """The user's key for digests in journals."""
        return self.data / "user.key"

    @property
    def queue_key(self) -> Path:
        """The key that signs the user's stored answers; other machines may get it."""
        return self.config / "queue.key"

    @property
    def prompts(self) -> Path:
        """Folder of the user's own texts for the model, in place of the shipped ones."""
        return self.config / "prompts"

    @property
    def extensions(self) -> ExtensionPaths:
        """The files by which the user extends KogniTerm."""
        return ExtensionPaths(self.config, self.data)

    @property
    def database(self) -> Path:
        """Journal, sessions and memory (SQLite)."""
        return self.data / "kogniterm.db"

    @property
    def written_files(self) -> Path:
        """The register of written exports, reports and recipes, for forgetting to find them."""
        return self.data / "written.jsonl"

    @property
    def of_sessions(self) -> SessionFolders:
        """The folders that have one for each session."""
        return SessionFolders(*map(self.data.joinpath, ("outputs", "model-replies", "undo")))

    @property
    def spool(self) -> Path:
        """Folder of outcomes that the database could not take yet, a file a session."""
        return self.data / "spool"

    @property
    def provider_caches(self) -> Path:
        """Folder that lists what providers store for a while, by name, for forgetting."""
        return self.data / "provider-caches"

    @property
    def trust_file(self) -> Path:
        """The folders that the user trusts, with the hashes of what they held."""
        return self.data / "trust.json"

    @property
    def log_file(self) -> Path:
        """The newest of the rotating log files."""
        return self.data / "logs" / "kogniterm.log"

    @property
    def history_file(self) -> Path:
        """The history of the prompt."""
        return self.data / "history"

    @property
    def learned_examples(self) -> Path:
        """Commands that the user approved and that worked, for the local model."""
        return self.data / "examples.jsonl"

    @property
    def weights(self) -> Path:
        """Folder of the embedded model's weights."""
        return self.cache / "models"


def resolve(environ: Mapping[str, str]) -> Paths:
    """Return the folders that `environ` leads to.

    `KOGNITERM_CONFIG_DIR` and its two siblings win; then the XDG base folder specification,
    which tells to ignore relative values; then its defaults below `HOME`. Raises
    `SettingsError` for a relative override, or when there is neither an override nor a home.
    """
    return Paths(
        config=_folder("config", environ),
        data=_folder("data", environ),
        cache=_folder("cache", environ),
    )


def _folder(kind: str, environ: Mapping[str, str]) -> Path:
    override = environ.get(OVERRIDES[kind], "")
    if override:
        return _overridden(OVERRIDES[kind], override, environ)
    name, below_home = _XDG[kind]
    base = environ.get(name, "")
    if base.startswith("/"):
        return Path(base) / "kogniterm"
    return _home(environ) / below_home / "kogniterm"


def _overridden(name: str, value: str, environ: Mapping[str, str]) -> Path:
    if value == "~" or value.startswith("~/"):
        return _home(environ) / value[2:]
    if not value.startswith("/"):
        # A relative folder would change with the working folder, and a hostile project
        # could then supply the configuration.
        raise SettingsError(
            "{name} must be an absolute path, not {value}; specify one that starts with / or ~/.",
            name=name,
            value=value,
        )
    return Path(value)


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise SettingsError(
            "HOME is not set to an absolute path, so KogniTerm cannot locate "
            "its files; set HOME, or KOGNITERM_CONFIG_DIR, "
            "KOGNITERM_DATA_DIR and KOGNITERM_CACHE_DIR."
        )
    return Path(home)


LAST = "last"
"""The reference that means the session used last."""
_FORM = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_SHOWN = 80


class SessionId(str):
    """An ID that can be the name of a folder: no case, no dots, no separators.

    Whatever makes a path of an ID takes this type. Making one raises `UsageError` for any other
    text, as an imported file or a shared database may hold.
    """

    __slots__ = ()

    @classmethod
    def new(cls) -> Self:
        """Return an ID for a new session: short enough to type, random enough to be unique."""
        return cls(os.urandom(6).hex())

    def __new__(cls, text: str) -> Self:
        """Return `text` as an ID."""
        if text == LAST or not _FORM.fullmatch(text):
            from kogniterm.text.shorten import one_line

            raise UsageError(
                "{value} cannot be the ID of a session. Use up to 64 lower-case letters, digits "
                "and hyphens, not beginning or ending with a hyphen, and not the word last.",
                value=one_line(text, _SHOWN),
            )
        return super().__new__(cls, text)
