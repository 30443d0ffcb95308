"""The table of agents: KogniTerm plain and warm, and with `PEERS=1` codex and Claude Code.

All of it is measured in turn, in one run, with one scripted model server, in the environments of a
desktop login, a container and an SSH login. The other agents come from npm, into the folder of the
run.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import floors
from benchmarks.measuring import (
    PATIENCE,
    PYTHON,
    ROOT,
    Mark,
    Usage,
    await_sessions,
    become_subreaper,
    end_tree,
    home,
    middle,
    on_terminal,
    quiet,
    run,
    servers_of,
)
from benchmarks.memory import SET, many, read_set
from benchmarks.rows import Place, Row, python
from benchmarks.scripted_server import ANSWER, Requests, ScriptedServer
from kogniterm.host.identity import account_name
from kogniterm.memory import open_memory
from kogniterm.memory.user_memory import vectors_installed

STEPS = 20
SESSIONS, FACTS = 300, 1000
"""Contents of the home of a user of some months."""
KEY = "sk-scripted"
PACKAGES = ("@openai/codex", "@anthropic-ai/claude-code")
TASK = "ж"
"""A task of one character, which no screen has otherwise and every program draws at once."""
LOGINS: Mapping[str, Mapping[str, str]] = {
    "desktop login": {"DISPLAY": ":0"},
    "container": {"HOSTNAME": "container", "PYTHONUNBUFFERED": "1"},
    "SSH login": {"SSH_CONNECTION": "127.0.0.1 50000 127.0.0.1 22", "SSH_TTY": "/dev/pts/0"},
}
"""Variables of the environments; only a desktop login has a runtime folder."""
PROVIDERS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "Gemini": ("google_genai:gemini-2.5-pro", "langchain_google_genai",
               {"GOOGLE_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": ""}),
    "OpenAI endpoint": ("openai:scripted", "langchain_openai",
                        {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "/v1"}),
    "Anthropic": ("anthropic:claude-sonnet-5", "langchain_anthropic",
                  {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": ""}),
    "Ollama": ("ollama:scripted", "langchain_ollama", {"OLLAMA_HOST": ""}),
}  # fmt: skip
"""A model of each provider, its LangChain client, and its variables; those without a key are paths
at the server."""
Figures = dict[tuple[str, str], float]
"""Figures by name and unit."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, as started for one task, for the same in its sandbox, and at a terminal."""

    name: str
    home: Path
    environ: Mapping[str, str]
    prompt: Sequence[str]
    ready: str
    """Text on the screen when keys are taken."""
    free: Sequence[str] = ()
    boxed: Sequence[str] = ()
    fresh: bool = False
    """Start each time without sessions and facts."""
    servers: Sequence[int] = ()
    """The processes that stay for the next start."""
    warm: bool = False

    @property
    def work(self) -> Path:
        return self.home / "work"

    def prepare(self) -> None:
        """Await the end of the last session; remove sessions and facts from a fresh home."""
        if self.warm:
            await_sessions(self.servers)
        if self.fresh:
            shutil.rmtree(self.home / "data", ignore_errors=True)

    def one_shot(
        self, server: ScriptedServer, words: Sequence[str], steps: int, command: str = "true"
    ) -> tuple[Usage, Requests, float]:
        """Run one task of so many steps; return also the seconds to its first request.

        Raises SystemExit where it did not do all steps.
        """
        self.prepare()
        asked, began = server.expect(steps, command), time.perf_counter()
        warm = self.servers if self.warm else ()
        used = quiet([*words, TASK], self.environ, cwd=self.work, warm=warm)
        if len(asked.sizes) <= steps:
            raise SystemExit(f"{self.name} made {len(asked.sizes)} requests for {steps} steps")
        return used, asked, asked.times[0] - began

    def at_terminal(self, server: ScriptedServer, settle: float = 2.0) -> Usage:
        """Type a task as soon as keys are taken, send it once it is shown, and await the answer."""
        self.prepare()
        server.expect(0)
        marks = (Mark(self.ready, TASK), Mark(TASK, "\r"), Mark(ANSWER))
        return on_terminal(self.prompt, self.environ, marks, cwd=self.work, settle=settle,
                           servers=self.servers, warm=self.warm)  # fmt: skip

    def figures(self, server: ScriptedServer) -> Figures:
        """Measure once all that this agent has."""
        shown = self.at_terminal(server)
        found: Figures = {
            ("typed text shown at the prompt", "s"): shown.marks[1][0],
            ("first answer, typed at once", "s"): shown.marks[2][0],
            ("idle memory after an answer (PSS)", "MB"): shown.share,
        }
        if self.free:
            used, _, first = self.one_shot(server, self.free, 0)
            found["one-shot, to the first request", "s"] = first
            found["one-shot, whole", "s"] = used.wall
            found["one-shot, whole", "s CPU"] = used.cpu
        for where, words in (("without a sandbox", self.free), ("in the sandbox", self.boxed)):
            if not words:
                continue
            used, asked, _ = self.one_shot(server, words, STEPS)
            found[f"{STEPS} steps {where}", "s"] = used.wall
            found[f"{STEPS} steps {where}", "s CPU"] = used.cpu
            each = [b - a for a, b in itertools.pairwise(asked.times)]
            found[f"a step {where}", "ms"] = middle(each) * 1000
            found["first request", "kB"] = asked.sizes[0] / 1000
            found[f"requests of {STEPS} steps", "kB"] = sum(asked.sizes) / 1000
        return found

    def checked(self, server: ScriptedServer) -> Agent:
        """Return the agent without a sandbox that does not work here.

        Raises SystemExit where commands do not run, or a sandbox lets them write to the home.
        """
        inside, outside = self.work / "inside", self.home / "outside"
        works = []
        for words in filter(None, (self.free, self.boxed)):
            with suppress(SystemExit):
                self.one_shot(server, words, 1, "touch inside; touch ../outside; true")
            works.append(inside.exists())
            if words == self.boxed and outside.exists():
                raise SystemExit(f"{self.name} does not confine commands")
            for file in (inside, outside):
                file.unlink(missing_ok=True)
        if not all(works[:1]):
            raise SystemExit(f"{self.name} does not run commands")
        return self if all(works) else replace(self, boxed=())


