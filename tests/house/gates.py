"""Architecture gates: each takes a source tree and returns its violations, one sentence each.

The rules stand in docs/architecture.md. There is no list of exemptions: a gate that is in the
way is changed here, for everybody, with the reason.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.house.source import PACKAGE, Module, Tree

MAX_FUNCTION = 80
MAX_COMPLEXITY = 15
MAX_PUBLIC_METHODS = 20
MIN_LINES = 60
"""A shorter module with a single importer is merged into it."""
SEAMS = ("kogniterm.__main__",)
"""Short modules that stay separate on purpose."""
SAME_NAME = ("kogniterm.cli.verbs", "kogniterm.ui.commands")
"""Modules named after the word that a user types, which may repeat."""

DOMAINS = ("models", "agent", "tools", "approval", "execution", "memory", "sessions")
BASE = ("settings", "prompts", "paths", "logs", "host", "installed")
GROUND = ("storage", "text")
LAYERS = (
    ("addons",),
    ("__main__",),
    ("cli",),
    ("ui",),
    ("runtime",),
    DOMAINS,
    BASE,
    GROUND,
    ("protocols",),
    ("types", "errors"),
    ("",),
)
"""From left to right; imports point right. The last is `kogniterm/__init__` itself."""

FOLDERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "addons": (("acp", "fleet", "hosts", "import_agents", "local_model", "mcp_serve", "recipes",
                "telemetry", "trajectory", "vectors", "warm"), ("",)),
    "ui": (("app",), ("prompt", "commands"), ("",), ("questions", "terminal"), ("screen",),
           ("words",), ("locale",)),
    "runtime": (
        ("python_api", "replay"), ("build",), ("assembly",), ("input_steps",), ("operations",),
        ("inputs", "session_approver", "unattended"), ("session",), ("turn",),
        ("session_plans", "side_by_side"),
        ("context", "gate", "runner"), ("crash_recovery",), ("extensions",), ("questions",),
        ("services",), ("turn_end",), ("turn_journal", "turn_ports", "plan_edits"),
        ("fixed_questions",),
        ("budgets", "opening", "trust", "turn_log", "user_secrets",
         "named_files"), ("",),
    ),
    "cli": (("verbs",), ("",)),
    "memory": (("contexts", "memory_transfer"), ("extract",), ("recall",), ("user_memory",),
               ("project",), ("",)),
    "execution": (("",), ("shell",), ("process",), ("command_output", "sandbox"),
                  ("screen",)),
    "models": (("model_lists", "model_registry", "reply_cache"),
               ("providers", "replay_model", "scripted_model", "text_tool_calls"), ("",)),
}  # fmt: skip
"""The folders of a package, and modules beside them, from top to bottom; "" are all other modules
beside them. Imports point down, and folders in one row do not know each other."""

EXTENSION_PORT = "kogniterm.runtime.extensions.extension_port"
KNOW_THE_PORT = tuple(
    f"kogniterm.runtime.{name}"
    for name in (
        "turn",
        "gate",
        "runner",
        "side_by_side",
        "input_steps",
        "session_plans",
        "context",
    )
)
"""The modules that meet hooks, servers and add-ons only through their port."""
AGENT_MAY_NOT_REACH = (
    "kogniterm.execution",
    "kogniterm.approval",
    "kogniterm.ui",
    "subprocess",
    "ptyprocess",
    "sqlite3",
)
PURE = (
    "kogniterm.approval",
    "kogniterm.text",
    "kogniterm.types",
    "kogniterm.errors",
)
IMPURE = (
    "os",
    "subprocess",
    "shutil",
    "socket",
    "sqlite3",
    "tempfile",
    "kogniterm.settings",
    "pydantic",
    "pydantic_settings",
    "langchain",
    "langchain_core",
    "langgraph",
    "rich",
    "prompt_toolkit",
)
PROVIDERS = (
    "google",
    "langchain_google_genai",
    "langchain_openai",
    "langchain_anthropic",
    "langchain_ollama",
    "openai",
    "anthropic",
    "ollama",
    "xllamacpp",
)
OWNERS: dict[str, tuple[str, ...]] = {
    "rich": ("kogniterm.ui", "kogniterm.addons"),
    "prompt_toolkit": ("kogniterm.ui",),
    "langgraph": ("kogniterm.agent",),
    "ptyprocess": ("kogniterm.execution.process",),
    "sqlite3": ("kogniterm.storage",),
    "psycopg": ("kogniterm.storage",),
    "pydantic_settings": ("kogniterm.settings",),
    "yaml": ("kogniterm.settings.user_files", "kogniterm.addons.hosts.playbooks"),
    "dotenv": ("kogniterm.settings",),
    "snowballstemmer": ("kogniterm.text.language",),
    "selectolax": ("kogniterm.tools.page_reader",),
    "mcp": ("kogniterm.tools.mcp", "kogniterm.addons.mcp_serve"),
    "mcp_types": ("kogniterm.tools.mcp", "kogniterm.addons.mcp_serve"),
    "httpx2": ("kogniterm.models", "kogniterm.tools.mcp"),
    "tree_sitter": ("kogniterm.approval",),
    "tree_sitter_bash": ("kogniterm.approval",),
    "argparse": (
        "kogniterm.cli.main",
        "kogniterm.cli.options",
        "kogniterm.cli.main",
    ),
    "acp": ("kogniterm.addons.acp",),
    "procrastinate": ("kogniterm.addons.fleet",),
    "ansible_runner": ("kogniterm.addons.hosts.controller",),
    "ansible": (),
    "opentelemetry": ("kogniterm.addons.telemetry",),
    **dict.fromkeys(PROVIDERS, ("kogniterm.models",)),
    "xllamacpp": ("kogniterm.addons.local_model",),
}
HEAVY = (
    *PROVIDERS,
    "langgraph",
    "langchain_core",
    "rich",
    "prompt_toolkit",
    "pydantic",
    "pydantic_settings",
    "psycopg",
    "httpx",
    "yaml",
    "numpy",
    "snowballstemmer",
    "selectolax",
    "mcp",
    "mcp_types",
    "httpx2",
    "acp",
    "procrastinate",
    "opentelemetry",
    "ansible_runner",
)
LIGHT_ROOTS = (
    "kogniterm.__main__",
    "kogniterm.cli.main",
    "kogniterm.settings",
    "kogniterm.logs",
    "kogniterm.models",
    "kogniterm.approval",
    "kogniterm.execution",
)
"""Modules that start, or are embedded, without loading a library they may never use."""

READS_ENVIRONMENT = ("kogniterm.settings", "kogniterm.addons.warm")
"""A warm start hands the whole environment over before settings could be loaded."""
CHANGES_ENVIRONMENT = ("kogniterm.addons.warm", "kogniterm.addons.vectors.minilm")
"""A warm session takes over its client's environment; BLAS reads its own from there alone."""
READS_PROCESSES = ("kogniterm.host", "kogniterm.execution.sandbox", "kogniterm.addons.warm")
"""A sandbox is built of these files, and a warm start compares processes before it imports."""
WALKS_FOLDERS = ("kogniterm.host.walk", "kogniterm.addons.warm")
"""A warm start looks at the package's own files."""
READS_RECORDS = (
    "kogniterm.sessions.history",
    "kogniterm.sessions.fold",  # the state to go on from
    "kogniterm.sessions.recording",  # copies records, and compares those of two runs
    "kogniterm.sessions.session_search",
    "kogniterm.sessions.chain_audit",
    "kogniterm.sessions.journal",
    "kogniterm.sessions.store",
    "kogniterm.runtime.turn_journal",
)
"""The journal of a turn is the one writer, which redacts each kind of record."""
STARTS_PROGRAMS = (
    "kogniterm.host.helper_programs",
    "kogniterm.execution.process",  # commands, their supervisor, and confined programs
    "kogniterm.execution.sandbox.namespaces",  # forks into the namespaces that it made
    "kogniterm.addons.warm",  # forks sessions from a server
    "kogniterm.host.terminal_owner",  # has the user's terminal, as the next one has
    "kogniterm.ui.terminal.user_terminal",
    "kogniterm.addons.local_model.runtime",  # the model's process is asked again and again
    "kogniterm.addons.local_model.sources",  # pip downloads for minutes, with its progress shown
    "kogniterm.addons.fleet.task_run",  # a session of its own, which can outlive its worker
)
"""The home of starting programs, and what needs more of a program than its end."""
STARTS = re.compile(
    r"subprocess\.(?:run|Popen|call|check_\w+|getoutput)|asyncio\.create_subprocess_\w+"
    r"|os\.(?:fork\w*|exec\w+|posix_spawn\w*|spawn\w+|system|popen)|pty\.(?:fork|spawn)"
)
READS_FILES_OF_USERS = ("kogniterm.settings.user_files", "kogniterm.storage.folders")
READS_FILE = re.compile(
    r"json\.loads\(.*\bread_(?:text|bytes|file|regular)\((?!.*surrogatepass)"
    r"|tomllib\.loads\((?!Path\(__file__\)|_[A-Z]+\.read_text)"
)
"""Files other than the package's own tables, and names that are no UTF-8 text."""
BUILDS_TOOL_MESSAGES = ("kogniterm.agent.messages",)
WRITES_TO_STREAMS = (
    "kogniterm.addons",
    "kogniterm.cli",
    "kogniterm.ui",
    "kogniterm.__main__",
    "kogniterm.logs",
)
"""The screens, the log, and add-ons."""
SPEAKS_TO_MODELS = tuple(
    f"kogniterm.{part}"
    for part in ("agent", "execution", "memory", "models", "runtime", "sessions", "tools")
)
"""Packages whose code could hold texts for the model, which belong in `prompts/`."""
INSTRUCTION = re.compile(
    r"(?:^|[.:;!?\]]\s+|\(\s*|\n)(?:Answer|Ask|Call|Change|Cite|Close|Complete|Continue|Decide|Delete|"
    r"Do|Find|Finish|Follow|Give|Hand|Ignore|Inspect|List|Look|Make|Manage|Never|Propose|Read|"
    r"Remember|Reply|Return|Run|Search|Show|Start|Take|Tell|Treat|Try|Use|Verify|Work|Write|You)\b"
)
"""A sentence that begins as an order does; from four words on it is taken for an instruction."""
MESSAGE_TO_USER = re.compile(
    r"(?:Error|Phrase|Action|Argument|refuse|error|complaint|warn|debug|info)\Z"
)
"""Names of calls whose texts are for users, or are errors about one call."""
METAPHORS = frozenset(
    [
        "bury",
        "buried",
        "cabinet",
        "desk",
        "farewell",
        "lend",
        "lending",
        "lent",
        "rooms",
        "tape",
        "wish",
        "wishes",
    ]
)
"""Words of inner pictures, for which the glossary has those of the field."""
BROAD_EXCEPT = (
    "kogniterm.cli.main",
    "kogniterm.ui.repl",
    "kogniterm.agent.tool_dispatch",
    "kogniterm.tools.plugins",
    "kogniterm.storage.stores",
    "kogniterm.runtime.extensions.extension_port",
    "kogniterm.addons.telemetry.telemetry_session",
)
"""Entry points, the borders to tools, stores and extensions, and the thread of telemetry."""


