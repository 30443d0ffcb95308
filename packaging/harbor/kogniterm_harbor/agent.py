"""The agent that Harbor installs in the container of a task, starts, and asks for its results."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from harbor.agents.agent_auth_resolution import ModelConnectionSpec, ProviderAccess
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import (
    AgentAuthenticationError,
    AgentSafetyRefusalError,
    ApiInternalServerError,
    ApiRateLimitError,
    ApiResponseStalledError,
    BaseInstalledAgent,
    ContextWindowExceededError,
    ModelNotFoundError,
    NetworkConnectionError,
    NonZeroAgentExitCodeError,
    UnknownApiError,
    UnsupportedModelParametersError,
    with_prompt_template,
)
from harbor.agents.options import Env, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.model_api_format import ModelApiFormat
from harbor.models.task.config import MCPServerConfig
from pydantic import Field

from kogniterm_harbor.wheel import local_wheel

INSTALLED = "/opt/kogniterm"
"""KogniTerm and its Python in the container; only root writes there."""
OWN = "/installed-agent/kogniterm"
"""Folder for the files of KogniTerm, so that the home of the task stays as it is."""
INSTALL_SECONDS = 330
"""Longest installation, below the 360 seconds that Harbor gives the whole set-up."""
TRUST_SECONDS = 90
COLLECT_SECONDS = 90

PYTHON = f"{INSTALLED}/venv/bin/python"
COMMAND = f"{INSTALLED}/venv/bin/kogniterm"
EVENTS, LOG, TRAJECTORY, SESSION = (
    "kogniterm.jsonl", "kogniterm.log", "trajectory.json", "session.jsonl",
)  # fmt: skip

TURN_ENDED = shlex.quote('"type": "turn_ended"')
GRADED = frozenset({0, 1, 3, 4})
"""Exit statuses of a task that ended by itself: done, not done, refused, or out of its budget."""
MODEL_FAILED = 5
KEYLESS = ("scripted:", "replay:")
"""Models that need no provider; their names are KogniTerm's own, such as `scripted:FILE`."""
PROVIDERS = {
    "anthropic": "anthropic",
    "gemini": "google_genai",
    "ollama": "ollama",
    "openai": "openai",
}
"""KogniTerm's names of Harbor's providers; any other one is asked by the protocol of OpenAI."""
GOOGLE = frozenset({"google", "google_genai"})
"""Other names of the provider that Harbor calls gemini."""
WEB_TOOLS = "web_search,web_fetch,github"

_PROBLEMS: tuple[tuple[str, type[NonZeroAgentExitCodeError]], ...] = (
    (r"rejected the API key|needs an API key|The API key for|No model is configured",
     AgentAuthenticationError),
    (r"^Model .+ not found at", ModelNotFoundError),
    (r"reasoning effort", UnsupportedModelParametersError),
    (r"Rate limit or quota", ApiRateLimitError),
    (r"does not fit the", ContextWindowExceededError),
    (r"safety filter", AgentSafetyRefusalError),
    (r"failed with status 5\d\d", ApiInternalServerError),
    (r"Cannot reach", NetworkConnectionError),
    (r"stopped responding|No complete reply", ApiResponseStalledError),
)  # fmt: skip
"""KogniTerm's sentences about a model that failed, and the errors by which Harbor tells them
apart: which are tried again, and which leave a trial without a valid reward."""


class KogniTermOptions(InstalledAgentOptions):
    """Options that `--ak NAME=VALUE` sets; `harbor agent schema kogniterm_harbor:KogniTerm`."""

    package: str | None = Field(
        default=None,
        description="Wheel on this machine, or a requirement for pip in the container. "
        "Default: the KogniTerm that is beside Harbor.",
    )
    max_cost_usd: Annotated[float | None, Env("KOGNITERM_MAX_COST_USD")] = Field(
        default=None, gt=0, description="Maximum cost of a task in US dollars."
    )
    max_tokens: Annotated[int | None, Env("KOGNITERM_MAX_TOKENS")] = Field(
        default=None, gt=0, description="Maximum tokens of a task, input and output."
    )
    max_steps: Annotated[int | None, Env("KOGNITERM_MAX_STEPS")] = Field(
        default=None, gt=0, description="Maximum model calls of a task."
    )
    max_seconds: Annotated[float | None, Env("KOGNITERM_MAX_SECONDS")] = Field(
        default=None, gt=0, description="Maximum seconds of a task, below Harbor's own limit."
    )
    command_timeout: Annotated[float | None, Env("KOGNITERM_COMMAND_TIMEOUT")] = Field(
        default=None, ge=0, description="Maximum seconds of a command; 0 for no limit."
    )
    plan: Annotated[str | None, Env("KOGNITERM_PLAN")] = Field(
        default=None, description="When to plan: auto, always or never."
    )
    reasoning_effort: Annotated[str | None, Env("KOGNITERM_EFFORT")] = Field(
        default=None, description="Reasoning effort, for models that have it."
    )


