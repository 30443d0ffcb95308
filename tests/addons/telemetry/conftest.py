"""Whole turns, which telemetry observes."""

from tests.flows.conftest import make_flow

__all__ = ["make_flow"]
