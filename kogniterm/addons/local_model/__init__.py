"""The embedded local model: small weights that run on this machine, without key or network.

Imports nothing: who only asks which weights there are, or keeps an example, needs no model.
"""
