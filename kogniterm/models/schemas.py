"""Tools in the form every chat model of LangChain understands."""

from __future__ import annotations

from typing import Any

from kogniterm.types import ToolSpec


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """`tool` as an OpenAI-style function, the common form of LangChain's `bind_tools`."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }
