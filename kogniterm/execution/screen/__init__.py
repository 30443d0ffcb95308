"""The screen of a command: emulator, page and the output kept."""
