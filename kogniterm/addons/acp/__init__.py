"""KogniTerm as an agent for editors, over the Agent Client Protocol (ACP); owns its SDK."""
