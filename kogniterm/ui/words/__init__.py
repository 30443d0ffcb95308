"""The words of the screens: for tools, turns, approval and keys. Nothing here draws."""
