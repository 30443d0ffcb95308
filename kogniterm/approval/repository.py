"""What a repository makes git run: the reasons, by which a verdict knows them again."""

from __future__ import annotations

from kogniterm.types import RiskReport, Text

SETTINGS_RUN = Text("The repository's own settings make git run another program ({name}).")
HOOKS_RUN = Text("The repository's own hooks run with it ({name}).")
UNKNOWN_REPOSITORY = Text("It is not known which repository git would use ({path}).")
VARIABLES_STEER = Text(
    "A variable that steers git is set ({name}), so it may use another repository."
)
_ALL = frozenset(
    one.template for one in (SETTINGS_RUN, HOOKS_RUN, UNKNOWN_REPOSITORY, VARIABLES_STEER)
)


def repository_reason(report: RiskReport) -> Text | None:
    """Return why git may run a repository's own programs, or None when it does not."""
    return next((reason for reason in report.reasons if reason.template in _ALL), None)
