"""Pure functions on text that several packages need.

- Words: `language` (words, stems, relations), `matching` (a text in another one).
- Text that must not be kept or sent: `redact` with `secret_patterns`.
- Text that reaches a terminal: `visible` (text that is shown), `sanitize` (output of commands).
- Files: `file_text` (their bytes as text, and the diff of two contents).
- `bounded_regex`: regular expressions that users and models wrote.
"""
