"""MCP servers that tests start as real processes, made with the official SDK."""