def in_login(environ: Mapping[str, str], login: str) -> dict[str, str]:
    """Return the environment as this login has it."""
    here = {**environ, **LOGINS[login]}
    if login != "desktop login":
        del here["XDG_RUNTIME_DIR"]
    return here


def kogniterm(
    name: str, folder: Path, program: Sequence[str], login: str, url: str, provider: str = "Gemini"
) -> Agent:
    """Return KogniTerm with a home in `folder`, started plain."""
    environ = in_login(home(folder), login)
    model, _, variables = PROVIDERS[provider]
    environ |= {
        name: value if name.endswith("KEY") else url + value for name, value in variables.items()
    }
    (folder / "work").mkdir(exist_ok=True)
    words = ["--mode", "auto", "--model", model]
    outside = ["--no-sandbox", *words]
    return Agent(
        name, folder, environ, [*program, *outside], "›", [*program, "run", *outside],
        [*program, "run", *words],
    )  # fmt: skip


@contextmanager
def warmed(agent: Agent, server: ScriptedServer) -> Iterator[Agent]:
    """Yield KogniTerm as it starts beside its warm server; end that."""
    environ = {key: value for key, value in agent.environ.items() if key != "KOGNITERM_WARM"}
    warm = replace(agent, name=agent.name.replace("plain", "warm"), environ=environ)
    with serving(warm.home, lambda: warm.one_shot(server, warm.free, 0)):
        until, stays = time.monotonic() + PATIENCE, False
        while not stays:  # a server goes on in a process that it forks
            if time.monotonic() > until:
                raise SystemExit("No start is warm here.")
            warm = replace(warm, servers=servers_of(warm.home), warm=True)
            with suppress(SystemExit):  # the server still loads
                warm.one_shot(server, warm.free, 0)
                stays = bool(warm.servers) and warm.servers == servers_of(warm.home)
        yield warm


@contextmanager
def serving(folder: Path, start: Callable[[], object]) -> Iterator[None]:
    """Leave running what a start leaves for the next; end in the end what has this home."""
    become_subreaper(0)
    try:
        start()
        become_subreaper()
        yield
    finally:
        become_subreaper()
        for process in servers_of(folder):
            end_tree(process)


