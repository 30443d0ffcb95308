"""The values that travel between packages: frozen, checked when made, free of I/O.

Anything a user may read that is made below the user interface is a `Phrase`: an English
template with named values. The user interface translates the template, everybody else uses
`str(phrase)`.

A module is imported when one of its names is first used, in the order below: dataclasses are slow
to make, and a prompt takes keys with `Phrase` alone. `__init__.pyi` has the types.
"""

from importlib import import_module

_MODULES = (
    "localized",
    "token_usage",
    "images",
    "actions",
    "command_results",
    "model_calls",
    "turn_values",
)


def __getattr__(name: str) -> object:
    if not name.startswith("_"):
        for module in _MODULES:
            found = vars(import_module(f"{__name__}.{module}"))
            if name in found:
                return globals().setdefault(name, found[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
