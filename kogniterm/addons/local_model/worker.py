"""The process that holds the weights: run as a script, it speaks JSON lines on its pipes.

A process of its own because the library keeps Python's lock while it loads (a second on a quiet
machine, many on a busy one), which would freeze the prompt; because a fault in native code must
not take the session with it; and because leaving ends it at once. It imports nothing of
KogniTerm, so that it starts in the time Python needs.

In, first line: {"file", "context", "threads"}; then requests {"id", "text", "max_tokens", "stop",
"grammar", "schema"} (the last two may be null), or {"cancel": id}. Out: {"ready": true} or
{"failed": kind, "detail"}, then per request {"id", "text"} as it streams and {"id", "end":
reason, "input", "output", "cached"} or {"id", "error": kind, "detail"}. End of input ends it.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import sys
import threading
from typing import IO, Any

IDLE_SECONDS = 900.0  # then the memory goes back; the next request starts a new process


class ModelWorker:
    """Answers requests one after the other, on the main thread."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._server: Any = None

    def listen(self) -> None:
        """Read requests until the other side is gone; then nothing here matters any more."""
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "cancel" in message:
                self._cancelled.add(message["cancel"])
            else:
                self._requests.put(message)
        os._exit(0)

    def load(self, start: dict[str, Any]) -> bool:
        """Load the weights; says what failed, if anything."""
        try:
            import xllamacpp
        except ImportError as error:
            kind = "missing" if isinstance(error, ModuleNotFoundError) else "library"
            self._tell({"failed": kind, "detail": str(error)})
            return False
        try:
            self._server = xllamacpp.Server(parameters(xllamacpp, start))
        except RuntimeError as error:
            self._tell({"failed": "load", "detail": str(error)})
            return False
        self._tell({"ready": True})
        return True

    def serve(self) -> None:
        """Answer requests until none has come for a long time."""
        while True:
            try:
                request = self._requests.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                return
            if request["id"] not in self._cancelled:
                self._answer(request)

    def _answer(self, request: dict[str, Any]) -> None:
        number = request["id"]

        def on_chunk(chunk: dict[str, Any]) -> bool:
            self._pass_on(number, chunk)
            return number in self._cancelled

        self._server.handle_completions(completion(request), on_chunk)
        if number in self._cancelled:
            self._tell({"id": number, "end": "cancelled"})

    def _pass_on(self, number: int, chunk: dict[str, Any]) -> None:
        if "error" in chunk:
            error = chunk["error"]
            detail = error.get("message", "")
            self._tell({"id": number, "error": error.get("type", ""), "detail": detail})
            return
        choice = chunk["choices"][0]
        if choice["text"]:
            self._tell({"id": number, "text": choice["text"]})
        if choice["finish_reason"]:
            usage = chunk["usage"]
            details = usage.get("prompt_tokens_details", {})
            self._tell(
                {
                    "id": number,
                    "end": choice["finish_reason"],
                    "input": usage["prompt_tokens"],
                    "output": usage["completion_tokens"],
                    "cached": details.get("cached_tokens", 0),
                }
            )

    def _tell(self, message: dict[str, Any]) -> None:
        self._out.write(json.dumps(message).encode() + b"\n")
        self._out.flush()


def completion(request: dict[str, Any]) -> dict[str, Any]:
    """Return the library's form of a request. Temperature 0: the likeliest command, every time."""
    body = {
        "prompt": request["text"],
        "n_predict": request["max_tokens"],
        "temperature": 0,
        "seed": 0,
        "cache_prompt": True,
        "stream": True,
        "stop": request["stop"],
    }
    forms = {"grammar": request["grammar"], "json_schema": request["schema"]}
    return body | {name: form for name, form in forms.items() if form is not None}


def parameters(library: Any, start: dict[str, Any]) -> Any:
    """Return the parameters, with every unsuitable default replaced.

    The library always opens a port on 127.0.0.1: it gets a random key, no web page and no
    foreign origins. Threads sleep instead of spinning (`poll` 0): spinning ones stall each
    other as soon as anything else runs. The 8 GiB prompt cache in memory is switched off.
    """
    chosen = library.CommonParams()
    chosen.model.path = start["file"]
    chosen.n_ctx = start["context"]
    chosen.n_parallel = 1
    chosen.n_gpu_layers = 0
    chosen.fit_params = False
    chosen.warmup = False
    chosen.cache_ram_mib = 0
    chosen.cache_idle_slots = False
    chosen.n_ctx_checkpoints = 0
    chosen.ui = False
    chosen.endpoint_slots = False
    chosen.api_keys = [secrets.token_hex(16)]
    chosen.cors_origins = ""
    chosen.n_threads_http = 1
    chosen.offline = True
    chosen.verbosity = -1
    for threads in (chosen.cpuparams, chosen.cpuparams_batch):
        threads.n_threads = start["threads"]
        threads.poll = 0
    return chosen


def main() -> None:
    """Load the model and serve requests. The library's output goes to stderr, not to the pipe."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        start = json.loads(sys.stdin.buffer.readline())
        worker = ModelWorker(out)
        threading.Thread(target=worker.listen, daemon=True).start()
        if worker.load(start):
            worker.serve()
    # The library's own threads have nothing left to say; waiting for them could hang.
    os._exit(0)


if __name__ == "__main__":
    main()
