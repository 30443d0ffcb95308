"""Every setting: its name, type, limits, default, and one sentence on what it does; and their load.

The load collects the layers, checks them, and reports the first mistake. The table also feeds
`config show`, `.env.example` and docs/configuration.md. Importing
it costs pydantic-settings, so reach it through `kogniterm.settings` at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kogniterm.errors import SettingsError, UnusableValueError
from kogniterm.paths import OVERRIDES, resolve
from kogniterm.settings.layers import (
    DEFAULT,
    PREFIX,
    SettingOrigin,
    Value,
    by_field,
    read_env_file,
    read_toml,
    read_variables,
    reject_unknown,
)
from kogniterm.storage.stores import is_served, known_schemes, lower_scheme, scheme_of
from kogniterm.types import MODE_NAMES, ApprovalMode, Phrase

OLLAMA_PORT = 11434


def _http_url(value: str) -> str:
    """Return the URL without a slash at its end."""
    try:
        parts = urlsplit(value)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets or a port that are none
        valid = False
    if not valid or " " in value:
        raise ValueError(str(Phrase("a valid URL that starts with http:// or https://")))
    return value.rstrip("/")


def _ollama_url(value: str) -> str:
    """Return the URL that a host, a host with a port, or a URL means."""
    wanted = str(Phrase("a host, host:port, or URL"))
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        port = parts.port or OLLAMA_PORT
    except ValueError:
        raise ValueError(wanted) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(wanted)
    # The variable is shared with the server, which may listen on every address.
    host = "127.0.0.1" if parts.hostname == "0.0.0.0" else parts.hostname
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"


def _store_address(value: SecretStr) -> SecretStr:
    """Return the address; anything else would silently be taken as the name of a file."""
    address = value.get_secret_value()
    if not is_served(scheme_of(address)):
        raise UnusableValueError(
            "an address with one of these schemes: {known}", known=", ".join(known_schemes())
        )
    return SecretStr(lower_scheme(address))


def _scripted_file(value: str) -> str:
    """Return the value; anything else would run commands where the user wants none to run."""
    kind, _, file = value.partition(":")
    if kind != "scripted" or not file:
        raise ValueError(str(Phrase("scripted: and a file")))
    return value


def _approval_mode(value: object) -> object:
    """Return the mode that a name of the user means; other values are left to be refused."""
    return MODE_NAMES.get(value, value) if isinstance(value, str) else value


def _names(value: object) -> tuple[str, ...]:
    """Return the names of a list, or of a text where commas stand between them."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise ValueError(str(Phrase("a list of names")))
    return tuple(dict.fromkeys(filter(None, (one.strip() for one in found))))


