"""No transcript leaves for a tracing service because of a variable in the environment.

LangChain exports every prompt and reply when LANGSMITH_TRACING (or its older names) is set,
which a project's own development environment may well do. Imports langsmith, which any chat
model of LangChain has loaded already.
"""

from __future__ import annotations


def silence_tracing() -> None:
    """Switch LangSmith's tracing off for this process, whatever the environment says."""
    import langsmith

    langsmith.configure(enabled=False)
