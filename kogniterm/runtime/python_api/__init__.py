"""The agent for other Python programs, and its graph for LangGraph's own tools."""