@contextmanager
def peers(folder: Path, server: ScriptedServer) -> Iterator[list[Agent]]:
    """Install codex and Claude Code in a folder, with a home that asks nothing; yield both.

    An interactive codex keeps a server running; that is also measured without.
    """
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (work := folder / "work").mkdir()
    (folder / ".codex").mkdir()
    (folder / ".codex" / "config.toml").write_text(
        f'model = "scripted"\nmodel_provider = "scripted"\ncheck_for_update_on_startup = false\n'
        f'[model_providers.scripted]\nname = "scripted"\nenv_key = "OPENAI_API_KEY"\n'
        f'base_url = "{server.address}/v1"\n[projects."{work}"]\ntrust_level = "trusted"\n'
    )
    (folder / ".claude.json").write_text(json.dumps({
        "hasCompletedOnboarding": True, "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY], "rejected": []},
        "projects": {str(work): {"hasTrustDialogAccepted": True}},
    }))  # fmt: skip
    environ = {**home(folder), "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY,
               "ANTHROPIC_BASE_URL": server.address, "DISABLE_AUTOUPDATER": "1",
               "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}  # fmt: skip
    codex, claude = (str(folder / "node_modules" / ".bin" / name) for name in ("codex", "claude"))
    once = [codex, "exec", "--skip-git-repo-check"]
    unconfined = "--dangerously-bypass-approvals-and-sandbox"
    served = Agent(
        "codex", folder, environ, [codex, unconfined], "›", [*once, unconfined],
        [*once, "--sandbox", "workspace-write"],
    )  # fmt: skip
    alone = Agent("codex --no-daemon", folder, environ, [*served.prompt, "--no-daemon"], "›")
    start = partial(subprocess.run, [codex, "app-server", "daemon", "start"], env=environ,
                    check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    with serving(folder, start):
        yield [
            replace(served, servers=servers_of(folder)),
            alone,
            Agent("Claude Code", folder, environ, [claude], "❯",
                  [claude, "--allowedTools", "Bash", "-p"]),
        ]  # fmt: skip


def compare(
    at: Place, runs: int, *, with_peers: bool = False, before: Sequence[str] = ()
) -> list[Row]:
    """Measure the table in each environment; `before` starts KogniTerm of an earlier state.

    That one has no used home, because it cannot read what this state writes, and is measured warm
    in a desktop login alone: earlier states were not warm elsewhere.
    """
    server, found = ScriptedServer(), list[Row]()
    fill(used := at.folder / "used")
    starts = {"KogniTerm plain": at.kogniterm} | ({"before, plain": before} if before else {})
    with ExitStack() as whole:
        others = whole.enter_context(peers(at.folder / "peers", server)) if with_peers else []
        for login in LOGINS:
            agents = [replace(one, environ=in_login(one.environ, login)) for one in others]
            with ExitStack() as stack:
                homes = [(name, start, "") for name, start in starts.items()]
                for name, start, kind in [*homes, ("KogniTerm plain", at.kogniterm, ", used home")]:
                    folder = at.folder / login / (name + kind)
                    folder.mkdir(parents=True)
                    if kind:
                        shutil.copytree(used, folder / "data")
                    plain = kogniterm(name + kind, folder, start, login, server.address)
                    plain = replace(plain, fresh=not kind)
                    agents.append(plain)
                    if start is at.kogniterm or login == "desktop login":
                        agents.append(stack.enter_context(warmed(plain, server)))
                found += table_of(login, [one.checked(server) for one in agents], server, runs)
    return found


def table_of(
    login: str, agents: Sequence[Agent], server: ScriptedServer, runs: int
) -> Iterator[Row]:
    """Measure the agents in turn; yield a row for each figure of KogniTerm."""
    results = [[agent.figures(server) for agent in agents] for _ in range(runs)]
    for name in dict.fromkeys(itertools.chain(*results[0])):
        values = {
            agent.name: middle([once[index][name] for once in results])
            for index, agent in enumerate(agents)
            if name in results[0][index]
        }
        if ours := values.pop("KogniTerm plain", 0.0):
            yield Row(*name, ours, values, environment=login)


def providers(at: Place, runs: int) -> list[Row]:
    """Measure a one-shot with each provider, beside the bare loop and the provider's client."""
    server, found = ScriptedServer(), list[Row]()
    for provider, (_, client, _) in PROVIDERS.items():
        (folder := at.folder / provider).mkdir()
        plain = kogniterm("plain", folder, at.kogniterm, "desktop login", server.address, provider)
        loop = python(f"import {client}\n{floors.LOOP}", "0")
        first: list[list[float]] = [[], [], []]
        cpu: list[list[float]] = [[], [], []]
        with warmed(plain, server) as warm:
            for _ in range(runs):
                began = time.perf_counter()
                base = run(loop, at.environ)
                results = [agent.one_shot(server, agent.free, 0) for agent in (plain, warm)]
                for index, (used, _, seconds) in enumerate(results):
                    first[index].append(seconds)
                    cpu[index].append(used.cpu)
                first[2].append(base.lines[0][0] - began)
                cpu[2].append(base.cpu)
        for name, unit, values in (("one-shot, to the first request", "s", first),
                                   ("one-shot, whole", "s CPU", cpu)):  # fmt: skip
            ours, *rest = map(middle, values)
            names = ("warm", "LangGraph loop and the client")
            found.append(
                Row(f"{name}, {provider}", unit, ours, dict(zip(names, rest, strict=True)))
            )
    return found


def fill(data: Path) -> None:
    """Make a data folder with the sessions and facts of a user of some months."""
    data.mkdir()
    file = str(data / "kogniterm.db")
    words = [PYTHON, "-m", "benchmarks.sessions", "--make", str(SESSIONS), file]
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with open_memory(file, user=account_name(), vectors=vectors_installed()) as memory:
        for text in many(read_set(SET)[0], FACTS):
            memory.add(text, scope="everywhere")
        memory.search(TASK)
        memory.searcher.settle()  # the vectors are stored
