"""MCP: signing in to servers, and being one for other agents."""