_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def layers(tree: Tree) -> list[str]:
    """Return imports that point left, or from one domain package to another (rules 1 and 2)."""
    found = []
    for module in tree:
        for item in module.imports:
            home = tree.home(item.target)
            if home is None:
                continue
            own, other = _part(module.name), _part(home)
            if own == other:
                continue
            left, right = _layer(own), _layer(other)
            if right < left or (left == right and own in DOMAINS):
                found.append(f"{module.at(item.line)}: {own or PACKAGE} may not import {other}")
    return found


def folder_layers(tree: Tree) -> list[str]:
    """Return imports between the folders of one package that do not point down (rule 2)."""
    found = []
    for module in tree:
        package = _part(module.name)
        rows = FOLDERS.get(package, ())
        known = {name for row in rows for name in row}
        for item in module.imports if rows else ():
            home = tree.home(item.target)
            if home is None or _part(home) != package:
                continue
            names = (one.split(".")[2:3] or ["package"] for one in (module.name, home))
            own, other = (name if name in {*known, "package"} else "" for (name,) in names)
            if own != other and _row(rows, own) >= _row(rows, other):
                found.append(f"{module.at(item.line)}: {own or package} may not import {other}")
    return found


def unknown_parts(tree: Tree) -> list[str]:
    """Return modules outside of the domain packages and layers that the design knows."""
    known = {part for layer in LAYERS for part in layer}
    return [
        f"{module.path}: {_part(module.name)} is in no layer"
        for module in tree
        if _part(module.name) not in known
    ]


