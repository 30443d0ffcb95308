"""Memory: facts with provenance that can be recalled, contradicted and forgotten."""
