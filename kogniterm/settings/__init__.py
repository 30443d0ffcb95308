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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast
from urllib.parse import unquote

from kogniterm.errors import SettingsError, why
from kogniterm.paths import Paths, resolve
from kogniterm.settings.layers import PREFIX
from kogniterm.settings.user_files import read_if_there, toml_values

if TYPE_CHECKING:
    from kogniterm.settings.schema import Settings as Settings


Certificates = TypeVar("Certificates")
_PROXY = re.compile(r"(https?|socks5h?)://([^/]*@)?([\w.-]+|\[[\da-fA-F:.]+\])(:\d*)?(/.*)?")
_HOST = re.compile(
    r"(https?://|all://)?(?:\[?([\da-f]*:[\da-f:.]*)\]?|\*?([\w.-]+))(:\d{1,5})?",
    re.ASCII | re.IGNORECASE,
)


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
    from kogniterm.settings.schema import load_layers

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


# --- keys of a telemetry collector, which no command, log or model gets ---

HEADER_NAMES = tuple(
    f"OTEL_EXPORTER_OTLP_{signal}HEADERS" for signal in ("", "TRACES_", "METRICS_", "LOGS_")
)
"""Variables that hold keys of a collector."""
_SHORTEST = 8
"""Characters of a header's value from which on it may be a key; `1` or `true` is none."""


