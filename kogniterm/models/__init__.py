"""Models: a registry of provider names and the adapters behind `protocols.Model`."""

from kogniterm.models.calling import ModelOptions, OpenModels, close_model, preload
from kogniterm.models.model_registry import default_name, is_installed, open_model, parse_name

__all__ = [
    "ModelOptions",
    "OpenModels",
    "close_model",
    "default_name",
    "is_installed",
    "open_model",
    "parse_name",
    "preload",
]