def agent_cannot_act(tree: Tree) -> list[str]:
    """Return what the agent reaches that can run, approve, show or store (rule 3)."""
    return _reaches(tree, ("kogniterm.agent",), AGENT_MAY_NOT_REACH)


def pure_parts(tree: Tree) -> list[str]:
    """Return imports of impure modules in approval, text, types and errors (rule 4)."""
    return _reaches(tree, PURE, IMPURE)


def package_owners(tree: Tree) -> list[str]:
    """Return imports of libraries outside of their owner (rule 5)."""
    return [
        f"{module.at(item.line)}: {item.root} belongs to {', '.join(OWNERS[item.root])}"
        for module in tree
        for item in module.imports
        if item.root in OWNERS and not module.within(*OWNERS[item.root])
    ]


def extension_port(tree: Tree) -> list[str]:
    """Return imports of a single extension where only their port is known (rule 6)."""
    return [
        f"{module.at(item.line)}: only {EXTENSION_PORT} knows extensions here"
        for module in tree
        if module.name in KNOW_THE_PORT
        for item in module.imports
        if f"{item.target}.".startswith("kogniterm.runtime.extensions.")
        and not f"{item.target}.".startswith(f"{EXTENSION_PORT}.")
    ]


def turn_drivers(tree: Tree) -> list[str]:
    """Return turns that do not begin behind the steps of their session, as extensions need."""
    return [
        f"{module.at(node.lineno)}: only LiveSession.run makes the driver of a turn"
        for module in tree
        if not module.within("kogniterm.runtime.session", "kogniterm.runtime.replay")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("TurnIO")
    ]


