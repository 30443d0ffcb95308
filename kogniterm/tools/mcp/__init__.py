"""MCP: servers that provide tools, resources and prompts; the only owner of the SDK."""
