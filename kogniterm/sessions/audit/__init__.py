"""Verifying a journal against its chain and its anchors; the commands it holds."""