def light_roots(tree: Tree) -> list[str]:
    """Return heavy libraries that the first modules of a start import (rule 7)."""
    found = []
    for root in LIGHT_ROOTS:
        if root not in tree.modules:
            continue
        reached = tree.reach([root], lazy=False)
        found += [
            f"{root} imports {name} through {importer}"
            for name, importer in reached.items()
            if name.partition(".")[0] in HEAVY
        ]
    return found


def no_cycles(tree: Tree) -> list[str]:
    """Return import cycles; lazy imports and those for types count."""
    return [f"circular import: {' -> '.join(cycle)}" for cycle in _cycles(_graph(tree))]


def full_classes(tree: Tree) -> list[str]:
    """Return classes with more than twenty public methods (rule 8)."""
    found = []
    for module in tree:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = [part for part in node.body if isinstance(part, _FUNCTION)]
            # One method an event, `on_…`, is how an `EventVisitor` is read.
            count = sum(not method.name.startswith(("_", "on_")) for method in methods)
            if count > MAX_PUBLIC_METHODS:
                found.append(
                    f"{module.at(node.lineno)}: {node.name} has {count} public methods, "
                    f"{MAX_PUBLIC_METHODS} are the most"
                )
    return found


def small_modules(tree: Tree) -> list[str]:
    """Return small modules with a single importer, into which they should be merged (rule 8)."""
    graph = _graph(tree)
    importers = Counter(target for targets in graph.values() for target in targets)
    return [
        f"{module.path}: below {MIN_LINES} lines and imported by one module; merge it"
        for module in tree
        if module.path.stem != "__init__"
        and module.name not in SEAMS
        and importers[module.name] == 1
        and module.text.count("\n") < MIN_LINES
    ]


