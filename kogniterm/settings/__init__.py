"""Settings: the only reader of the environment, and the layers of configuration.

Flags win over the environment, that over the user's configuration folder (`config.toml`,
`.env`, or the file given with `--env-file`), that over variables of the system
(`LANG`, `NO_COLOR`, `EDITOR`), that over the defaults. Nothing of the working folder is read.

Importing this package costs the standard library only. `quick` reads what the first
prompt needs; `load` checks everything and imports pydantic-settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kogniterm.errors import SettingsError, why
from kogniterm.settings.quick_settings import QuickSettings, quick

if TYPE_CHECKING:
    from kogniterm.settings.schema import Settings

Certificates = TypeVar("Certificates")
_PROXY = re.compile(r"(https?|socks5h?)://([^/]*@)?([\w.-]+|\[[\da-fA-F:.]+\])(:\d*)?(/.*)?")
_HOST = re.compile(
    r"(https?://|all://)?(?:\[?([\da-f]*:[\da-f:.]*)\]?|\*?([\w.-]+))(:\d{1,5})?",
    re.ASCII | re.IGNORECASE,
)

__all__ = [
    "QuickSettings",
    "Settings",
    "certificates",
    "environment",
    "load",
    "names_in",
    "proxies",
    "proxy_variables",
    "quick",
]


def environment() -> dict[str, str]:
    """Return a copy of the process environment. Nothing else in the package reads it."""
    return dict(os.environ)


def proxies() -> dict[str, str | None]:
    """Return the proxy of each pattern of addresses as httpx names them, None for no proxy.

    Read here, as httpx fails for some entries of NO_PROXY; what it cannot match is left out.
    Raises `SettingsError` for a variable that is not the address of a proxy.
    """
    # Of two cases of a name, the lower one counts.
    given = {name.lower(): value for name, value in sorted(os.environ.items()) if value}
    found: dict[str, str | None] = {}
    for scheme in ("http", "https", "all"):
        if url := given.get(f"{scheme}_proxy"):
            found[f"{scheme}://"] = url = url if "://" in url else f"http://{url}"
            if not _PROXY.fullmatch(url):
                # Without the value, which may hold a password.
                raise SettingsError(
                    "The proxy in {variables} is not a valid address; use http://HOST:PORT or "
                    "socks5://HOST:PORT.",
                    variables=", ".join(proxy_variables()),
                )
    for entry in filter(None, map(str.strip, given.get("no_proxy", "").split(","))):
        if entry == "*":
            return {}
        if pattern := _no_proxy_pattern(entry):
            found[pattern] = None
    return found


def _no_proxy_pattern(entry: str) -> str | None:
    """Return an entry of NO_PROXY as a pattern of httpx; None where httpx knows none for it."""
    match = _HOST.fullmatch(entry)
    if match is None:
        return None
    scheme, address, name, port = (part or "" for part in match.group(1, 2, 3, 4))
    if address:
        import ipaddress

        try:
            host = f"[{ipaddress.IPv6Address(address)}]"
        except ValueError:
            return None
    else:
        exact = name.lower() == "localhost" or name.replace(".", "").isdigit()
        host = name if exact else f"*{name}"
    return f"{scheme or 'all://'}{host}{port}"


def certificates(load: Callable[[], Certificates]) -> Certificates:
    """Return the authorities that a library's `load` reads by the variables of the environment.

    Raises `SettingsError` for files that cannot be read.
    """
    try:
        return load()
    except OSError as error:
        raise SettingsError(
            "The certificates cannot be read ({detail}); check SSL_CERT_FILE and SSL_CERT_DIR.",
            detail=why(error),
        ) from error


def proxy_variables() -> list[str]:
    """Return the variables that name a proxy in this environment."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    return sorted(name for name, value in os.environ.items() if value and name.lower() in names)


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str],
    env_file: Path | None = None,
) -> Settings:
    """Read and check all layers. `flags` maps setting names to values; None means not given.

    `env_file` replaces the `.env` of the configuration folder. Raises `SettingsError`, which
    names the file and line, or the variable or flag, that holds the unknown key or wrong value.
    """
    from kogniterm.settings.loading import load_layers

    return load_layers(flags or {}, environ, env_file)


def names_in(file: Path, fields: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the settings `fields` that a dotenv file sets, without their values.

    A file that cannot be read as one sets none.
    """
    from kogniterm.settings.layers import read_env_file
    from kogniterm.settings.schema import names_of

    try:
        found = read_env_file(file)
    except SettingsError:
        return ()
    return tuple(name for field in fields for name in names_of(field) if name in found)


def __getattr__(name: str) -> Any:
    """Import `Settings` on first use, because pydantic is slow to import."""
    if name == "Settings":
        from kogniterm.settings.schema import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
