"""Inputs that are more than words for the model: sub-agents and custom commands."""
