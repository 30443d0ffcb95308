"""Pure functions on text that several rooms need, each standing once.

- Words: `language`, `stems`, `ranking` (BM25), `matching` (a text inside another one).
- What must not be kept or sent: `redact` with its tables `secret_patterns`, `spoken_secrets` and
  `identity_numbers`; `sensitive_topics`.
- What reaches a terminal: `display` (text that is shown), `sanitize` (the output of commands).
- `bounded_regex`: regular expressions that users and models wrote.
"""
