"""The reach of a sandbox: names that it hides or keeps unchanged, and the parts it may open.

Used before a sandbox starts (bubblewrap's mounts) and inside its first process (Landlock's rules),
so it looks at names only and follows no link.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

# Set here and not imported: this runs before every sandboxed command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


SECRET_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "keys to other machines": (
        ".ssh", ".gnupg", ".pki", ".config/sops", ".config/age", ".step", ".putty",
        ".config/wireguard", ".tsh", ".config/teleport",
    ),
    "keys to clouds, clusters and services": (
        ".aws", ".azure", ".kube", ".docker", ".oci", ".aliyun", ".bluemix", ".config/gcloud",
        ".config/doctl", ".config/hcloud", ".config/scw", ".config/flyctl", ".fly", ".minikube",
        ".config/containers", ".config/rclone", ".config/linode-cli", ".terraform.d",
        ".config/pulumi", ".pulumi", ".config/heroku", ".local/share/heroku", ".config/netlify",
        ".config/vercel", ".local/share/com.vercel.cli", ".config/stripe", ".config/ngrok",
        ".ngrok2", ".cloudflared", ".config/cloudflared", ".config/.wrangler", ".wrangler",
        ".railway", ".config/supabase", ".supabase", ".config/databricks", ".snowflake",
        ".snowsql", ".config/configstore", ".okta", ".config/s3cmd", ".mc", ".ovh", ".acme.sh",
    ),
    "keys to code hosts and package registries": (
        ".config/gh", ".config/glab-cli", ".config/tea", ".config/git/credential",
        ".cache/git/credential", ".config/pypoetry", ".huggingface",
        ".kaggle", ".modal", ".replicate", ".jfrog",
    ),
    "keys and conversations of other agents": (
        ".config/anthropic", ".config/openai", ".config/github-copilot",
        ".local/share/opencode", ".config/kogniterm", ".local/share/kogniterm",
    ),
    "password stores and keyrings": (
        ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/op",
        ".config/Bitwarden", ".config/Bitwarden CLI", ".config/1Password", ".config/keepassxc",
        ".local/share/gopass", ".config/gopass", ".authy", ".config/Authy Desktop",
    ),
    "browsers and mail: cookies, saved passwords, letters": (
        ".mozilla", ".thunderbird", ".config/google-chrome", ".config/google-chrome-beta",
        ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
        ".config/vivaldi", ".config/opera", ".config/zen", ".librewolf", ".waterfox",
        ".var/app", ".local/share/evolution", ".config/evolution", ".local/share/epiphany",
        ".config/qutebrowser", ".local/share/qutebrowser", "snap/firefox", "snap/chromium",
        "snap/thunderbird",
    ),
    "sessions of chat programs": (
        ".config/Signal", ".config/Slack", ".config/discord", ".config/Element",
        ".config/Microsoft", ".local/share/TelegramDesktop", ".config/teams-for-linux",
        ".config/weechat", ".irssi",
    ),
    "wallets": (
        ".bitcoin", ".ethereum", ".electrum", ".monero", ".config/solana", ".config/Exodus",
    ),
}  # fmt: skip
"""Folders below the home that are empty inside, by the reason."""

SECRET_FILES: Mapping[str, tuple[str, ...]] = {
    "passwords and tokens of programs": (
        ".netrc", ".authinfo", ".authinfo.gpg", ".pgpass", ".my.cnf", ".mylogin.cnf", ".npmrc",
        ".yarnrc.yml", ".pypirc", ".git-credentials", ".config/git/credentials", ".boto",
        ".s3cfg", ".databrickscfg", ".vault-token", ".cargo/credentials",
        ".cargo/credentials.toml", ".gem/credentials", ".local/share/gem/credentials",
        ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
        ".terraformrc", ".config/hub", ".composer/auth.json", ".config/composer/auth.json",
        ".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config", ".sbt/.credentials",
        ".ivy2/.credentials", ".bundle/config", ".config/pip/pip.conf", ".pip/pip.conf",
        ".condarc", ".config/uv/credentials.toml",
        ".local/share/uv/credentials/credentials.toml", ".mongorc.js", ".dockercfg",
        ".smbcredentials", ".rhosts", ".Xauthority", ".ICEauthority", ".msmtprc", ".mbsyncrc",
        ".offlineimaprc", ".fetchmailrc", ".esmtprc", ".config/msmtp/config", ".muttrc", ".env",
        ".envrc", ".claude.json", ".claude/.credentials.json", ".codex/auth.json",
        ".gemini/oauth_creds.json", ".gemini/.env", ".aider.conf.yml", ".config/aider/.env",
        ".continue/config.json", ".cursor/mcp.json", ".config/llm/keys.json",
        ".config/io.datasette.llm/keys.json", ".jupyter/jupyter_server_config.json",
        ".kaggle.json", ".cache/huggingface/token",
    ),
    "what was typed, passwords among it": (
        ".bash_history", ".zsh_history", ".histfile", ".zhistory", ".ash_history",
        ".ksh_history", ".sh_history", ".local/share/fish/fish_history", ".python_history",
        ".node_repl_history", ".psql_history", ".mysql_history", ".mariadb_history",
        ".sqlite_history", ".rediscli_history", ".mongo_history", ".irb_history", ".wget-hsts",
        ".local/share/nu/history.txt", ".config/nushell/history.txt", ".lesshst", ".viminfo",
        ".local/state/bash/history", ".local/state/zsh/history",
    ),
}  # fmt: skip
"""Files of the home that cannot be read inside, by the reason."""

GUARDED: Mapping[str, tuple[str, ...]] = {
    "our own rules and commands of a project": (".kogniterm",),
    "an editor runs its tasks, or programs its settings name, when the folder is opened": (
        ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json", ".vim",
        ".nvim", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el",
    ),
    "other agents run its hooks and servers when they start here": (
        ".claude", ".gemini", ".codex", ".cursor", ".windsurf", ".continue", ".opencode",
        ".mcp.json", ".aider.conf.yml", "opencode.json",
    ),
    "a shell runs or loads it when the folder is entered": (
        ".envrc", ".direnv", ".autoenv.zsh", ".mise.toml", "mise.toml", ".mise",
        ".tool-versions", ".rtx.toml",
    ),
    "git runs it at the next commit, checkout or merge": (
        ".husky", ".githooks", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml",
        "lefthook.yaml", ".lefthook", ".overcommit.yml", ".git-hooks",
    ),
    "a package manager takes programs or registries from it at every call": (
        ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs",
    ),
    "a debugger runs it when it starts here": (
        ".gdbinit", ".lldbinit",
    ),
}  # fmt: skip
"""Names that a tool of the user later acts on by itself, by the reason.

