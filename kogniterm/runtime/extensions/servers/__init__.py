"""MCP servers of a session: started in the sandbox, trusted tool by tool."""
