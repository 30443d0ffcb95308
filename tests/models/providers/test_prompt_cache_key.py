"""The key of equal beginnings: sent to OpenAI itself, through a proxy here, and to nobody else."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from langchain_core.messages import HumanMessage, SystemMessage

from kogniterm.models.calling import ModelOptions
from kogniterm.models.providers.langchain import LangChainModel
from kogniterm.types import ModelInfo
from tests.support.asking import TOOLS, ask
from tests.support.fake_gemini import FakeGemini
from tests.support.provider_streams import openai_stream, spoken

HOST = "api.openai.com"


def certificate(folder: Path) -> Path:
    """Write a certificate for OpenAI's host, which signs itself, with its key; return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "openai.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return file


class OpenAI:
    """A proxy on 127.0.0.1 that stands for OpenAI; `bodies` are the requests it got."""

    def __init__(self, pem: Path) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pem)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return
            with connection:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += connection.recv(1)
                assert head.startswith(f"CONNECT {HOST}:443".encode())
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                with self._context.wrap_socket(connection, server_side=True) as secure:
                    self._answer(secure)

    def _answer(self, secure: ssl.SSLSocket) -> None:
        with secure.makefile("rwb") as stream:
            size = 0
            while (line := stream.readline().strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    size = int(line.partition(b":")[2])
            self.bodies.append(json.loads(stream.read(size)))
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
            stream.write(b"Connection: close\r\n\r\n")
            stream.write(b"".join(openai_stream({"content": "ok"})))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def openai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    pem = certificate(tmp_path)
    server = OpenAI(pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.setenv("HTTPS_PROXY", server.url)
    yield server
    server.close()


async def asked(*system: str, url: str = "", tools: Any = TOOLS, **more: Any) -> None:
    """Ask a model of OpenAI once for each system text."""
    urls = {"openai": url} if url else {}
    options = ModelOptions(keys={"openai": "a-key"}, base_urls=urls, tries=1, **more)
    model = LangChainModel(ModelInfo("openai:gpt-4o", "openai", 20_000, 1_000), options)
    for number, text in enumerate(system):
        await ask(model, SystemMessage(text), HumanMessage(f"question {number}"), tools=tools)
    await model.aclose()


async def test_requests_with_the_same_beginning_share_a_key(openai: OpenAI) -> None:
    await asked("Be brief.", "Be brief.", "Be long.")
    await asked("Be brief.")
    await asked("Be brief.", tools=TOOLS[:1])
    first, second, other, later, fewer = (body["prompt_cache_key"] for body in openai.bodies)
    assert first == second == later
    assert len({first, other, fewer}) == 3
    assert first.startswith("kogniterm-")
    assert len(first) <= 64  # the longest that OpenAI takes


async def test_the_setting_switches_it_off(openai: OpenAI) -> None:
    await asked("Be brief.", prompt_cache=False)
    assert "prompt_cache_key" not in openai.bodies[0]


async def test_a_compatible_service_gets_no_key(fake_gemini: FakeGemini) -> None:
    fake_gemini.raw(*spoken("openai", "ok"))
    await asked("Be brief.", url=fake_gemini.url)
    assert "prompt_cache_key" not in fake_gemini.last.body
