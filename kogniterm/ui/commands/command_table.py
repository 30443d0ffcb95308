"""The slash commands: one table that feeds dispatch, completion, /help and the documentation."""

from __future__ import annotations

from kogniterm.types import Phrase
from kogniterm.ui.commands import budget, general, memory, plan, policy, sessions, workspace
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.locale import LANGUAGES
from kogniterm.ui.repl import APPROVAL_MODES
from kogniterm.ui.screen_preferences import KEYS, THEMES

COMMANDS = (
    Command("help", Phrase("list the commands, or explain one"), general.show_help, "[NAME]",
            general.help_choices, aliases=("?",)),
    Command("model", Phrase("show or change the model"), general.model, "[NAME]",
            general.model_choices),
    Command("mode", Phrase("ask before commands (manual) or not (auto)"), general.mode,
            "[manual|auto]", APPROVAL_MODES),
    Command("plan", Phrase("show, change or approve the plan; say when plans are made"), plan.plan,
            "[show|edit|drop ID|move ID N|add TEXT|approve|auto|always|never]", plan.choices),
    Command("new", Phrase("start a new session"), general.new, while_running=False,
            aliases=("clear",)),
    Command("steer", Phrase("say something to the running turn"), general.steer, "TEXT"),
    Command("output", Phrase("open a command's whole output in the pager"), general.output, "[N]",
            general.output_choices),
    Command("theme", Phrase("show or change the colours"), general.theme,
            "[auto|dark|light|plain]", THEMES, needs_session=False),
    Command("keys", Phrase("show the keys, or switch between emacs and vi"), general.show_keys,
            "[emacs|vi]", KEYS, needs_session=False),
    Command("lang", Phrase("show or change the language"), general.lang, "[en|es]", LANGUAGES,
            needs_session=False),
    Command("jobs", Phrase("list what commands left running; stop it, keep it, read it"),
            general.jobs, "[stop|keep|output ID]", general.job_choices),
    Command("diff", Phrase("show what this session changed in the workspace"),
            workspace.show_changes),
    Command("undo", Phrase("bring back what the last action changed"), workspace.undo,
            while_running=False),
    Command("memory",
            Phrase("list, search, show, add, edit, pin, confirm or undo what is remembered"),
            memory.show_memory, "[ACTION] [WORDS]", tuple(memory.ACTIONS)),
    Command("forget", Phrase("remove something for good from everything that is kept"),
            memory.forget, "ID|WORDS|--all", memory.forget_choices, while_running=False),
    Command("why", Phrase("show what of memory went into the last answer"), memory.why),
    Command("incognito", Phrase("neither recall nor learn for the rest of the session"),
            memory.incognito),
    Command("permissions", Phrase("list what may run unasked, or take it back"), policy.permissions,
            "[revoke ID|all]", policy.permission_choices),
    Command("trust", Phrase("show what this folder brings, and trust it or not"), policy.trust,
            "[show|revoke]", policy.TRUST_ACTIONS, while_running=False),
    Command("budget", Phrase("show or set what a turn and the session may use up"), budget.budget,
            "[[session] NAME VALUE|off]", budget.choices),
    Command("cost", Phrase("show the tokens this session has used, and their price"), budget.cost),
    Command("sessions", Phrase("list the saved sessions"), sessions.show_sessions),
    Command("resume", Phrase("go on with another session"), sessions.resume, "[ID]",
            sessions.resume_choices, while_running=False),
    Command("fork", Phrase("go on in a copy of this session, up to a turn"), sessions.fork,
            "[TURN]", while_running=False),
    Command("export", Phrase("write this session to a file, for reading or for import"),
            sessions.export, "[md|jsonl] FILE", ("md ", "jsonl ")),
    Command("rename", Phrase("give this session another title"), sessions.rename, "TITLE"),
    Command("compact", Phrase("make room: replace the history by a summary"), sessions.compact,
            while_running=False),
    Command("bug", Phrase("write a bug report without secrets into one file"), sessions.bug,
            "[FILE]"),
    Command("init", Phrase("write KOGNITERM.md from a scan of the project, after showing it"),
            workspace.init, while_running=False),
    Command("quit", Phrase("leave"), general.leave, aliases=("exit",), needs_session=False),
)  # fmt: skip