class KogniTerm(BaseInstalledAgent):
    """KogniTerm in the container of a task, which is its sandbox."""

    capabilities = AgentCapabilities(
        atif=True,
        base_url=True,
        mcp_http_headers=True,
        mcp_servers=True,
        native_web_tools=True,
        reasoning_effort=True,
        skills=True,
    )
    options_model = KogniTermOptions
    MODEL_CONNECTION = ModelConnectionSpec(
        agent_provider_access=ProviderAccess(),
        supported_api_formats=[
            ModelApiFormat.OPENAI_CHAT_COMPLETIONS,
            ModelApiFormat.ANTHROPIC_MESSAGES,
            ModelApiFormat.GOOGLE_GENERATE_CONTENT,
        ],
        default_api_format_by_provider={
            "anthropic": ModelApiFormat.ANTHROPIC_MESSAGES,
            "gemini": ModelApiFormat.GOOGLE_GENERATE_CONTENT,
            "default": ModelApiFormat.OPENAI_CHAT_COMPLETIONS,
        },
        api_key_destination_names={
            "anthropic": "ANTHROPIC_API_KEY",
            "gemini": "GOOGLE_API_KEY",
            "default": "OPENAI_API_KEY",
        },
        base_url_destination_names={
            "anthropic": "ANTHROPIC_BASE_URL",
            "gemini": "GOOGLE_GEMINI_BASE_URL",
            "ollama": "OLLAMA_HOST",
            "default": "OPENAI_BASE_URL",
        },
    )
    options: KogniTermOptions
    NAME: ClassVar[str] = "kogniterm"

    @staticmethod
    def name() -> str:
        """Return the name of the agent in results."""
        return KogniTerm.NAME

    def get_version_command(self) -> str | None:
        """Return the command that prints the version in the container."""
        return f"{COMMAND} --version"

    def parse_version(self, stdout: str) -> str:
        """Return the version in `kogniterm 1.0 (…)`."""
        return stdout.split()[1] if len(stdout.split()) > 1 else stdout.strip()

    # --- set-up ------------------------------------------------------------------------------

    async def install(self, environment: BaseEnvironment) -> None:
        """Install KogniTerm from its wheel; only here the container needs a package index."""
        await self.ensure_system_dependencies(environment, ("bash",))
        package = self.options.package or str(await asyncio.to_thread(local_wheel))
        if package.endswith(".whl"):
            target = f"/installed-agent/{Path(package).name}"
            await environment.upload_file(Path(package).expanduser(), target)
            package = target
        script = "/installed-agent/install-kogniterm.sh"
        await environment.upload_file(Path(__file__).with_name("install.sh"), script)
        command = shlex.join(["sh", script, INSTALLED, package])
        result = await environment.exec(command, user="root", timeout_sec=INSTALL_SECONDS)
        if result.return_code == 3:
            await self.ensure_system_dependencies(environment, ("curl", "ca_certificates"))
        if result.return_code != 0:
            await self.exec_as_root(environment, command=command, timeout_sec=INSTALL_SECONDS)
        asked, found = self._version, await self._detect_version(environment)
        if asked is not None and asked != found:
            raise RuntimeError(
                f"KogniTerm {asked} was asked for, but {package} is {found}; name another one with "
                "--ak package=FILE."
            )

    async def configure(self, environment: BaseEnvironment) -> None:
        """Hand over skills and MCP servers, and trust them: whoever runs the task chose them."""
        folders = " ".join(f"{OWN}/{name}" for name in ("config/skills", "data", "cache"))
        await self.exec_as_root(environment, command=f"mkdir -p {folders}")
        if self.mcp_servers:
            servers = {one.name: self._server(one) for one in self.mcp_servers}
            text = json.dumps({"mcpServers": servers})
            await self._upload(environment, text, f"{OWN}/config/mcp.json")
        if self.skills_dir:
            source = shlex.quote(self.skills_dir)
            await self.exec_as_root(environment, command=f"cp -R {source}/. {OWN}/config/skills/")
        if environment.default_user is not None:
            owner = shlex.quote(str(environment.default_user))
            await self.exec_as_root(environment, command=f"chown -R {owner} {OWN}")
        for server in self.mcp_servers:
            await self.exec_as_agent(
                environment,
                command=shlex.join([COMMAND, "mcp", "trust", server.name, "--yes"]),
                env=self._environment(),
                timeout_sec=TRUST_SECONDS,
            )

    def _server(self, server: MCPServerConfig) -> dict[str, Any]:
        """Return an entry of `mcp.json`; values of headers stay in the environment."""
        if server.transport == "sse":
            raise ValueError(
                f"MCP server {server.name} uses SSE; KogniTerm reaches remote servers over "
                "streamable HTTP alone."
            )
        if server.transport == "stdio":
            return {"command": server.command, "args": server.args}
        names = self.mcp_header_env.refs.get(server.name, {})
        headers = {name: f"${{{variable}}}" for name, variable in names.items()}
        plain = str(server.url).startswith("http://")
        return {"url": server.url, "headers": headers, "insecure": plain}

    async def _upload(self, environment: BaseEnvironment, text: str, target: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "file"
            file.write_text(text, encoding="utf-8")
            await environment.upload_file(file, target)
        await self.exec_as_root(environment, command=f"chmod a+r {shlex.quote(target)}")

    def _environment(self) -> dict[str, str]:
        """Return the variables of KogniTerm's processes, keys included: they are nowhere else."""
        found = {
            "KOGNITERM_CONFIG_DIR": f"{OWN}/config",
            "KOGNITERM_DATA_DIR": f"{OWN}/data",
            "KOGNITERM_CACHE_DIR": f"{OWN}/cache",
            "KOGNITERM_LANGUAGE": "en",
            "KOGNITERM_SANDBOX": "off",
            **self.compile_env_vars(),
            **self.mcp_header_env.env,
        }
        if self.model_name is None:
            return found
        found["KOGNITERM_MODEL"] = self._model()
        if not self.model_name.startswith(KEYLESS):
            found |= self._connection()
        if self.options.disable_web_search:
            found["KOGNITERM_TOOLS_OFF"] = WEB_TOOLS
        return found

    def _model(self) -> str:
        """Return KogniTerm's name of the model that Harbor calls PROVIDER/MODEL."""
        name = str(self.model_name)
        if name.startswith(KEYLESS):
            return name
        provider, model = self._parse_model_name(name)
        known = PROVIDERS.get(provider or ("" if "/" in name else "openai"))
        if known is None and not self.model_connection.candidate_base_url:
            raise ValueError(
                f"KogniTerm has no provider for {name}. Use anthropic/, gemini/, openai/ or "
                "ollama/, or --base-url with the address of a service compatible with OpenAI."
            )
        return f"{known or 'openai'}:{model}"

    @staticmethod
    def _parse_model_name_for_connection(
        model_name: str, *, skip_model_parsing: bool = False
    ) -> tuple[str | None, str]:
        """Return provider and model, for the names of Google that others use, too."""
        provider, _slash, model = model_name.partition("/")
        return BaseInstalledAgent._parse_model_name_for_connection(
            f"gemini/{model}" if provider in GOOGLE else model_name,
            skip_model_parsing=skip_model_parsing,
        )

    def _connection(self) -> Mapping[str, str]:
        """Return key and address of the provider; a provider's own address needs no setting."""
        connection = self.model_connection
        found = dict(connection.env)
        if connection.provider == "ollama" and (host := self._get_env("OLLAMA_HOST")):
            found["OLLAMA_HOST"] = host
        if connection.base_url_is_default and connection.provider in PROVIDERS:
            for name in connection.base_url_destination_names:
                found.pop(name, None)
        elif connection.candidate_base_url:
            for name in connection.base_url_destination_names:
                found.setdefault(name, connection.candidate_base_url)
        return found

    # --- the task ----------------------------------------------------------------------------

    @with_prompt_template
    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        """Do the task. Raises what Harbor needs to tell a failed model from an unsolved task."""
        await self._upload(environment, instruction, f"{OWN}/task.txt")
        logs = self.environment_logs_dir
        inner = f"echo $$ > {OWN}/data/pid; exec {PYTHON} -P -m kogniterm_harbor.in_container"
        command = (
            f"sh -c {shlex.quote(f'{inner} {OWN}/task.txt')} "
            f"</dev/null >{logs}/{EVENTS} 2>{logs}/{LOG}"
        )
        try:
            result = await environment.exec(command, env=self._environment())
            if result.return_code != 0:
                # Python exits with 1, too, where it cannot even begin.
                ended = await environment.exec(f"grep -q {TURN_ENDED} {logs}/{EVENTS}")
                if result.return_code not in GRADED or ended.return_code != 0:
                    tail = await environment.exec(f"tail -c 4000 {logs}/{LOG}")
                    raise self._failure(result.return_code, tail.stdout or "")
        finally:
            await self._collect(environment)

    def _failure(self, status: int, log: str) -> NonZeroAgentExitCodeError:
        """Return the error for an exit status that is no end of a task."""
        lines = [line for line in log.splitlines() if line.strip()]
        reason = (lines or [""])[-1].removeprefix("kogniterm: ")
        told = f"KogniTerm ended with exit status {status}: {reason}"
        for pattern, error in _PROBLEMS:
            if status in (2, MODEL_FAILED) and re.search(pattern, reason):
                return error(told)
        return UnknownApiError(told) if status == MODEL_FAILED else NonZeroAgentExitCodeError(told)

    async def _collect(self, environment: BaseEnvironment) -> None:
        """Stop what a time limit of Harbor cut off, and export the session for the results."""
        logs = self.environment_logs_dir
        export = f'{COMMAND} sessions export "$session"'
        command = f"""
pid=$(cat {OWN}/data/pid 2>/dev/null)
if [ -n "$pid" ] && kill -TERM "$pid" 2>/dev/null; then
    for each in $(seq 60); do kill -0 "$pid" 2>/dev/null || break; sleep 0.5; done
    kill -KILL "$pid" 2>/dev/null
fi
session=$(grep -m1 -o '"session_id": "[^"]*"' {logs}/{EVENTS} | cut -d'"' -f4)
[ -n "$session" ] || exit 0
rm -f {logs}/{TRAJECTORY} {logs}/{SESSION}
{export} --format atif --to {logs}/{TRAJECTORY} && {export} --to {logs}/{SESSION}
chmod a+r {logs}/{TRAJECTORY} {logs}/{SESSION}
"""
        exporting = environment.exec(command, env=self._environment(), timeout_sec=COLLECT_SECONDS)
        result = await exporting
        if result.return_code != 0:
            self.logger.warning("The session was not exported: %s", result.stderr or result.stdout)

    # --- results -----------------------------------------------------------------------------

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Fill in tokens, cost and how the task ended, from what the container left."""
        events = list(_events(self.logs_dir / EVENTS))
        result = next((one for one in reversed(events) if one.get("type") == "result"), {})
        usage = result.get("usage") or next(
            (one["total"] for one in reversed(events) if one.get("type") == "model_answered"), {}
        )
        context.n_input_tokens = usage.get("input", 0)
        context.n_output_tokens = usage.get("output", 0)
        context.n_cache_tokens = usage.get("cached", 0)
        metrics = _document(self.logs_dir / TRAJECTORY).get("final_metrics", {})
        context.cost_usd = metrics.get("total_cost_usd")
        started = next((one for one in events if one.get("type") == "turn_started"), {})
        actions = [*result.get("commands", ()), *result.get("actions", ())]
        context.metadata = {
            "session_id": started.get("session_id"),
            "exit_status": result.get("exit_code"),
            "stop": result.get("stop"),
            "reason": result.get("reason"),
            "model_calls": usage.get("calls", 0),
            "actions": len(actions),
            "refused_actions": sum(one.get("status") == "refused" for one in actions),
            "seconds": result.get("seconds"),
        }


def _events(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the events in a file; a line that was cut off is passed over."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _document(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found
