"""Plans in the runtime: their text form, edits, review and what they teach."""
