"""Services of a session, one concern each: policy, sandbox, memory, undo, trust, forgetting."""