def _rates(value: object) -> tuple[str, ...]:
    """Return numbers by provider, of a list or a text such as `openai=60, anthropic=50`."""
    found: dict[str, int] = {}
    for one in _names(value):
        name, _, number = one.partition("=")
        if not name.strip() or not number.strip().isdecimal() or not int(number):
            raise ValueError(str(Phrase("numbers by provider, such as openai=60")))
        found[name.strip()] = int(number)
    return tuple(f"{name}={number}" for name, number in found.items())


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Rates = Annotated[tuple[str, ...], BeforeValidator(_rates)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
OllamaUrl = Annotated[str, AfterValidator(_ollama_url)]
ScriptedFile = Annotated[str, AfterValidator(_scripted_file)]
StoreAddress = Annotated[SecretStr, AfterValidator(_store_address)]

MASK = "********"


def _setting(
    default: Any,
    description: str,
    *,
    names: Sequence[str] = (),
    system: Sequence[str] = (),
    flag: str = "",
    example: str = "",
    **limits: Any,
) -> Any:
    """Return the field of one setting.

    `names` are well-known variables beside its own, `system` the variables of the system that
    stand in when nothing else sets it, and `flag` is its option.
    """
    extra: dict[str, Any] = {
        "names": list(names),
        "system": list(system),
        "flag": flag,
        "example": example,
    }
    return Field(default=default, description=description, json_schema_extra=extra, **limits)


class Settings(BaseSettings):
    """The settings of a user. Frozen; `origin` returns the layer that each value came from."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str | None = _setting(
        None,
        "Model to use, as provider:model; docs/models.md lists the providers. Unset: the first of "
        "Gemini, OpenAI and Anthropic with a key, else Ollama at OLLAMA_HOST, else the embedded "
        "model.",
        flag="--model",
        example="google_genai:gemini-2.5-flash",
    )
    effort: Literal["default", "none", "minimal", "low", "medium", "high", "xhigh", "max"] = (
        _setting(
            "default",
            "Reasoning effort, for models that have the choice; default leaves it to the provider.",
            flag="--effort",
        )
    )
    temperature: float | None = _setting(
        None, "Sampling temperature; unset leaves it to the provider.", ge=0, le=2, example="0"
    )
    max_output_tokens: int | None = _setting(
        None,
        "Maximum tokens of one response; unset leaves it to the provider.",
        gt=0,
        example="8192",
    )
    model_deadline: float = _setting(
        180.0, "Maximum seconds for one model call, including its retries.", gt=0
    )
    model_retries: int = _setting(
        4, "Number of times a failed model call is repeated.", ge=0, le=20
    )
    requests_per_minute: Rates = _setting(
        (),
        "Most model requests in a minute, by provider, over all sessions that share the database.",
        example="google_genai=60,openai=500",
    )
    tokens_per_minute: Rates = _setting(
        (),
        "Most tokens (input and output) in a minute, by provider, over all these sessions.",
        example="google_genai=1000000",
    )
    google_api_key: SecretStr | None = _setting(
        None, "Key for Gemini.", names=("GOOGLE_API_KEY", "GEMINI_API_KEY"), example="AIza…"
    )
    google_base_url: HttpUrl | None = _setting(
        None,
        "Endpoint for Gemini, if not the usual one.",
        names=("GOOGLE_GEMINI_BASE_URL",),
        example="https://gemini.example.org",
    )
    openai_api_key: SecretStr | None = _setting(
        None,
        "Key for OpenAI, or for the compatible service behind openai_base_url.",
        names=("OPENAI_API_KEY",),
        example="sk-…",
    )
    openai_base_url: HttpUrl | None = _setting(
        None,
        "Endpoint of any OpenAI-compatible service.",
        names=("OPENAI_BASE_URL",),
        example="http://127.0.0.1:8000/v1",
    )
    anthropic_api_key: SecretStr | None = _setting(
        None, "Key for Anthropic.", names=("ANTHROPIC_API_KEY",), example="sk-ant-…"
    )
    anthropic_base_url: HttpUrl | None = _setting(
        None,
        "Endpoint for Anthropic, if not the usual one.",
        names=("ANTHROPIC_BASE_URL",),
        example="https://anthropic.example.org",
    )
    ollama_base_url: OllamaUrl | None = _setting(
        None,
        "Address of Ollama: a host, host:port or URL.",
        names=("OLLAMA_HOST",),
        example="http://127.0.0.1:11434",
    )
    brave_api_key: SecretStr | None = _setting(
        None, "Key for web searches with Brave.", names=("BRAVE_API_KEY",), example="BSA…"
    )
    github_token: SecretStr | None = _setting(
        None,
        "Token for reading GitHub; without one it allows 60 requests an hour.",
        names=("GITHUB_TOKEN",),
        example="github_pat_…",
    )
    local_weights: str | None = _setting(
        None,
        "GGUF file for the embedded local model, instead of the downloaded one.",
        example="/data/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    )

    learn_commands: bool = _setting(
        True,
        "Keep approved commands that succeeded as examples for the embedded local model.",
    )
    context_window: int | None = _setting(
        None,
        "The model's context window in tokens. Unset: taken from a table of known models.",
        example="32768",
        ge=1000,
    )
    model_images: bool | None = _setting(
        None,
        "Whether the model takes images. Unset: taken from a table of known models.",
        example="true",
    )
    prompt_cache: bool = _setting(
        True,
        "Ask providers to keep the beginning of requests for some minutes, which costs less.",
    )
    model_cache: bool = _setting(
        True,
        "Keep summaries, judgements and readings by the model, so that the same call is not "
        "made twice.",
    )
    text_calls: bool = _setting(
        False,
        "Describe tools in the prompt text, for models and endpoints without function calling.",
    )

    plan: Literal["auto", "always", "never"] = _setting(
        "auto", "When to make a plan; auto lets the model decide.", flag="--plan"
    )
    plan_approval: Literal["auto", "always", "never"] = _setting(
        "auto",
        "Whether plans need your approval; auto: except in auto mode.",
        flag="--plan-approval",
    )
    approval_mode: Annotated[ApprovalMode, BeforeValidator(_approval_mode)] = _setting(
        "manual",
        "When to ask: ask (also called manual) before every action; accept-edits: edits of "
        "workspace files run unasked; auto runs what your rules and the sandbox permit; plan "
        "changes nothing.",
        flag="--mode",
    )
    allow_reads: bool = _setting(
        False,
        "Run read-only commands (label safe_readonly) without asking.",
        flag="--allow-reads",
    )
    sandbox: Literal["auto", "namespaces", "bubblewrap", "container", "landlock", "off"] = _setting(
        "auto",
        "Sandbox for commands; auto uses the first kind that works.",
        flag="--no-sandbox",
    )

    hooks: bool = _setting(
        True,
        "Run hooks: your own and those of trusted projects.",
        flag="--no-hooks",
    )

    hosts_inventory: str | None = _setting(
        None,
        "Inventory of Ansible with the machines that the model may propose commands for: a file, a "
        "folder, or names with commas. Unset: it gets no tool for them.",
        flag="--inventory",
        example="~/ansible/hosts.ini",
    )
    hosts_limit: str = _setting(
        "all",
        "Hosts of that inventory that it may use, as a pattern of Ansible.",
        flag="--limit",
        example="web:&staging",
    )

    tools_off: Names = _setting(
        (),
        "Names of tools that the model does not get; `kogniterm tools` lists all tools.",
        example="web_search,github",
    )
    mcp_direct_tools: int = _setting(
        8,
        "Offer the tools of MCP servers to the model directly up to this number; more are found "
        "with find_tools.",
        ge=0,
    )
    tool_packages: Names = _setting(
        (),
        "Installed Python packages whose tools are loaded; see docs/library.md.",
        example="acme-tools",
    )

    command_timeout: float = _setting(
        600.0,
        "Maximum seconds one command may run; then it is stopped. 0 for no limit.",
        ge=0,
        flag="--command-timeout",
    )
    parallel_commands: int = _setting(
        4,
        "Maximum actions of one response that run at once, where they need no approval and cannot "
        "disturb each other; 1 runs them one after the other.",
        ge=1,
        le=16,
    )
    end_jobs: bool = _setting(
        False,
        "Stop all background jobs when KogniTerm exits, including detached ones.",
        flag="--end-jobs",
    )
    input_wait_limit: float = _setting(
        60.0,
        "Maximum seconds a command that becomes no job may wait for input; then it is stopped.",
        gt=0,
    )
    max_steps: int = _setting(1000, "Maximum model calls in one turn.", gt=0, flag="--max-steps")
    max_seconds: float | None = _setting(
        None,
        "Maximum seconds for one turn. Unset: no limit.",
        gt=0,
        flag="--timeout",
        example="900",
    )
    max_tokens: int | None = _setting(
        None,
        "Maximum tokens (input and output) for one turn. Unset: no limit.",
        gt=0,
        flag="--max-tokens",
        example="200000",
    )
    max_cost_usd: float | None = _setting(
        None,
        "Maximum cost of one turn, in US dollars. Unset: no limit.",
        gt=0,
        flag="--max-cost",
        example="0.50",
    )
    max_session_tokens: int | None = _setting(
        None,
        "Maximum tokens for the whole session. Unset: no limit.",
        gt=0,
        flag="--max-session-tokens",
        example="2000000",
    )
    max_session_cost_usd: float | None = _setting(
        None,
        "Maximum cost of the whole session, in US dollars. Unset: no limit.",
        gt=0,
        flag="--max-session-cost",
        example="5",
    )

    memory: Literal["off", "session", "full"] = _setting(
        "full",
        "What is remembered: nothing, only this session, or across sessions.",
        flag="--memory",
    )
    database_url: StoreAddress | None = _setting(
        None,
        "PostgreSQL database for sessions, journal and memory, instead of the SQLite file.",
        example="postgresql://user@db.example.org/kogniterm",
    )
    output_quota_mb: int = _setting(
        1024, "Megabytes of full command output to keep on disk; the oldest is deleted first.", ge=0
    )
    session_max_age_days: int | None = _setting(
        None,
        "Days to keep a session after its last use; then it is deleted. Unset keeps all sessions.",
        ge=1,
        example="90",
    )
    output_max_age_days: int = _setting(30, "Days to keep a command's full output on disk.", ge=0)
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "Level of detail in the log file."
    )

    language: Literal["auto", "en", "es"] = _setting(
        "auto",
        "Language of the screens; auto follows LC_ALL, LC_MESSAGES and LANG.",
        flag="--lang",
    )
    theme: Literal["auto", "dark", "light", "plain"] = _setting(
        "auto", "Colours of the screens; auto follows the terminal's background."
    )
    color: Literal["auto", "always", "never"] = _setting(
        "auto",
        "When to use colour; auto: if the terminal supports it.",
        system=("NO_COLOR",),
    )
    keys: Literal["emacs", "vi"] = _setting("emacs", "Key bindings at the prompt.")
    screen_reader: bool = _setting(
        False, "Plain lines without spinners, boxes or redrawing, for screen readers."
    )
    notify: Literal["off", "bell", "osc9"] = _setting(
        "bell",
        "How to notify you when a long turn ends or a question waits.",
    )
    warm: Literal["auto", "off"] = _setting(
        "auto",
        "Keep the libraries loaded in a small process for faster starts; auto: where possible.",
    )
    window_title: bool = _setting(True, "Show the current activity in the terminal's title.")
    thoughts: Literal["folded", "shown", "off"] = _setting(
        "folded",
        "The model's thoughts: folded into a line when it has thought, shown in full, or not "
        "requested.",
    )
    editor: str | None = _setting(
        None, "Editor for long inputs and edits.", system=("VISUAL", "EDITOR"), example="vim"
    )
    pager: str | None = _setting(
        None,
        "Pager for long texts. Unset: `less -R`, or `more` or `cat` if it is not installed.",
        system=("PAGER",),
        example="less",
    )

    executor: ScriptedFile | None = _setting(
        None,
        "Answer commands from a file instead of running them, as scripted:FILE; see "
        "docs/scripted.md.",
        flag="--executor",
        example="scripted:commands.yaml",
    )
    faults: str | None = _setting(
        None,
        "Named faults to inject, for testing how KogniTerm handles failures.",
        example="kill:after-intent",
    )

    _origins: Mapping[str, SettingOrigin] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Settings:
        """Check `values`. Raises pydantic's `ValidationError`."""
        given: dict[str, Any] = {name: value.raw for name, value in values.items()}
        settings = cls(**given)
        settings._origins = {name: value.origin for name, value in values.items()}
        return settings

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take the values of `layers` alone: the stock sources would read the working folder."""
        return (init_settings,)

    def origin(self, name: str) -> SettingOrigin:
        """Return where the value of setting `name` came from."""
        return self._origins.get(name, DEFAULT)

    def mask(self) -> dict[str, object]:
        """Return every setting by name, with secrets replaced: safe to print and to log."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {n: MASK if isinstance(v, SecretStr) else v for n, v in values.items()}


def names_of(field: str) -> tuple[str, ...]:
    """Return the variables that set `field`, strongest first."""
    return (PREFIX + field.upper(), *_extra(field)["names"])


def system_names_of(field: str) -> tuple[str, ...]:
    """Return the variables of the system that set `field` when nothing else does."""
    return tuple(_extra(field)["system"])


def flag_of(field: str) -> str:
    """Return the command-line flag that sets `field`, or an empty string."""
    return str(_extra(field)["flag"])


def is_secret(field: str) -> bool:
    """Return whether the value of `field` must never be shown."""
    return "SecretStr" in str(Settings.model_fields[field].annotation)


def _extra(field: str) -> dict[str, Any]:
    extra = Settings.model_fields[field].json_schema_extra
    return extra if isinstance(extra, dict) else {}


# Set for the commands that KogniTerm runs, one of which may start KogniTerm again.
MARKERS = frozenset({"KOGNITERM_SESSION", "KOGNITERM_VERSION"})
_SHOWN = 60


def load_layers(
    flags: Mapping[str, object], environ: Mapping[str, str], env_file: Path | None
) -> Settings:
    """Return all layers, strongest first, as checked `Settings`. Raises `SettingsError`."""
    paths = resolve(environ)
    fields = tuple(Settings.model_fields)
    names = {field: names_of(field) for field in fields}
    variables = read_variables(environ)
    _check_prefixed(variables, names)
    env_values = _from_env_file(env_file, paths.env_file, names)
    found = by_field(variables, {field: system_names_of(field) for field in fields})
    if "color" in found:
        # NO_COLOR counts when it is set to anything at all.
        found["color"] = Value("never", found["color"].origin)
    values = {  # of a setting that stands in several layers, the last one counts
        **{
            name: Value(value.raw, SettingOrigin("system", value.origin.name))
            for name, value in found.items()
        },
        **_from_toml(paths.config_file, fields),
        **env_values,
        **by_field(variables, names),
        **{
            name: Value(raw, SettingOrigin("flag", flag_of(name)))
            for name, raw in flags.items()
            if raw is not None
        },
    }
    try:
        return Settings.of(values)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        field, wanted = str(detail["loc"][0]), _describe_valid(detail)
        if field in values:
            raise _wrong(field, values[field], wanted) from error
        raise SettingsError(
            "The setting {name} must be {wanted}.", name=field, wanted=wanted
        ) from error


def _check_prefixed(values: Mapping[str, Value], names: Mapping[str, tuple[str, ...]]) -> None:
    known = {own for own, *_ in names.values()} | set(OVERRIDES.values()) | MARKERS
    ours = {name: value for name, value in values.items() if name.startswith(PREFIX)}
    reject_unknown(ours, known.__contains__, tuple(known))


def _from_env_file(
    given: Path | None, usual: Path, names: Mapping[str, tuple[str, ...]]
) -> dict[str, Value]:
    """Read the usual file or the given one.

    The usual file is KogniTerm's own, so an unknown name in it is a mistake. A given file may
    serve other programs too, so only names with the prefix are checked.
    """
    if given is not None:
        values = read_env_file(given, must_exist=True)
        _check_prefixed(values, names)
    else:
        values = read_env_file(usual)
        known = {name for every in names.values() for name in every}
        reject_unknown(values, known.__contains__, tuple(known))
    return by_field(values, names)


def _from_toml(path: Path, fields: Sequence[str]) -> dict[str, Value]:
    values = read_toml(path)
    reject_unknown(values, fields.__contains__, tuple(fields))
    for name, value in values.items():
        if isinstance(value.raw, bool) and Settings.model_fields[name].annotation is not bool:
            # pydantic would read true as the number 1.
            raise _wrong(name, value, Phrase("something other than true or false"))
    return {name: value for name, value in values.items() if value.raw != ""}


def _describe_valid(detail: ErrorDetails) -> Phrase:
    """Return the description of valid values, to complete "must be …"."""
    context: dict[str, Any] = detail.get("ctx", {})
    kind = detail["type"]
    if kind == "literal_error":
        choices = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return Phrase("one of {choices}", {"choices": choices})
    if kind == "value_error":
        error = context["error"]
        return error.text if isinstance(error, UnusableValueError) else Phrase(str(error))
    if kind in _LIMITS:
        template, key = _LIMITS[kind]
        return Phrase(template, {"limit": f"{context[key]:g}"})
    wanted = _KINDS.get(kind.partition("_")[0])
    return Phrase(wanted) if wanted is not None else Phrase("something else")


_LIMITS = {
    "greater_than": ("greater than {limit}", "gt"),
    "greater_than_equal": ("at least {limit}", "ge"),
    "less_than": ("less than {limit}", "lt"),
    "less_than_equal": ("at most {limit}", "le"),
}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "finite": "a finite number",
}


def _wrong(field: str, value: Value, wanted: Phrase) -> SettingsError:
    origin = value.origin
    raw = str(value.raw).lower() if isinstance(value.raw, bool) else str(value.raw)
    shown = MASK if is_secret(field) else raw
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    values = {"name": origin.name or field, "value": shown or '""', "wanted": wanted}
    if origin.file is None:
        return SettingsError("{name} is {value}, but must be {wanted}.", **values)
    return SettingsError(
        "{file}, line {line}: {name} is {value}, but must be {wanted}.",
        file=origin.file,
        line=origin.line or 1,
        **values,
    )
