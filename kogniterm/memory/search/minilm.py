"""all-MiniLM-L6-v2 in numpy: a small encoder needs no runtime of its own.

onnxruntime took 68 MB, and since version 1.31 keeps a device id and events in the user's cache
folder and reports to its maker. The weights are 8-bit numbers with scales in an ONNX file; the
reader here knows as much of that format as this one file uses. numpy is loaded on first use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_BLOCK = 32
_DENSE = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
_FLOAT, _INT8 = 1, 3
"""Numbers of ONNX's element types."""


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of 8-bit numbers and their scales; a row is made a vector when it is looked up."""

    rows: NDArray[np.int8]
    scale: Matrix

    def __getitem__(self, places: NDArray[np.int64]) -> Matrix:
        scale = self.scale if self.scale.size in (1, self.rows.shape[1]) else self.scale[places]
        found: Matrix = self.rows[places] * scale
        return found


class Encoder:
    """The network, from the ONNX file at `path`. Raises `ValueError` for another network's file."""

    def __init__(self, path: Path) -> None:
        tensors, dense = _read(path)
        try:
            self._words = _table(tensors, "inner.embeddings.word_embeddings.weight")
            self._places = _table(tensors, "inner.embeddings.position_embeddings.weight")
            self._kind = tensors["inner.embeddings.token_type_embeddings.weight"][0]
            self._norm = _norm(tensors, "inner.embeddings.LayerNorm")
            self._layers = [_Layer(tensors, dense, number) for number in range(_LAYERS)]
        except KeyError as error:
            raise ValueError(f"{path} holds no all-MiniLM-L6-v2: {error} is missing") from error

    def encode(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Matrix:
        """The hidden state of every word piece; rows are sentences, `mask` is 1 where they are."""
        import numpy

        places = numpy.arange(ids.shape[1], dtype=numpy.int64)
        state = self._words[ids] + self._places[places] + self._kind
        state = _normed(state, *self._norm)
        hidden: Matrix = ((mask[:, None, None, :] - 1) * 1e9).astype(numpy.float32)
        for layer in self._layers:
            state = layer.run(state, hidden)
        return state


class _Layer:
    """One layer: attention, then two dense steps, each added to its input and normalised."""

    def __init__(
        self,
        tensors: Mapping[str, NDArray[np.generic]],
        dense: Mapping[str, Matrix],
        number: int,
    ) -> None:
        import numpy

        name = f"inner.encoder.layer.{number}."
        steps = [(dense[f"{name}{one}.bias"], _floats(tensors, f"{name}{one}.bias"))
                 for one in _DENSE]  # fmt: skip
        # Query, key and value in one product.
        self._in = numpy.concatenate([one for one, _ in steps[:3]], axis=1)
        self._in_bias = numpy.concatenate([one for _, one in steps[:3]])
        self._out, self._wide, self._narrow = steps[3:]
        self._first = _norm(tensors, f"{name}attention.output.LayerNorm")
        self._second = _norm(tensors, f"{name}output.LayerNorm")

    def run(self, state: Matrix, hidden: Matrix) -> Matrix:
        """The layer's output for `state`; `hidden` keeps what is padding from being attended."""
        import numpy

        count, length, size = state.shape
        parts = _dense(state, self._in, self._in_bias)
        query, key, value = parts.reshape(count, length, 3, _HEADS, -1).transpose(2, 0, 3, 1, 4)
        weights = query @ key.transpose(0, 1, 3, 2) / math.sqrt(size // _HEADS) + hidden
        weights = numpy.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        seen = (weights @ value).transpose(0, 2, 1, 3).reshape(count, length, size)
        state = _normed(state + _dense(seen, *self._out), *self._first)
        wide = _gelu(_dense(state, *self._wide))
        return _normed(state + _dense(wide, *self._narrow), *self._second)


def _dense(state: Matrix, weight: Matrix, bias: Matrix) -> Matrix:
    """One product for all rows: many small ones take twice as long."""
    flat = state.reshape(-1, state.shape[-1]) @ weight
    flat += bias
    return flat.reshape(*state.shape[:-1], -1)


def _normed(state: Matrix, weight: Matrix, bias: Matrix) -> Matrix:
    import numpy

    state = state - state.mean(axis=-1, keepdims=True)
    spread = numpy.sqrt((state * state).mean(axis=-1, keepdims=True) + _EPSILON)
    found: Matrix = state / spread * weight + bias
    return found


def _gelu(state: Matrix) -> Matrix:
    """x Φ(x), in blocks of rows: what is computed between stays in the processor's cache."""
    import numpy

    flat = state.reshape(-1, state.shape[-1])
    found = numpy.empty_like(flat)
    for start in range(0, len(flat), _BLOCK):
        rows = flat[start : start + _BLOCK]
        found[start : start + _BLOCK] = 0.5 * rows * (1.0 + _error_function(rows))
    return found.reshape(state.shape)


def _error_function(rows: Matrix) -> Matrix:
    """erf(x / √2), by the formula 7.1.26 of Abramowitz and Stegun: numpy has none."""
    import numpy

    size = numpy.abs(rows) * numpy.float32(math.sqrt(0.5))
    part = 1.0 / (1.0 + 0.3275911 * size)
    series = part * 1.061405429
    for term in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series += term
        series *= part
    series *= numpy.exp(-size * size)
    found: Matrix = numpy.copysign(1.0 - series, rows)
    return found


# --- the file ---


def _read(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, Matrix]]:
    """The tensors of the file by name, and the weights of its products by their bias's name."""
    import numpy

    data = memoryview(path.read_bytes())
    graph = next((value for number, value in _fields(data) if number == 7), None)
    if not isinstance(graph, memoryview):
        raise ValueError(f"{path} is no ONNX file")
    tensors: dict[str, NDArray[np.generic]] = {}
    product_of: dict[str, str] = {}
    weight_of: dict[str, str] = {}
    for number, value in _fields(graph):
        if number == 5 and isinstance(value, memoryview):
            name, tensor = _tensor(value)
            if tensor is not None:
                tensors[name] = tensor
        elif number == 1 and isinstance(value, memoryview):
            operation, inputs, outputs = _node(value)
            if operation == "MatMul":
                product_of[outputs[0]] = inputs[1]
            elif operation == "Add":
                weights = [product_of[one] for one in inputs if one in product_of]
                biases = [one for one in inputs if one.endswith(".bias")]
                weight_of.update(zip(biases, weights, strict=False))
    dense = {}
    for bias, weight in weight_of.items():
        quantised, scale = tensors.pop(f"{weight}_q"), _floats(tensors, f"{weight}_scale")
        dense[bias] = numpy.ascontiguousarray(quantised.astype(numpy.float32) * scale)
    return tensors, dense


def _tensor(data: memoryview) -> tuple[str, NDArray[np.generic] | None]:
    """Name and values of a tensor; None for element types that the network does not need."""
    import numpy

    shape: list[int] = []
    name, kind, raw = "", 0, b""
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            shape.append(value)
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number == 8 and isinstance(value, memoryview):
            name = bytes(value).decode()
        elif number == 9 and isinstance(value, memoryview):
            raw = bytes(value)
    if kind not in (_FLOAT, _INT8):
        return name, None
    values = numpy.frombuffer(raw, dtype=numpy.float32 if kind == _FLOAT else numpy.int8)
    return name, values.reshape(shape)


def _node(data: memoryview) -> tuple[str, Sequence[str], Sequence[str]]:
    """Operation, inputs and outputs of a node."""
    inputs: list[str] = []
    outputs: list[str] = []
    operation = ""
    for number, value in _fields(data):
        if not isinstance(value, memoryview) or number not in (1, 2, 4):
            continue
        text = bytes(value).decode()
        if number == 1:
            inputs.append(text)
        elif number == 2:
            outputs.append(text)
        else:
            operation = text
    return operation, inputs, outputs


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a protocol-buffer message, by number: whole numbers, or bytes."""
    place = 0
    while place < len(data):
        key, place = _whole(data, place)
        if key & 7 == 0:
            value, place = _whole(data, place)
            yield key >> 3, value
            continue
        if key & 7 == 2:
            size, place = _whole(data, place)
        elif key & 7 in (1, 5):
            size = 8 if key & 7 == 1 else 4
        else:
            raise ValueError("not a protocol-buffer message")
        yield key >> 3, data[place : place + size]
        place += size


def _whole(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def _floats(tensors: Mapping[str, NDArray[np.generic]], name: str) -> Matrix:
    import numpy

    return tensors[name].astype(numpy.float32)


def _norm(tensors: Mapping[str, NDArray[np.generic]], name: str) -> tuple[Matrix, Matrix]:
    return _floats(tensors, f"{name}.weight"), _floats(tensors, f"{name}.bias")


def _table(tensors: Mapping[str, NDArray[np.generic]], name: str) -> _Table:
    import numpy

    return _Table(tensors[f"{name}_q"].astype(numpy.int8), _floats(tensors, f"{name}_scale"))
