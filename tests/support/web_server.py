"""A web server on 127.0.0.1 that answers from a table of pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Page:
    """An answer; one that is `cut` says that it is longer than it is."""

    body: str | bytes = b""
    kind: str = "text/plain"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass
class WebServer:
    """The pages by their paths, and the path and headers of each request.

    The path `/to/ADDRESS` redirects to the address, in which `|` stands for `/`.
    """

    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def page(self, path: str) -> Page:
        if path.startswith("/to/"):
            target = path.removeprefix("/to/").replace("|", "/")
            return Page(status=302, headers={"Location": target})
        return self.pages.get(path.partition("?")[0], Page(status=404))


@contextmanager
def serving(pages: Mapping[str, Page] | None = None) -> Iterator[WebServer]:
    """Serve the pages, and those added later, until the end of the block."""
    web = WebServer(dict(pages or {}))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append((self.path, dict(self.headers)))
            page = web.page(self.path)
            data = page.body.encode() if isinstance(page.body, str) else page.body
            self.send_response(page.status)
            for name, value in {"Content-Type": page.kind, **page.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data) + 1000 * page.cut))
            self.end_headers()
            # A client stops when it has read enough.
            with suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
