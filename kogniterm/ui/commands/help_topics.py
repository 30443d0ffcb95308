"""The topics of `kogniterm help TOPIC` and `/help TOPIC`: one table, one screen a topic.

Rows of keys come from the table that binds the keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import NamedTuple

from kogniterm.installed import rows
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, language, translate
from kogniterm.ui.words.key_table import Where, table
from kogniterm.ui.words.turn_words import EXIT_STATUS

Row = tuple[str, Phrase]


class Topic(NamedTuple):
    """A subject: the commands for it, keys, a sample file, and what to know about it.

    `also` are other names it is found by, and `more` names where to read on.
    """

    name: str
    title: Phrase
    commands: tuple[Row, ...]
    notes: tuple[Phrase, ...]
    more: str
    keys: Where | None = None
    sample: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """The notes, and where to read on, in the language in use."""
        return [*map(translate, self.notes), _("More: {places}").format(places=self.more)]

    @property
    def blocks(self) -> list[list[tuple[str, str]]]:
        """The commands and the keys, each with what it does, in the language in use."""
        keys = table(self.keys, language()) if self.keys else ()
        blocks = (self.commands, keys)
        return [[(shown, translate(what)) for shown, what in block] for block in blocks if block]


TOPICS = (
    Topic("approvals", Phrase("Which commands run, and when you are asked"), (
        ("kogniterm", Phrase("Ask before every command (mode ask)")),
        ("kogniterm --allow-reads", Phrase("Run read-only commands without asking")),
        ("kogniterm -y", Phrase("Run commands in the sandbox without asking")),
        ("kogniterm --mode accept-edits", Phrase("Also edit workspace files without asking")),
        ("kogniterm --mode plan", Phrase("Read and plan; ask before the plan starts")),
        ("/mode, Shift-Tab", Phrase("Show or change the mode, also while a turn runs")),
        ("/permissions", Phrase("List and revoke permissions")),
    ), (
        Phrase("A dangerous command needs the whole word yes; kogniterm run -y refuses it. "
               "Where nobody can be asked, what needs approval is refused."),
    ), "kogniterm help rules, docs/approval.md", keys="question", also=("approval", "permissions")),
    Topic("sandbox", Phrase("What commands can reach when you are not asked"), (
        ("kogniterm doctor", Phrase("Show which sandbox works here, and why others do not")),
        ("kogniterm -y", Phrase("Run commands in the sandbox without asking")),
        ("kogniterm --no-sandbox", Phrase("Use no sandbox")),
        ("sandbox = \"namespaces\"", Phrase("In config.toml: also use it for what you approve")),
    ), (
        Phrase("In the sandbox, a command can write to the workspace and to temporary files only, "
               "and has no network."),
        Phrase("A command that you approve yourself runs outside the sandbox."),
        Phrase("If the sandbox stops a command, you are asked whether it may run outside."),
        Phrase("The sandbox hides known secrets such as ~/.ssh, but not the rest of the disk."),
        Phrase("If no sandbox works, -y is an error unless you add --no-sandbox."),
    ), "docs/approval.md", also=("isolation",)),
    Topic("models", Phrase("Choosing the model"), (
        ("kogniterm --model PROVIDER:NAME", Phrase("Use this model, for example openai:gpt-5.6")),
        ("/model PROVIDER:NAME", Phrase("Change the model, keep the conversation")),
        *((("kogniterm models pull", Phrase("Download the local model; it needs no API key")),)
          if rows("EMBEDDED_MODEL") else ()),
        ("kogniterm doctor --online", Phrase("Check that the providers can be reached")),
        ("model = \"PROVIDER:NAME\"", Phrase("In config.toml: use it always")),
    ), (
        Phrase("Providers: google_genai, openai, anthropic, ollama, local. They need "
               "GOOGLE_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY, OLLAMA_HOST, or the package "
               "xllamacpp. Without --model, the first that is configured is used."),
        Phrase("Set keys in the environment or in your own .env (kogniterm config path). The .env "
               "of a project is never read."),
        Phrase("The local model is small: it turns one request into one command."),
    ), "kogniterm models --help, docs/models.md", also=("model", "providers")),
    Topic("keys", Phrase("Keys at the prompt"), (
        ("/keys", Phrase("Show all keys; /keys vi and /keys emacs switch the mode")),
    ), (), "docs/keys.md", keys="prompt", also=("keyboard", "shortcuts")),
    Topic("memory", Phrase("What KogniTerm remembers, and how to change it"), (
        ("kogniterm memory list", Phrase("List what is remembered for this project")),
        ("kogniterm memory add \"TEXT\"", Phrase("Add a memory")),
        ("kogniterm memory edit m7 \"TEXT\"", Phrase("Change the text of memory m7")),
        ("kogniterm memory forget m7", Phrase("Delete it from every store, and verify it")),
        ("kogniterm --memory off", Phrase("Use no memory in this session")),
        ("/memory, /forget", Phrase("Do the same in a session")),
        ("/why", Phrase("Show the memories that the last answer used")),
        ("/incognito", Phrase("Use no memory for the rest of the session")),
    ), (
        Phrase("Memories come from what you say, such as \"remember that …\", and from how "
               "commands and plans ended. They apply to one project or everywhere."),
        Phrase("What you said wins over what was inferred. Passwords and keys are refused."),
    ), "kogniterm memory --help, docs/memory.md", also=("forget",)),
    Topic("sessions", Phrase("Saved conversations"), (
        ("kogniterm --continue", Phrase("Resume the most recent session of this folder")),
        ("kogniterm resume", Phrase("Choose a session from a list")),
        ("kogniterm sessions list", Phrase("List sessions; --here for this folder")),
        ("kogniterm sessions search WORD", Phrase("Search the text and commands of sessions")),
        ("kogniterm sessions fork ID", Phrase("Copy a session, to try another way")),
        ("kogniterm sessions delete ID", Phrase("Delete a session permanently")),
        ("kogniterm audit show ID", Phrase("Show what was approved and run")),
    ), (
        Phrase("Sessions are saved as they go. An ID can be shortened; last is the most recent."),
        Phrase("A resumed session has no permissions of earlier ones: it asks again."),
        Phrase("After a crash, you are told whether a command finished, never started, or has an "
               "unknown outcome. It is never repeated by itself."),
    ), "kogniterm sessions --help, docs/sessions.md", also=("history",)),
    Topic("scripts", Phrase("Use in scripts, cron and CI"), (
        ("kogniterm run \"TASK\"", Phrase("Do one task and exit")),
        ("COMMAND | kogniterm run \"TASK\"", Phrase("Pass data for the task")),
        ("kogniterm run --output json \"TASK\"", Phrase("Print one JSON object at the end")),
        ("kogniterm run -y \"TASK\"", Phrase("Run commands in the sandbox without asking")),
        ("kogniterm run --timeout 600 \"TASK\"", Phrase("Stop after 600 seconds")),
    ), (
        EXIT_STATUS,
        Phrase("Standard output has only the answer or JSON. Everything else goes to standard "
               "error."),
        Phrase("Without a terminal, what needs approval is refused, with status 3. Allow more "
               "with -y, --allow-reads or rules."),
    ), "kogniterm run --help, docs/json-output.md", also=("json", "exit", "status", "ci")),
    Topic("rules", Phrase("Always allow, ask about or deny certain commands"), (
        ("kogniterm policy check \"COMMAND\"", Phrase("Explain how a command is decided")),
        ("kogniterm policy test", Phrase("List earlier commands now decided differently")),
        ("kogniterm config path", Phrase("Show where your rules (policy.toml) are")),
    ), (
        Phrase("Deny beats ask, and ask beats allow. No rule allows a dangerous command."),
        Phrase("An allow must cover every program of a command line; arguments must match in "
               "full."),
        Phrase("The rules of a project (.kogniterm/policy.toml) apply only when you trust the "
               "folder, and cannot allow anything."),
    ), "kogniterm policy --help, docs/approval.md", sample=(
        "[[rule]]", "decision = \"allow\"", "program = \"npm\"", "arguments = \"test|run lint\"",
    ), also=("allowlist", "deny")),
    Topic("plans", Phrase("See and change a plan before anything runs"), (
        ("kogniterm run --plan-only \"TASK\"", Phrase("Print a plan, and do nothing")),
        ("kogniterm --mode plan", Phrase("Read and plan; ask before the plan starts")),
        ("kogniterm run --plan FILE", Phrase("Run the plan of this file")),
        ("kogniterm --plan always", Phrase("Make a plan for every task; never: for none")),
        ("kogniterm --plan-approval never", Phrase("Start plans without asking")),
        ("/plan", Phrase("Show the plan; /plan edit opens it in your editor")),
    ), (
        Phrase("For a larger task, the model writes a plan. Except in auto mode, it waits for your "
               "approval, and you are still asked before its commands."),
        Phrase("A step is done only with evidence: its check passed, or a command proves it."),
    ), "docs/plans.md", also=("plan",)),
    Topic("costs", Phrase("Limit money, tokens and time"), (
        ("kogniterm --max-cost 0.50", Phrase("Limit the cost of each task, in US dollars")),
        ("kogniterm --max-session-cost 5", Phrase("Limit the cost of the whole session")),
        ("kogniterm --max-tokens 200000", Phrase("Limit the tokens of each task")),
        ("kogniterm --timeout 900", Phrase("Limit the time of each task, in seconds")),
        ("/cost", Phrase("Show the tokens and the cost of this session")),
        ("/budget", Phrase("Show the limits and what is used")),
        ("/budget dollars 2", Phrase("Change a limit at once; off removes it")),
    ), (
        Phrase("At a limit, the prompt asks whether to continue. kogniterm run ends with exit "
               "status 4 and says what is left. To continue: kogniterm run --continue "
               "--max-cost 1 \"continue\""),
        Phrase("Costs are list prices. If the price of a model is unknown, limit its tokens."),
    ), "docs/plans.md", also=("limits", "budget", "money", "cost")),
    Topic("privacy", Phrase("What is kept, and what is sent"), (
        ("kogniterm config path", Phrase("Show the files and folders in use")),
        ("kogniterm --model local", Phrase("Send nothing to a model provider")),
        ("kogniterm --memory off", Phrase("Remember nothing")),
        ("/forget TEXT", Phrase("Delete a memory from every store, and verify it")),
        ("kogniterm sessions delete ID", Phrase("Delete a session permanently")),
    ), (
        Phrase("The provider of the model gets your input, the memories in use, and the files and "
               "outputs that the model reads. Your API key is sent only to its provider."),
        Phrase("A web search sends only its query, to the host that the question names."),
        Phrase("What looks like a secret is replaced before text is sent, and in sessions and "
               "memories. Not every secret is recognised. Outputs of commands and copies for undo "
               "are kept unchanged."),
        Phrase("Sessions and memories are kept on this machine, or in the database that you "
               "configure. Bug reports are files; nothing is sent."),
    ), "docs/security.md", also=("secrets", "data")),
)  # fmt: skip


def find(name: str) -> Topic | None:
    """Return the topic with this name, or another name of it."""
    return next((topic for topic in TOPICS if name in (topic.name, *topic.also)), None)


def screen(topic: Topic, columns: int) -> Iterator[str]:
    """Yield the lines of a topic: commands, keys, sample, notes."""
    yield translate(topic.title)
    for number, block in enumerate(topic.blocks):
        if number:
            yield ""
        yield from in_columns(block, columns)
    if topic.sample:
        yield from ("", *(f"  {line}" for line in topic.sample))
    yield ""
    for note in topic.sentences:
        yield from wrap(note, columns, break_on_hyphens=False, break_long_words=False)


def in_columns(rows: list[tuple[str, str]], columns: int) -> Iterator[str]:
    """Yield rows of a word and a sentence, with the sentences in a column of their own."""
    left = max(len(word) for word, _sentence in rows) + 4
    for word, sentence in rows:
        room = max(columns - left, 20)
        lines = wrap(sentence, room, break_on_hyphens=False, break_long_words=False)
        yield f"  {word:{left - 2}}{lines[0]}"
        yield from (" " * left + line for line in lines[1:])
