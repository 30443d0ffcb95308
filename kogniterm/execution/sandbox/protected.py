"""What a sandbox hides, and what it keeps unchanged: tables of names, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

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
