"""Services of a session: policy, sandbox, memory and undo, each one concern."""