def repeated_names(tree: Tree) -> list[str]:
    """Return module names that occur twice, except for the words that a user types."""
    homes: dict[str, list[Module]] = {}
    for module in tree:
        if not module.path.stem.startswith("__"):
            homes.setdefault(module.path.stem, []).append(module)
    return [
        f"{modules[0].path}: there is {modules[1].path} too; name one of them differently"
        for modules in homes.values()
        if len(modules) > 1 and not all(module.within(*SAME_NAME) for module in modules)
    ]


def metaphors(tree: Tree) -> list[str]:
    """Return lines with a word, or a part of a name, that describes code by a picture."""
    return [
        f"{module.at(number)}: write the word of the field for {', '.join(found)!r}"
        for module in tree
        for number, line in enumerate(module.text.splitlines(), 1)
        if (found := METAPHORS.intersection(map(str.lower, re.findall("[A-Z]?[a-z]+", line))))
    ]


def bare_participles(tree: Tree) -> list[str]:
    """Return private functions named by a participle alone: a verb and its object say more."""
    return [
        f"{module.at(node.lineno)}: name {node.name} by a verb and its object"
        for module in tree
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and re.fullmatch("_[a-z]{2,}[^e]ed", node.name)
        and not node.decorator_list
    ]


def repeated_classes(tree: Tree) -> list[str]:
    """Return classes whose name another class has, so that a search finds both."""
    homes: dict[str, list[str]] = {}
    for module in tree:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module.at(node.lineno))
    return [
        f"{places[0]}: {places[1]} has a class {name} too; name one of them differently"
        for name, places in homes.items()
        if len(places) > 1
    ]


def unused_names(tree: Tree) -> list[str]:
    """Return public names that the product does not use and docs/library.md does not list.

    The core uses its names itself: without add-ons it has none to spare, except for those that
    docs/architecture.md offers to them.
    """
    documented = _library_words(tree)
    in_core = set[str]().union(*(_words_used(m.tree) for m in tree if not _is_added(m)))
    anywhere = set[str]().union(*(_words_used(module.tree) for module in tree))
    offered = _offered_words(tree)
    found = [
        f"{module.at(node.lineno)}: nothing uses {node.name}"
        if node.name not in anywhere
        else f"{module.at(node.lineno)}: only add-ons use {node.name}"
        for module in tree
        for node in module.tree.body
        if isinstance(node, (*_FUNCTION, ast.ClassDef))
        and not node.name.startswith("_")
        and node.name not in documented
        and node.name not in (anywhere if _is_added(module) else in_core | offered)
    ]
    needless = sorted(offered & in_core)
    return found + [f"docs/architecture.md: the core uses {name} itself" for name in needless]


def environment_owner(tree: Tree) -> list[str]:
    """Return reads of the environment outside of settings (rule 6)."""
    names = {"environ", "environb", "getenv", "getenvb"}
    found = []
    for module in _outside(tree, READS_ENVIRONMENT):
        for node in ast.walk(module.tree):
            attribute = isinstance(node, ast.Attribute) and node.attr in names
            imported = isinstance(node, ast.ImportFrom) and node.module == "os"
            if (attribute and _is_name(node, "value", "os")) or (
                imported and names & {alias.name for alias in node.names}
            ):
                found.append(f"{module.at(node.lineno)}: the environment is read in settings")
    return found


def environment_changes(tree: Tree) -> list[str]:
    """Return changes of the environment, which other threads may read meanwhile (rule 6)."""
    changing = {"update", "pop", "setdefault", "clear"}
    found = []
    for module in _outside(tree, CHANGES_ENVIRONMENT):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                changes = ast.unparse(node.value) == "os.environ"
            elif isinstance(node, ast.Attribute):
                environ = ast.unparse(node.value) == "os.environ"
                changes = node.attr == "putenv" or (environ and node.attr in changing)
            else:
                continue
            if changes:
                found.append(f"{module.at(node.lineno)}: the environment stays as it is")
    return found


