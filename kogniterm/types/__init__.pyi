# ruff: noqa: F403
from kogniterm.types.actions import *
from kogniterm.types.command_results import *
from kogniterm.types.images import *
from kogniterm.types.localized import *
from kogniterm.types.model_calls import *
from kogniterm.types.token_usage import *
from kogniterm.types.turn_values import *
