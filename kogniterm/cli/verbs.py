"""The verbs of the command line: one table that feeds dispatch, help, completion and docs.

A verb's module offers `add_parser(subparsers)` and `run(args) -> int` and is imported only
when its verb is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """A word after `kogniterm`, the module behind it, and one line of help."""

    name: str
    module: str
    help: str


VERBS: tuple[Verb, ...] = (
    Verb("run", "kogniterm.cli.run", "do one task and exit"),
    Verb("resume", "kogniterm.cli.resume", "go on with a session"),
    Verb("sessions", "kogniterm.cli.sessions", "find, read, copy and delete sessions"),
    Verb("replay", "kogniterm.cli.replay", "run a session again from its record"),
    Verb("memory", "kogniterm.cli.memory", "see, correct and forget what is remembered"),
    Verb("recipe", "kogniterm.cli.recipe", "keep, show and run recipes"),
    Verb("models", "kogniterm.cli.models", "fetch or remove the embedded local model"),
    Verb("policy", "kogniterm.cli.policy", "explain and try out the approval rules"),
    Verb("trust", "kogniterm.cli.trust", "let a project folder's files have an effect"),
    Verb("audit", "kogniterm.cli.audit", "prove and read what was decided and run"),
    Verb("storage", "kogniterm.cli.storage", "check, update and copy the database"),
    Verb("config", "kogniterm.cli.config", "show the settings and where each came from"),
    Verb("doctor", "kogniterm.cli.doctor", "check what is configured, reachable and missing"),
    Verb("completion", "kogniterm.cli.completion", "print a completion script for a shell"),
)


def find(name: str) -> Verb | None:
    """The verb called `name`."""
    return next((verb for verb in VERBS if verb.name == name), None)