def process_owner(tree: Tree) -> list[str]:
    """Return reads of files of /proc/PID outside of their home (rule 6)."""
    return [
        f"{module.at(node.lineno)}: processes are read in host/processes"
        for module in _outside(tree, READS_PROCESSES)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.JoinedStr) and ast.unparse(node.values[0]) == "'/proc/'"
    ]


def events_told_apart(tree: Tree) -> list[str]:
    """Return tests for the class of an event, and methods for events with another's name.

    `types.events.EventVisitor` tells events apart.
    """
    event = re.compile(r"\b(?:events|ev)\.([A-Z]\w+)")
    found = []
    for module in tree:
        for node in ast.walk(module.tree):
            told = node.cls if isinstance(node, ast.MatchClass) else None
            if isinstance(node, ast.Call) and _is_name(node, "func", "isinstance"):
                told = node.args[1]
            if told is not None and event.search(ast.unparse(told)):
                found.append(f"{module.at(told.lineno)}: an EventVisitor tells events apart")
            if isinstance(node, ast.FunctionDef) and node.name.startswith("on_"):
                (kind,) = event.findall(ast.unparse(node.args)) or [""]
                if kind and node.name != "on_" + re.sub(r"\B(?=[A-Z])", "_", kind).lower():
                    found.append(f"{module.at(node.lineno)}: {node.name} takes a {kind}")
    return found


