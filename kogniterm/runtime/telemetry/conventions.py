"""The names of spans, attributes and metrics, and the version of the conventions they are from.

From the semantic conventions for generative AI, which are all in development
(https://opentelemetry.io/docs/specs/semconv/gen-ai/). `SCHEMA_URL` names the version; it is the
last whose metrics collectors know. The plan span, `gen_ai.execute_tool.*` and
`gen_ai.invoke_agent.*` metrics, `process.exit.code` on a tool span and
`gen_ai.request.reasoning.level` are from the repository that continues them
(https://github.com/open-telemetry/semantic-conventions-genai, August 2026). Names that begin with
`kogniterm.` are KogniTerm's own. docs/telemetry.md lists all of them.
"""

from __future__ import annotations

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"

AGENT = "kogniterm"
"""The name of the main agent, of the tracer and of the meter, and of the service by default."""

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
AGENT_VERSION = "gen_ai.agent.version"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
REASONING_LEVEL = "gen_ai.request.reasoning.level"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION = "gen_ai.usage.cache_creation.input_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
ERROR = "error.type"
SERVER = "server.address"
PORT = "server.port"
EXIT_CODE = "process.exit.code"
PROGRAM = "process.executable.name"
MCP_METHOD = "mcp.method.name"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
CONTENT = (INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_ARGUMENTS, TOOL_RESULT)
"""The attributes with texts, which are set only on request."""

STOP = "kogniterm.turn.stop"
TURN = "kogniterm.turn.number"
WAITED = "kogniterm.turn.waited"
COST = "kogniterm.cost.usd"
PURPOSE = "kogniterm.model.purpose"
RISK = "kogniterm.risk"
DECISION = "kogniterm.approval.decision"
BY = "kogniterm.approval.by"
OUTCOME = "kogniterm.command.outcome"
LIMIT = "kogniterm.limit"
QUEUE = "kogniterm.queue.name"
TASK_STATE = "kogniterm.task.state"

TOKEN_USAGE = "gen_ai.client.token.usage"
CALL_DURATION = "gen_ai.client.operation.duration"
CALL_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
AGENT_DURATION = "gen_ai.invoke_agent.duration"
TOOL_DURATION = "gen_ai.execute_tool.duration"
COST_TOTAL = "kogniterm.cost"
COMMANDS = "kogniterm.commands"
APPROVALS = "kogniterm.approvals"
APPROVAL_WAIT = "kogniterm.approval.wait.duration"
QUEUE_TASKS = "kogniterm.queue.tasks"
QUEUE_WAIT = "kogniterm.queue.wait.duration"
TASK_DURATION = "kogniterm.task.duration"

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Boundaries of the histograms of durations, as the conventions advise."""
TASK_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
"""Boundaries for tasks of a queue, which take seconds to hours and may wait for a day."""
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)

_PROVIDERS = {"google_genai": "gcp.gemini"}


def provider_of(model: str) -> str:
    """Return the conventions' name of the provider of `provider:model`."""
    name = model.partition(":")[0]
    return _PROVIDERS.get(name, name)


def model_of(model: str) -> str:
    """Return the name of `provider:model` at its provider.

    The name of a scripted or replayed model is a file, and no name of a model.
    """
    provider, _colon, name = model.partition(":")
    return provider if provider in ("scripted", "replay") else name or provider


def host_and_port(server: str) -> tuple[str, int]:
    """Return the parts of `host` or `host:port`; a server of a provider listens on 443."""
    host, _colon, port = server.rpartition(":")
    return (host, int(port)) if host and port.isdigit() else (server, 443)
