"""The embedded local model: small weights that run on this machine, without key or network."""

from kogniterm.models.local.catalogue import CATALOGUE, DEFAULT_NAME
from kogniterm.models.local.chat import LocalModel, open_local

__all__ = ["CATALOGUE", "DEFAULT_NAME", "LocalModel", "open_local"]
