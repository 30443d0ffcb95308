"""`kogniterm doctor`: a correct report, an exit status for scripts, and never a key."""

from __future__ import annotations

import json
import re
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

from kogniterm import settings
from kogniterm.execution.sandbox.confinement import GIVES
from kogniterm.execution.sandbox_probe import Probe, probe
from kogniterm.paths import Paths
from kogniterm.runtime.operations import health_checks
from kogniterm.runtime.operations.health_checks import sandbox_findings
from kogniterm.types import Phrase
from tests.cli.conftest import Shell
from tests.support import postgres
from tests.support.databases import postgres_server  # noqa: F401 (fixture)
from tests.support.fake_gemini import FakeGemini

KEY = "AIzaSyDUMMYDUMMYDUMMYDUMMYDUMMYDUMMY123"


def findings(text: str) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in json.loads(text)["findings"]}


def test_a_configured_provider_makes_it_well(shell: Shell) -> None:
    result = shell.run("doctor", environ={"GOOGLE_API_KEY": KEY})
    assert result.returncode == 0, result.stdout
    assert "model: google_genai:" in result.stdout
    assert "Gemini: configured by the variable GOOGLE_API_KEY" in result.stdout
    assert KEY not in result.stdout + result.stderr


def test_a_local_model_without_weights_is_not_fine(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "KOGNITERM_CONFIG_DIR": str(tmp_path)}
    given = settings.load({"model": "local"}, environ=environ)
    paths = Paths(tmp_path, tmp_path, tmp_path)
    found = health_checks.check_installation(given, paths, lambda: tmp_path, online=False)
    about_models = [one for one in found if "model" in str(one.what)]
    states = {str(one.what): one.state for one in about_models}
    assert states["local model weights: not found"] == "bad"
    assert "model: local" not in states


def test_a_password_in_a_url_is_not_shown(shell: Shell) -> None:
    environ = {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": "http://user:hunter2pass@127.0.0.1:9/v1?key=abcdefgh",
        "KOGNITERM_DATABASE_URL": "postgresql://me:hunter2pass@127.0.0.1:9/db",
        "KOGNITERM_MODEL": "openai:x",
    }
    result = shell.run("doctor", "--online", environ=environ)
    assert "hunter2pass" not in result.stdout + result.stderr
    assert "abcdefgh" not in result.stdout


def test_wrong_settings_are_reported_and_the_rest_still_is(shell: Shell) -> None:
    (shell.config / "config.toml").write_text("plan = 3\n")
    result = shell.run("doctor")
    assert result.returncode == 1
    assert "line 1: plan is 3, but must be one of auto, always, never." in result.stdout
    assert "bash: " in result.stdout


def test_reachability_is_asked_for_and_told(shell: Shell, fake_gemini: FakeGemini) -> None:
    environ = {"KOGNITERM_MODEL": "openai:x", "OPENAI_API_KEY": KEY}
    environ["OPENAI_BASE_URL"] = f"{fake_gemini.url}/v1"
    offline = shell.run("doctor", "--json", environ=environ)
    online = shell.run("doctor", "--json", "--online", environ=environ)
    assert not [what for what in findings(offline.stdout) if "reachable" in what]
    assert findings(online.stdout)[f"OpenAI: {fake_gemini.url}/v1 is reachable"]["state"] == "ok"


