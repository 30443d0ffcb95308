"""A calculator for recipes: arithmetic on numbers, and nothing a formula could reach beyond."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.tools.base import Arguments, SchemaTool

MAX_FORMULA = 1_000
MAX_BITS = 4_096
"""Powers beyond this many bits are refused: they would take the machine with them."""

_TWO: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_ONE: Mapping[type[ast.unaryop], Callable[[float], float]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


class Formula(Arguments):
    """A formula to work out."""

    formula: str = Field(max_length=MAX_FORMULA)


async def _calculate(arguments: Formula) -> str:
    try:
        value = _value(ast.parse(arguments.formula.strip(), mode="eval").body)
        return str(value)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError("{formula} is not a formula.", formula=arguments.formula) from error
    except ArithmeticError as error:
        raise ToolError("The formula cannot be calculated: {why}.", why=error) from error


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _ONE:
            return _ONE[type(sign)](_value(operand))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _TWO:
            first, second = _value(left), _value(right)
            huge = isinstance(first, int) and first.bit_length() * abs(second) > MAX_BITS
            if huge and isinstance(sign, ast.Pow):
                raise ToolError("The result of ** would be too large.")
            result = _TWO[type(sign)](first, second)
            if isinstance(result, complex):
                raise ToolError("The result of the formula is not a real number.")
            return result
    raise ToolError("Use only numbers, + - * / // % ** and ( ).")


def calculator() -> SchemaTool[Formula]:
    """Return the tool `calculate`, because models make mistakes in arithmetic."""
    return SchemaTool("calculate", Formula, _calculate)
