"""The groups in which /help lists the commands, and what /help NAME adds: details, an example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kogniterm.types import Phrase
from kogniterm.ui.slash_commands import Command


class Detail(NamedTuple):
    """The example of a command and what it does, and what to know about the command."""

    example: str
    does: Phrase
    note: Phrase | None = None


class HelpGroup(NamedTuple):
    """Commands that belong together; the example is that of the command `shown`."""

    title: Phrase
    names: tuple[str, ...]
    shown: str


GROUPS = (
    HelpGroup(Phrase("Tasks and files"), (
        "plan", "steer", "output", "jobs", "diff", "undo", "rewind", "init"), "undo"),
    HelpGroup(Phrase("Model, approval and limits"), (
        "model", "mode", "tools", "permissions", "secret", "trust", "budget", "cost"), "budget"),
    HelpGroup(Phrase("Extensions"), ("mcp", "skills", "agents", "hooks"), "mcp"),
    HelpGroup(Phrase("Memory"), ("memory", "preferences", "forget", "why", "incognito"), "memory"),
    HelpGroup(Phrase("Sessions"), (
        "new", "resume", "fork", "rename", "export", "compact"), "resume"),
    HelpGroup(Phrase("Screen and help"), (
        "help", "keys", "theme", "thoughts", "lang", "bug", "quit"), "help"),
)  # fmt: skip
OTHERS = Phrase("More commands")

DETAILS: Mapping[str, Detail] = {
    "plan": Detail("/plan edit", Phrase("open the plan in your editor"),
        Phrase("auto, always and never set when a plan is made.")),
    "steer": Detail("/steer use pytest", Phrase("send this to the running turn"),
        Phrase("Ctrl-S does the same with the text on the line.")),
    "output": Detail("/output 2", Phrase("open the full output of command 2"),
        Phrase("Without a number, it opens the output of the last command.")),
    "jobs": Detail("/jobs stop 1", Phrase("stop job j1"),
        Phrase("Jobs end with KogniTerm, unless you keep them or they were detached.")),
    "diff": Detail("/diff", Phrase("show every change of this session"),
        Phrase("It shows the files that commands and edits changed, except ones too large to "
               "keep.")),
    "undo": Detail("/undo", Phrase("show and undo the last change"),
        Phrase("The changes are shown first. An undo can be undone too.")),
    "rewind": Detail("/rewind", Phrase("choose the message to go back to"),
        Phrase("Esc twice on an empty line does the same. What cannot be restored is listed "
               "before you decide.")),
    "init": Detail("/init mention the test data", Phrase("write AGENTS.md, with your request")),
    "model": Detail("/model openai:gpt-5.6", Phrase("use this model from the next call on")),
    "mode": Detail("/mode plan", Phrase("only read and plan"),
        Phrase("Shift-Tab changes the mode too. It does not carry over to a resumed session; "
               "allow-reads and ask-reads are saved as a setting.")),
    "tools": Detail("/tools show web_fetch", Phrase("show its arguments and what decides about it"),
        Phrase("A deny rule for a tool or the setting tools_off switches it off.")),
    "skills": Detail("/skills show release-notes", Phrase("show its instructions and files"),
        Phrase("/NAME WORDS runs a skill. Skills of ~/.agents and ~/.claude wait for /skills "
               "trust.")),
    "mcp": Detail("/mcp trust files", Phrase("look at the tools of this server, and trust them"),
        Phrase("A server starts at its first call; /mcp retry starts one that failed again.")),
    "agents": Detail("/agents show reviewer", Phrase("show its instructions and tools"),
        Phrase("@reviewer TASK gives it a task.")),
    "hooks": Detail("/hooks off Stop", Phrase("run no hooks of this event in this session")),
    "permissions": Detail("/permissions revoke all", Phrase("be asked again about everything"),
        Phrase("You grant a permission at the question about a command.")),
    "secret": Detail("/secret API_TOKEN", Phrase("ask for its value without an echo"),
        Phrase("You are asked before each command that names the variable.")),
    "trust": Detail("/trust revoke", Phrase("ignore what this folder provides"),
        Phrase("Instructions, rules and commands of a folder apply only when you trust it.")),
    "budget": Detail("/budget tokens 200k", Phrase("limit the tokens of each turn"),
        Phrase("At a limit, you are asked whether the turn continues. Units: 200k, 15min.")),
    "cost": Detail("/cost turns", Phrase("show tokens and cost of each turn"),
        Phrase("Costs are list prices; what you pay may differ.")),
    "memory": Detail("/memory add I use fish", Phrase("remember this"),
        Phrase("Without an action, it lists what is remembered for this project.")),
    "preferences": Detail("/preferences set language es", Phrase("get answers in Spanish"),
        Phrase("With --project, it holds for this project alone.")),
    "forget": Detail("/forget m7", Phrase("delete memory m7 from every store"),
        Phrase("It asks before it deletes, and verifies that nothing is left.")),
    "why": Detail("/why", Phrase("show the memories behind the last answer")),
    "incognito": Detail("/incognito", Phrase("neither read nor write memory from now on")),
    "new": Detail("/new", Phrase("save this session and start another"),
        Phrase("The session before can be resumed with /resume.")),
    "resume": Detail("/resume Upgrade to Django 6", Phrase("resume the session with this title"),
        Phrase("Without a title or an ID, you choose from a list.")),
    "fork": Detail("/fork 3", Phrase("continue from the end of turn 3 in a copy"),
        Phrase("This session stays as it is.")),
    "rename": Detail("/rename Upgrade to Django 6", Phrase("give this session a title")),
    "export": Detail("/export md notes.md", Phrase("write the session as Markdown"),
        Phrase("md is for reading; jsonl can be imported on another machine.")),
    "compact": Detail("/compact", Phrase("replace older messages by a summary"),
        Phrase("It happens by itself near the model's limit. The session keeps the whole text.")),
    "help": Detail("/help undo", Phrase("explain /undo")),
    "keys": Detail("/keys vi", Phrase("use vi keys at the prompt")),
    "theme": Detail("/theme light", Phrase("use colours for a light background"),
        Phrase("auto follows the terminal's background.")),
    "thoughts": Detail("/thoughts shown", Phrase("show thoughts in full from now on"),
        Phrase("Ctrl-O shows or folds them too. Not every provider sends thoughts.")),
    "lang": Detail("/lang es", Phrase("use Spanish")),
    "bug": Detail("/bug report.json", Phrase("write the report to this file"),
        Phrase("Nothing is sent. Read the file before you share it.")),
    "quit": Detail("/quit", Phrase("leave; the session is saved"),
        Phrase("Ctrl-D on an empty line does the same.")),
}  # fmt: skip


def group_commands(
    commands: Sequence[Command],
) -> Iterator[tuple[Phrase, list[Command], Detail | None]]:
    """Yield each group with its commands and an example; others, as custom ones, come last."""
    by_name = {command.name: command for command in commands}
    for group in GROUPS:
        found = [by_name.pop(name) for name in group.names if name in by_name]
        yield group.title, found, DETAILS[group.shown]
    if by_name:
        yield OTHERS, list(by_name.values()), None
