"""Plans as the model writes them: tools, parsing, checks and evidence."""
