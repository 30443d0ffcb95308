"""The prompt: its application, keys, completion, history and terminal."""
