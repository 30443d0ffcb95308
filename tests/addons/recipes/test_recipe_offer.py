"""A request that comes again and again can become a recipe."""

from __future__ import annotations

from tests.flows.conftest import MakeFlow
from tests.flows.test_learning import offered

RUNS = """replies:
- {run: 'echo 3'}
- {text: Three.}
- {run: 'echo 3'}
- {text: Three.}
- {run: 'echo 3'}
- {text: Three.}
"""


async def test_commands_of_a_repeated_request_are_offered_as_a_recipe(make_flow: MakeFlow) -> None:
    flow = make_flow(RUNS)
    told = await offered(flow)
    assert f"kogniterm recipe save NAME --session {flow.session.id}" in told