def collector_keys(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of headers, as they are written and as they are sent."""
    found: dict[str, None] = {}
    for name in HEADER_NAMES:
        for pair in environ.get(name, "").split(","):
            written = pair.partition("=")[2].strip()
            sent = unquote(written)
            for value in (written, sent, sent.rpartition(" ")[2]):
                if len(value) >= _SHORTEST:
                    found[value] = None
    return tuple(found)


# --- the first screen: a wrong value reads as the default, and the full load reports it ---

Language = Literal["en", "es"]
Keys = Literal["emacs", "vi"]
Color = Literal["auto", "always", "never"]
Narrowing = Literal["cuts", "wraps", "wraps-cleared"]

_TRUE = {"1", "true", "yes", "on", "y", "t"}


class QuickSettings(NamedTuple):
    """The settings that are read before pydantic is loaded.

    `term` and `colorfgbg` are as the terminal reports them; `editor` and `pager` may be empty.
    `narrowing` is what the terminal does to rows that no longer fit when its window gets narrower:
    it cuts them or, where it is known for that, wraps them; tmux also wraps what was cleared.
    `progress` is whether it shows a progress that it is sent.
    """

    paths: Paths
    language: Language
    theme: str
    color: Color
    keys: Keys
    screen_reader: bool
    model: str
    notify: str
    window_title: bool
    thoughts: str
    warm: str
    editor: str
    pager: str
    term: str
    colorfgbg: str
    truecolor: bool
    unicode: bool
    narrowing: Narrowing
    progress: bool


def quick(environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> QuickSettings:
    """Return the settings of the first screen. Raises `SettingsError` only without a home."""
    paths = resolve(environ)
    layers = (
        {name: str(value) for name, value in (flags or {}).items() if value is not None},
        _with_prefix(environ),
        _with_prefix(_env_lines(paths.env_file)),
        _toml(paths.config_file),
    )

    def pick(name: str, allowed: tuple[str, ...] | None, default: str) -> str:
        for layer in layers:
            if name in layer:
                value = layer[name]
                return value if allowed is None or value in allowed else default
        return default

    language = pick("language", ("auto", "en", "es"), "auto")
    return QuickSettings(
        paths=paths,
        language=locale_language(environ) if language == "auto" else cast("Language", language),
        theme=pick("theme", None, "auto"),
        color=cast(
            "Color",
            pick(
                "color",
                ("auto", "always", "never"),
                "never" if environ.get("NO_COLOR") else "auto",
            ),
        ),
        keys=cast("Keys", pick("keys", ("emacs", "vi"), "emacs")),
        screen_reader=pick("screen_reader", None, "").lower() in _TRUE,
        window_title=pick("window_title", None, "true").lower() in _TRUE,
        thoughts=pick("thoughts", ("folded", "shown", "off"), "folded"),
        model=pick("model", None, ""),
        warm=pick("warm", ("auto", "off"), "auto"),
        notify=pick("notify", ("off", "bell", "osc9"), "bell"),
        editor=pick("editor", None, environ.get("VISUAL") or environ.get("EDITOR", "")),
        pager=pick("pager", None, environ.get("PAGER", "")),
        term=environ.get("TERM", ""),
        colorfgbg=environ.get("COLORFGBG", ""),
        truecolor=environ.get("COLORTERM", "") in ("truecolor", "24bit"),
        unicode=_has_unicode(environ),
        narrowing=_narrowing(environ),
        progress=_shows_progress(environ),
    )


def locale_language(environ: Mapping[str, str]) -> Language:
    """Return the language of the locale variables: Spanish, or English for every other one."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = environ.get(name, "")
        if value:
            return "es" if value.lower().startswith("es") else "en"
    return "en"


def _has_unicode(environ: Mapping[str, str]) -> bool:
    """Return whether the locale uses UTF-8, which Python assumes without a locale too."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environ.get(name, "")
        if value:
            charset = value.partition(".")[2].lower().replace("-", "")
            return value in ("C", "POSIX") or charset.startswith("utf8") or not charset
    return True


_WRAPPING = ("alacritty", "foot", "xterm-kitty", "xterm-ghostty", "wezterm", "vte", "konsole")
_WRAPPING_PROGRAMS = {"iTerm.app", "Apple_Terminal", "WezTerm", "ghostty"}


def _narrowing(environ: Mapping[str, str]) -> Narrowing:
    """Return what the terminal does with rows that no longer fit.

    xterm, st and screen cut them, and may have inherited the variables of the terminal they were
    started from. Moving up too far would erase other output, so an unknown terminal cuts.
    """
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if term.startswith("tmux") or (term.startswith("screen") and program == "tmux"):
        return "wraps-cleared"
    if term.startswith(_WRAPPING):
        return "wraps"
    if not term.startswith("xterm") or environ.get("XTERM_VERSION"):
        return "cuts"
    named = environ.get("VTE_VERSION") or environ.get("KONSOLE_VERSION")
    return "wraps" if named or program in _WRAPPING_PROGRAMS else "cuts"


_PROGRESS_PROGRAMS = {"WezTerm", "ghostty"}
_VTE_WITH_PROGRESS = 7900
"""VTE 0.79, of GNOME 48."""


def _shows_progress(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to show the progress of OSC 9;4.

    Others show it as a notification (kitty, iTerm2) or as text. The multiplexers do not pass it on,
    and what runs in them inherits the variables of the terminal around them.
    """
    if environ.get("TMUX") or environ.get("STY") or environ.get("TERM", "") in ("", "dumb"):
        return False
    if environ.get("TERM_PROGRAM", "") in _PROGRESS_PROGRAMS:
        return True
    vte = environ.get("VTE_VERSION", "")
    if vte.isdecimal():
        return int(vte) >= _VTE_WITH_PROGRESS
    return bool(environ.get("WT_SESSION")) or environ.get("ConEmuANSI") == "ON"


def _with_prefix(values: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in values.items()
        if name.startswith(PREFIX) and value
    }


def _env_lines(file: Path) -> dict[str, str]:
    try:
        text = read_if_there(file) or ""
    except SettingsError:
        return {}
    pairs = (line.removeprefix("export ").partition("=") for line in text.splitlines())
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _toml(file: Path) -> dict[str, str]:
    try:
        text = read_if_there(file)
        found = toml_values(file, text).data if text is not None else {}
    except SettingsError:
        return {}
    return {name: str(value) for name, value in found.items()}
