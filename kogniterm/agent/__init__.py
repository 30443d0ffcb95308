"""The agent: the compiled graph that thinks, and nothing that acts."""
