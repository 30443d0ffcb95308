"""The full load: collect the layers, check them, and report the first mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kogniterm.errors import SettingsError, UnusableValueError
from kogniterm.paths import OVERRIDES, resolve
from kogniterm.settings.layers import (
    PREFIX,
    SettingOrigin,
    Value,
    by_field,
    read_env_file,
    read_toml,
    read_variables,
    reject_unknown,
)
from kogniterm.settings.schema import (
    MASK,
    Settings,
    flag_of,
    is_secret,
    names_of,
    system_names_of,
)
from kogniterm.types import Phrase

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
