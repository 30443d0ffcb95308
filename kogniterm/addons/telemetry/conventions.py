"""The metrics, and the version of the conventions that names of spans and attributes are from.

From the semantic conventions for generative AI, which are all in development
(https://opentelemetry.io/docs/specs/semconv/gen-ai/). `SCHEMA_URL` names the version; it is the
last whose metrics collectors know. The plan span, the metrics `gen_ai.execute_tool.*` and
`gen_ai.invoke_agent.*`, `process.exit.code` on a tool span and `gen_ai.request.reasoning.level` are
from the repository that continues them
(https://github.com/open-telemetry/semantic-conventions-genai, August 2026). Names that begin with
`kogniterm.` are KogniTerm's own. docs/telemetry.md lists all of them.
"""

from __future__ import annotations

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
AGENT = "kogniterm"
"""The name of the main agent, of the tracer and of the meter, and of the service by default."""
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
CONTENT = (INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_ARGUMENTS, TOOL_RESULT)
"""The attributes with texts, which are set only on request."""


_SECONDS = tuple(2**power / 100 for power in range(14))
_TOKENS = tuple(4**power for power in range(14))
HISTOGRAMS = {
    "gen_ai.client.token.usage": ("{token}", "Number of input and output tokens used.", _TOKENS),
    "gen_ai.client.operation.duration": ("s", "GenAI operation duration.", _SECONDS),
    "gen_ai.client.operation.time_to_first_chunk": (
        "s",
        "Time to the first chunk of a response.",
        _SECONDS,
    ),
    "gen_ai.invoke_agent.duration": ("s", "Duration of an agent invocation.", _SECONDS),
    "gen_ai.execute_tool.duration": ("s", "Duration of a tool execution.", _SECONDS),
    "kogniterm.approval.wait.duration": ("s", "Time that the user took to decide.", _SECONDS),
}
"""The unit, the description and the boundaries of each histogram, as the conventions advise."""
COUNTERS = {
    "kogniterm.cost": ("{USD}", "Cost of model calls at list price, in US dollars."),
    "kogniterm.commands": ("{command}", "Commands that were run, by outcome."),
    "kogniterm.approvals": ("{decision}", "Decisions about actions, by who decided."),
}


def provider_of(model: str) -> str:
    """Return the conventions' name of the provider of `provider:model`."""
    name = model.partition(":")[0]
    return "gcp.gemini" if name == "google_genai" else name


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


_FINISHES = {
    "end_turn": "stop", "max_tokens": "length", "tool_use": "tool_call", "tool_calls": "tool_call",
    "refusal": "content_filter", "safety": "content_filter",
}  # fmt: skip
"""The conventions' words for the ends of messages, where providers have others."""


def finish_of(reason: str, *, called: bool) -> str:
    """Return why a model's message ended; one that calls tools ended with that."""
    return "tool_call" if called else _FINISHES.get(reason.lower(), reason.lower()) or "stop"


def mcp_parts(tool: str) -> tuple[str, str]:
    """Return the MCP server of a tool and the tool's name there; "" for any other tool."""
    if not tool.startswith("mcp__"):
        return "", tool
    server, _mark, name = tool.removeprefix("mcp__").partition("__")
    return server, name
