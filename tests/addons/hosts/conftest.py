"""Whole turns, whose commands run on hosts."""

from __future__ import annotations

from tests.flows.conftest import make_flow

__all__ = ["make_flow"]
