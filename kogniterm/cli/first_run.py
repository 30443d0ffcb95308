"""What the first run says about the model: which one, and why this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kogniterm.types import Text

if TYPE_CHECKING:
    from kogniterm.settings import Settings
    from kogniterm.types import ModelInfo


def model_reason(settings: Settings, info: ModelInfo) -> Text:
    """Why this model is asked: who named it, or which key was found, or that none was."""
    origin = settings.origin("model")
    if settings.model and origin.kind == "flag":
        return Text("You named it with {flag}.", {"flag": "--model"})
    if settings.model and origin.kind == "environment":
        return Text("The variable {name} names it.", {"name": origin.name})
    if settings.model:
        return Text("{where} names it.", {"where": origin})
    if info.local:
        return Text(
            "No key for a model service is set, so the model on this machine answers: nothing "
            "leaves it. For bigger tasks set {key}, then start again.",
            {"key": "GOOGLE_API_KEY"},
        )
    key = settings.origin("google_api_key")
    return Text(
        "Your key in {where} chose it; another one: /model, or --model at the start.",
        {"where": key.name if key.file is None else key},
    )