def checked_online(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **environ: str
) -> list[tuple[str, str]]:
    """Return what `doctor --online` says of the provider and the database of `environ`."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    given = settings.load({}, environ={"HOME": str(tmp_path), **environ})
    paths = Paths(tmp_path, tmp_path, tmp_path)
    found = health_checks.check_installation(given, paths, lambda: tmp_path, online=True)
    about = ("OpenAI", "postgresql:", "PostgreSQL", "proxy", "certificates")
    return [
        (one.state, str(one.what))
        for one in found
        if not str(one.what).endswith("(database_url)")
        and "configured" not in str(one.what)
        and any(word in str(one.what) for word in about)
    ]


def test_a_provider_is_reached_as_in_a_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fake_gemini: FakeGemini
) -> None:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://model.example/v1"}
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    through = checked_online(monkeypatch, tmp_path, **environ, HTTP_PROXY=fake_gemini.url)
    assert through == [("ok", "OpenAI: http://model.example/v1 is reachable")]
    refused = checked_online(monkeypatch, tmp_path, **environ, HTTP_PROXY="http://127.0.0.1:1")
    assert [state for state, _ in refused] == ["bad"]
    assert "Cannot reach OpenAI at model.example (" in refused[0][1]
    assert "the proxy in HTTP_PROXY." in refused[0][1]
    assert checked_online(monkeypatch, tmp_path, **environ, HTTP_PROXY="ftp://u:pw@h") == [
        (
            "bad",
            "The proxy in HTTP_PROXY is not a valid address; use http://HOST:PORT or "
            "socks5://HOST:PORT.",
        )
    ]
    environ |= {"HTTP_PROXY": "", "OPENAI_BASE_URL": "http://ä*.example/v1"}
    assert (
        "The address ä*.example of OpenAI cannot be used"
        in checked_online(monkeypatch, tmp_path, **environ)[0][1]
    )


def test_a_database_is_reached_as_in_a_session(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    postgres_server: Path,  # noqa: F811
) -> None:
    """Also on a Unix socket, of which the address names no host."""
    for role, state in (("kogniterm", "ok"), ("postgres", "bad"), ("nobody", "bad")):
        address = postgres.address(postgres_server, role=f"{role}:pw") + "&connect_timeout=5"
        ((found, said),) = checked_online(monkeypatch, tmp_path, KOGNITERM_DATABASE_URL=address)
        assert found == state, said
        assert ":pw" not in said


def test_a_folder_that_cannot_be_written_is_bad(shell: Shell) -> None:
    shell.data.write_text("a file in the way")
    result = shell.run("doctor", environ={"GOOGLE_API_KEY": KEY})
    assert result.returncode == 1
    assert f"{shell.data} is not writable" in result.stdout


def test_keys_that_others_can_read_are_mentioned(shell: Shell) -> None:
    file = shell.config / ".env"
    file.write_text(f"GOOGLE_API_KEY={KEY}\n")
    file.chmod(0o644)
    assert f"chmod 600 {file}" in shell.run("doctor").stdout
    file.chmod(0o600)
    assert "chmod" not in shell.run("doctor").stdout


def test_every_optional_package_is_named_and_those_of_this_environment_are_found(
    shell: Shell,
) -> None:
    required = metadata("kogniterm").get_all("Requires-Dist") or ()
    by_extra: dict[str, set[str]] = {}
    always = set()
    for one in required:
        name = re.split(r"[\[<>=; ]", one)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", one)
        if extra and extra[1] not in ("all", "dev", "harbor"):  # harbor is for Harbor's environment
            by_extra.setdefault(extra[1], set()).add(name)
        elif not extra:
            always.add(name)
    found = findings(shell.run("doctor", "--json").stdout)
    named = {match[1] for what in found if (match := re.match(r"package (\S+): installed", what))}
    # The tests' environment has every extra. An extra of several packages is reported by the one
    # that it cannot work without.
    assert set(by_extra) == {
        "acp", "fleet", "hosts", "local-model", "postgres", "telemetry", "vectors"
    }  # fmt: skip
    assert {extra: len(packages & named) for extra, packages in by_extra.items()} == {
        **dict.fromkeys(by_extra, 1),
        "fleet": 2,  # the queue needs the driver too
    }
    providers = {"langchain-openai", "langchain-anthropic", "langchain-ollama"}
    assert named - set().union(*by_extra.values()) == providers & always


def test_the_sandbox_is_tried(shell: Shell, tmp_path: Path) -> None:
    tried = shell.run("doctor").stdout
    works = probe(tmp_path / "probe").kind
    expected = f"sandbox: {GIVES[works].name} works" if works != "none" else "no sandbox works here"
    assert expected in tried
    off = shell.run("doctor", environ={"KOGNITERM_SANDBOX": "off"}).stdout
    assert "sandbox: switched off by the variable KOGNITERM_SANDBOX" in off


def test_local_sockets_that_do_not_work_are_named() -> None:
    for works in (True, False):
        lines = [f"{one.what}" for one in sandbox_findings(Probe("namespaces", own_sockets=works))]
        assert any("local sockets do not work" in line for line in lines) != works


def test_what_is_installed_is_never_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Phrase("{reason}", {"reason": "bwrap: No permissions to create new namespace"})
    reasons = {"bubblewrap": refused, "landlock": Phrase("it did not hide a secret file")}
    for installed in ("/usr/bin/bwrap", None):
        monkeypatch.setattr(health_checks, "find_program", lambda name, path=installed: path)
        for found in (
            Probe("none", reasons=reasons),
            Probe("landlock", reasons={"bubblewrap": refused}, remains=("git", "signal")),
        ):
            lines = [f"{one.what} {one.fix}" for one in sandbox_findings(found)]
            assert ("install bubblewrap" in "".join(lines)) == (installed is None)
            assert any("bwrap: No permissions to create new namespace" in line for line in lines)
            if found.kind == "landlock":
                assert any("signals" in line for line in lines)
