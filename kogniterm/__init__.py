"""KogniTerm: a terminal agent that plans, asks, runs commands in a real PTY, and remembers.

`open_agent` runs tasks from a Python program; `__init__.pyi` has its types.
"""

__version__ = "0.1.0"
__all__ = ["__version__", "open_agent"]


def __getattr__(name: str) -> object:
    """Import the agent on first use: every module imports this package, and few need the agent."""
    if name == "open_agent":
        from importlib import import_module

        return import_module("kogniterm.runtime.python_api.open_agent").open_agent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
