"""Whole turns for tests of recipes."""

from __future__ import annotations

from tests.flows.conftest import make_flow

__all__ = ["make_flow"]