They stay unchanged where they exist (bubblewrap), and a change is shown (both kinds). Not in the
table: what runs only when the user starts it (Makefile, package.json, conftest.py, a virtual
environment), and instructions for agents (AGENTS.md), which name no program.
"""

GIT_GUARDED = ("config", "config.worktree", "hooks", "info/attributes", "commondir", "gitdir")
"""What steers git in a repository's own folder; index, objects and refs stay writable."""

NOT_SEARCHED = frozenset(
    (
        "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", ".nox",
        ".mypy_cache", ".ruff_cache", ".pytest_cache", "target", "build", "dist", ".cache",
        ".gradle", ".terraform", "bower_components", "Pods", ".next", ".nuxt", "elm-stuff",
        "deps", "_build",
    )
)  # fmt: skip
"""Folders of packages and products: large, and no tool takes one for a project by itself."""


def names(table: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names in one of these tables."""
    return tuple(name for group in table.values() for name in group)


MOST_PARTS = 500
"""A folder with more entries is opened in part: folders first."""
_SYSTEM = frozenset(
    (
        "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found", "nix",
        "opt", "proc", "root", "run", "sbin", "snap", "sys", "usr", "var", "tmp",
    )
)  # fmt: skip
"""Top folders that the system lives in: never writable because the workspace is `/`."""
_RUN_FROM_HOME = frozenset(
    (
        "bin", "sbin", "snap", "Library",
    )
)  # fmt: skip
"""Folders of a home whose programs are found through PATH or started by a login."""


def within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it; both absolute, without links."""
    return path == folder or folder == "/" or path.startswith(f"{folder}/")


def real(path: str) -> str:
    """Return the path without links; never raises."""
    return os.path.realpath(path)


def writable_parts(
    root: str, closed: Sequence[str], home: str, *, can_cover: bool = False
) -> list[str]:
    """Return what may be written of the folder `root`.

    A home, and everything above it, is opened by its entries and never as a whole: new names at
    its top would steer shells and logins. Hidden entries stay closed there. Elsewhere a folder is
    opened as a whole, unless something in `closed` lies below it and the sandbox cannot cover that
    afterwards.
    """
    if any(within(root, one) for one in closed):
        return []
    broad = within(home, root)
    if not broad and (can_cover or not any(within(one, root) for one in closed)):
        return [root]
    parts: list[str] = []
    for path, is_folder in _entries(root):
        if any(within(path, one) for one in closed):
            continue
        if broad and not _may_open(root, path, home):
            continue
        if not is_folder:
            parts.append(path)
        else:
            parts += writable_parts(path, closed, home, can_cover=can_cover)
    return parts


def readable_parts(root: str, hidden: Sequence[str]) -> list[str]:
    """Return what may be read of the folder `root`: everything but what is in `hidden`."""
    if any(within(root, one) for one in hidden):
        return []
    if not any(within(one, root) for one in hidden):
        return [root]
    parts: list[str] = []
    for path, is_folder in _entries(root, most=None):
        if is_folder:
            parts += readable_parts(path, hidden)
        elif path not in hidden:
            parts.append(path)
    return parts


def folders_between(path: str, root: str) -> list[str]:
    """Return the folders above `path` and below `root`, from the top down."""
    found = []
    parent = path.rpartition("/")[0]
    while parent not in (root, "") and within(parent, root):
        found.append(parent)
        parent = parent.rpartition("/")[0]
    return found[::-1]


def _may_open(folder: str, path: str, home: str) -> bool:
    """Return whether an entry of a home, or of a folder above one, may be written."""
    name = path.rpartition("/")[2]
    if path == home or within(home, path):
        return True
    if name.startswith("."):
        return False
    if folder == home:
        return name not in _RUN_FROM_HOME
    # Beside the way to a home are the homes of others, or the system's own folders.
    return folder == "/" and name not in _SYSTEM


def _entries(folder: str, most: int | None = MOST_PARTS) -> Iterable[tuple[str, bool]]:
    """Return (path, whether it is a folder) of what is in `folder`, links left out."""
    try:
        with os.scandir(folder) as found:
            entries = [
                (entry.path, entry.is_dir(follow_symlinks=False))
                for entry in found
                if not entry.is_symlink()
            ]
    except OSError:
        return []
    entries.sort(key=lambda entry: (not entry[1], entry[0]))
    return entries if most is None else entries[:most]
