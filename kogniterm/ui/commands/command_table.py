"""The slash commands: one table that feeds dispatch, completion, /help and the documentation."""

from __future__ import annotations

from kogniterm.types import Phrase
from kogniterm.ui.commands import budget, general, memory, model, plan, policy, sessions, workspace
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.locale import LANGUAGES
from kogniterm.ui.repl import APPROVAL_MODES
from kogniterm.ui.screen_preferences import KEYS, THEMES

COMMANDS = (
    Command("help", Phrase("list the commands, or explain one"), general.show_help, "[NAME]",
            general.help_choices, aliases=("?",)),
    Command("model", Phrase("choose a model from a list, or name it"), model.model,
            "[NAME] [EFFORT] [--save]", model.model_choices),
    Command("mode", Phrase("show or change the approval mode"), general.mode,
            "[manual|auto]", APPROVAL_MODES),
    Command("plan", Phrase("show, change or approve the plan; set when plans are made"), plan.plan,
            "[show|edit|drop ID|move ID N|add TEXT|approve|auto|always|never]", plan.choices),
    Command("new", Phrase("start a new session"), general.new, while_running=False,
            aliases=("clear",)),
    Command("steer", Phrase("send a message to the running turn"), general.steer, "TEXT"),
    Command("output", Phrase("open the full output of a command in the pager"),
            general.output, "[N]", general.output_choices),
    Command("theme", Phrase("show or change the colour theme"), general.theme,
            "[auto|dark|light|plain]", THEMES, needs_session=False),
    Command("keys", Phrase("show the keys, or switch between emacs and vi"), general.show_keys,
            "[emacs|vi]", KEYS, needs_session=False),
    Command("lang", Phrase("show or change the language"), general.lang, "[en|es]", LANGUAGES,
            needs_session=False),
    Command("jobs", Phrase("list background jobs; stop, keep or read one"),
            general.jobs, "[stop|keep|output ID]", general.job_choices),
    Command("diff", Phrase("show what this session changed in the workspace"),
            workspace.show_changes),
    Command("undo", Phrase("restore the files changed by the last action"), workspace.undo,
            while_running=False),
    Command("memory",
            Phrase("list memories, or show, search, add and change them"),
            memory.show_memory, f"[{'|'.join(memory.ACTIONS)}] [ID|TEXT]", tuple(memory.ACTIONS)),
    Command("forget", Phrase("delete something permanently from all stored data"),
            memory.forget, "ID|TEXT|--all", memory.forget_choices, while_running=False),
    Command("why", Phrase("show which memories the last answer used"), memory.why),
    Command("incognito", Phrase("turn memory off for the rest of the session"),
            memory.incognito),
    Command("permissions", Phrase("list or revoke permissions"), policy.permissions,
            "[revoke ID|all]", policy.permission_choices),
    Command("trust", Phrase("show what this folder provides; trust it or revoke trust"),
            policy.trust, "[show|revoke]", policy.TRUST_ACTIONS, while_running=False),
    Command("budget", Phrase("show or set the limits of a turn and of the session"), budget.budget,
            "[[session] NAME VALUE|off]", budget.choices),
    Command("cost", Phrase("show the tokens used by this session, and their price"), budget.cost),
    Command("sessions", Phrase("list the saved sessions"), sessions.show_sessions),
    Command("resume", Phrase("resume another session"), sessions.resume, "[ID]",
            sessions.resume_choices, while_running=False),
    Command("fork", Phrase("copy this session, up to a turn, and continue in the copy"),
            sessions.fork, "[TURN]", while_running=False),
    Command("export", Phrase("export this session to a file, for reading or for import"),
            sessions.export, "[md|jsonl] FILE", ("md ", "jsonl ")),
    Command("rename", Phrase("rename this session"), sessions.rename, "TITLE"),
    Command("compact", Phrase("summarise the history to free space in the context window"),
            sessions.compact, while_running=False),
    Command("bug", Phrase("write a bug report to a file, with known secrets redacted"),
            sessions.bug, "[FILE]"),
    Command("init", Phrase("write or improve the project's AGENTS.md"),
            workspace.init, "[TEXT]", while_running=False),
    Command("quit", Phrase("quit KogniTerm"), general.leave, aliases=("exit",),
            needs_session=False),
)  # fmt: skip