def walk_owner(tree: Tree) -> list[str]:
    """Return walks over folders outside of their home, where they are bounded (rule 6)."""
    return [
        f"{module.at(node.lineno)}: folders are walked in host/walk"
        for module in _outside(tree, WALKS_FOLDERS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and (ast.unparse(node) in {"os.walk", "os.fwalk"} or node.attr == "rglob")
    ]


def user_file_owner(tree: Tree) -> list[str]:
    """Return reads of users' files outside of their home, where each fault has its sentence."""
    return [
        f"{module.at(node.lineno)}: files of users are read by settings/user_files"
        for module in _outside(tree, READS_FILES_OF_USERS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and READS_FILE.match(ast.unparse(node))
    ]


def record_readers(tree: Tree) -> list[str]:
    """Return tests for kinds of records outside of the journal's package and its writer."""
    found: list[str] = []
    for module in _outside(tree, READS_RECORDS):
        kinds = {
            alias.asname or alias.name
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ImportFrom) and node.module == "kogniterm.sessions.records"
            for alias in node.names
        }
        for node in ast.walk(module.tree):
            is_test = isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
            if is_test or isinstance(node, ast.MatchClass):
                named = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                if named & kinds:
                    found.append(f"{module.at(node.lineno)}: records are read by SessionHistory")
    return found


def program_owner(tree: Tree) -> list[str]:
    """Return starts of programs outside of their home, and of the few that it cannot serve."""
    return [
        f"{module.at(node.lineno)}: programs are started by host/helper_programs"
        for module in _outside(tree, STARTS_PROGRAMS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and STARTS.fullmatch(ast.unparse(node.func))
    ]


def tool_message_owner(tree: Tree) -> list[str]:
    """Return places other than agent/messages that build a ToolMessage (rule 6)."""
    return [
        f"{module.at(node.lineno)}: a ToolMessage is built in agent/messages"
        for module in _outside(tree, BUILDS_TOOL_MESSAGES)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("ToolMessage")
    ]


def instruction_texts(tree: Tree) -> list[str]:
    """Return instructions to a model that stand in code instead of in `prompts/`.

    Errors about one call, and messages to the user, are none.
    """
    return [
        f"{module.at(node.lineno)}: an instruction to the model belongs in prompts/: {text[:40]!r}"
        for module in tree
        if module.within(*SPEAKS_TO_MODELS)
        for node, text in _plain_texts(module.tree)
        if INSTRUCTION.search(text) and len(re.findall(r"[a-zA-Z']+", text)) >= 4
    ]


def _plain_texts(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Yield the texts of a module but for docstrings and messages to users, f-strings as one."""
    left_out: set[int] = set()
    for node in ast.walk(tree):
        inner: Iterable[ast.AST] = ()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner = (node.value,)
        elif isinstance(node, ast.Call) and MESSAGE_TO_USER.search(ast.unparse(node.func)):
            inner = ast.walk(node)
        elif isinstance(node, ast.JoinedStr):
            inner = node.values
        left_out |= {id(one) for one in inner}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (one.value for one in node.values if isinstance(one, ast.Constant))
            yield node, "".join(map(str, parts))


def stream_owners(tree: Tree) -> list[str]:
    """Return calls of print, and uses of standard streams outside of the screens (rule 6)."""
    found = []
    for module in tree:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and _is_name(node, "func", "print"):
                found.append(f"{module.at(node.lineno)}: print")
            stream = isinstance(node, ast.Attribute) and node.attr in {"stdout", "stderr"}
            if stream and _is_name(node, "value", "sys") and not module.within(*WRITES_TO_STREAMS):
                found.append(f"{module.at(node.lineno)}: sys.{node.attr} belongs to the screens")
    return found


def broad_except(tree: Tree) -> list[str]:
    """Return handlers of all exceptions that do not raise again, except at the borders (rule 6)."""
    found = []
    for module in _outside(tree, BROAD_EXCEPT):
        for node in ast.walk(module.tree):
            broad = isinstance(node, ast.ExceptHandler) and _is_broad(node.type)
            suppressed = (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).endswith("suppress")
                and any(_is_broad(argument) for argument in node.args)
            )
            if suppressed or (broad and not _raises_again(node)):
                found.append(f"{module.at(node.lineno)}: broad except outside the borders")
    return found


def possessive_groups(tree: Tree) -> list[str]:
    """Return possessive quantifiers of groups: Python before 3.11.5 matches them wrongly.

    CPython issue 106052; Debian 12 has Python 3.11.2.
    """
    behind_group = re.compile(r"(?<![\\(])\)(?:[*+?]|\{\d*,?\d*\})\+")
    return [
        f"{module.at(node.lineno)}: possessive quantifier of a group"
        for module in tree
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str | bytes)
        and behind_group.search(
            node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        )
    ]


def reasons_for_exceptions(tree: Tree) -> list[str]:
    """Return silenced checks without a reason on their line."""
    silencer = re.compile(
        r"#\s*(noqa\b(:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)?|type:\s*ignore(\[[^]]*\])?)"
    )
    found = []
    for module in tree:
        for number, line in enumerate(module.text.splitlines(), start=1):
            match = silencer.search(line)
            if match and not re.search(r"\w", line[match.end() :]):
                found.append(f"{module.at(number)}: a silenced check without a reason")
    return found


def sizes(tree: Tree) -> list[str]:
    """Return functions that are too long or too complex (rule 8)."""
    found = []
    for module in tree:
        for node in _functions(module.tree):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION:
                found.append(
                    f"{module.at(node.lineno)}: {node.name} has {length} lines, "
                    f"{MAX_FUNCTION} is the most"
                )
            count = complexity(node)
            if count > MAX_COMPLEXITY:
                found.append(
                    f"{module.at(node.lineno)}: {node.name} has complexity {count}, "
                    f"{MAX_COMPLEXITY} is the most"
                )
    return found


NOT_FIRST = (
    "What", "Whatever", "Whether", "Which", "Who", "Whoever", "Whose", "How", "However", "Why",
    "Where", "Wherever", "When", "Whenever", "That", "Of", "Nobody", "Nothing",
)  # fmt: skip
"""Words that begin no docstring: an imperative or a noun phrase is understood at once."""


def openings(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield docstrings, also those below an assignment, whose first word is in `NOT_FIRST`."""
    for node in ast.walk(tree):
        text = _text(node).lstrip()
        if re.split(r"[\s,.:;]", text, maxsplit=1)[0] in NOT_FIRST:
            yield f"{path}:{node.lineno}: begin with a noun or a verb: {text[:40]!r}"


def docstrings(tree: Tree) -> list[str]:
    """Return modules without a docstring, and docstrings with a bad opening.

    A function whose name says it all needs none: see rule 8 of docs/architecture.md.
    """
    found = []
    for module in tree:
        found += openings(module.path, module.tree)
        if ast.get_docstring(module.tree) is None:
            found.append(f"{module.path}: no module docstring")
    return found


def complexity(function: ast.AST) -> int:
    """Return McCabe's number: one, and one for every branch."""
    branches = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler)
    cases = (ast.match_case,)
    return 1 + sum(isinstance(node, branches + cases) for node in ast.walk(function))


ALL = (
    layers,
    folder_layers,
    unknown_parts,
    agent_cannot_act,
    pure_parts,
    package_owners,
    extension_port,
    turn_drivers,
    light_roots,
    no_cycles,
    full_classes,
    small_modules,
    repeated_names,
    metaphors,
    bare_participles,
    repeated_classes,
    unused_names,
    environment_owner,
    environment_changes,
    process_owner,
    events_told_apart,
    walk_owner,
    record_readers,
    user_file_owner,
    program_owner,
    tool_message_owner,
    instruction_texts,
    stream_owners,
    broad_except,
    possessive_groups,
    reasons_for_exceptions,
    sizes,
    docstrings,
)


def _part(name: str) -> str:
    """Return the domain package or layer of `name`: the word after the package."""
    return name.partition(".")[2].partition(".")[0]


def _layer(part: str) -> int:
    return next((i for i, layer in enumerate(LAYERS) if part in layer), len(LAYERS))


def _row(rows: tuple[tuple[str, ...], ...], name: str) -> int:
    if name == "package":  # its face, above all that is in it
        return -1
    return next(number for number, row in enumerate(rows) if name in row)


def _outside(tree: Tree, owners: tuple[str, ...]) -> Iterator[Module]:
    return (module for module in tree if not module.within(*owners))


def _reaches(tree: Tree, start: tuple[str, ...], forbidden: tuple[str, ...]) -> list[str]:
    inside = [module.name for module in tree if module.within(*start)]
    return [
        f"{start[0]} and its like reach {name} through {importer}"
        for name, importer in tree.reach(inside, lazy=True).items()
        if any(name == f or name.startswith(f + ".") for f in forbidden)
        and not any(name == s or name.startswith(s + ".") for s in start)
    ]


def _graph(tree: Tree) -> dict[str, set[str]]:
    """Return the modules of the package that each module imports, lazily or for types too."""
    return {
        module.name: {
            home
            for item in module.imports
            if (home := tree.home(item.target)) and home != module.name
        }
        for module in tree
    }


def _words_used(tree: ast.AST) -> set[str]:
    """Return the names and attributes that a module reads, and its strings that are words."""
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value.rpartition(":")[2])  # `module:name`, as in the table of add-ons
    return words


def _library_words(tree: Tree) -> set[str]:
    """Return the words of the page about the library, if the checkout has one."""
    page = tree.root / "docs" / "library.md"
    return set(re.findall(r"\w+", page.read_text("utf-8"))) if page.is_file() else set()


def _offered_words(tree: Tree) -> set[str]:
    """Return the names that the core has for add-ons alone, as docs/architecture.md lists them."""
    page = tree.root / "docs" / "architecture.md"
    text = page.read_text("utf-8") if page.is_file() else ""
    listed = text.partition("For them alone it has ")[2].partition(".\n")[0]
    return set(re.findall(r"`(\w+)`", listed))


def _is_added(module: Module) -> bool:
    return module.within("kogniterm.addons")


def _cycles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield strongly connected groups of two and more (Tarjan's algorithm, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                yield from visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                yield group

    for name in sorted(graph):
        if name not in index:
            yield from visit(name)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def _text(node: ast.AST) -> str:
    """Return the text of `node` if it is a docstring, or a string below an assignment."""
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _is_name(node: ast.AST, field: str, name: str) -> bool:
    inner = getattr(node, field)
    return isinstance(inner, ast.Name) and inner.id == name


def _is_broad(node: ast.expr | None) -> bool:
    if node is None:
        return True
    parts: Iterable[ast.expr] = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(ast.unparse(part) in {"Exception", "BaseException"} for part in parts)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None
