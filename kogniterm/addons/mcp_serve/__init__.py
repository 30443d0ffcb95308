"""KogniTerm as an MCP server: tasks for other agents, each a turn of a session of its own."""
