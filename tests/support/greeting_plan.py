"""A scripted plan of two steps, one with a check, and the replies that carry it out."""

from __future__ import annotations


def greeting_plan(asked: str, reason: str = "You asked for it.") -> str:
    """Return the replies to an input that contains `asked`: the plan, and its steps."""
    return f"""  - when: {{last_contains: {asked}}}
    plan:
      goal: Greet somebody
      reason: {reason}
      steps:
        - what: Write the greeting
          check: {{kind: command, value: grep -q Ann greeting.txt}}
        - what: Read it
  - run: "echo 'hello Ann' > greeting.txt; echo written"
    purpose: Write the greeting
  - calls: [{{tool: complete_step, arguments: {{step: s1}}}}]
  - run: cat greeting.txt
  - calls: [{{tool: complete_step, arguments: {{step: s2}}}}]
  - text: Ann is greeted.
"""
