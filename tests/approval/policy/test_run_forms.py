"""Permissions for a program with a fixed subcommand: what they cover, and what they never do."""

from __future__ import annotations

import pytest

from kogniterm.approval import Lease, classify, grant, judge, offers
from kogniterm.approval.policy.permission_file import can_be_saved
from kogniterm.approval.policy.verdict import Circumstances
from kogniterm.settings.user_files import toml_values

WORK = "/work/p"
IN_SANDBOX = Circumstances(sandboxed=True, folder=WORK)

COVERED = {
    "pytest -q": ["pytest", "pytest -x --tb=short tests/test_b.py::test_one", "pytest -k 'a or b'",
                  "pytest -q 2>&1 | tail -5", "pytest tests/test_a.py && echo done"],
    "python -m pytest -q tests/test_a.py": ["python -m pytest tests/test_b.py -k size"],
    "uv run pytest -q": ["uv run pytest --maxfail=1"],
    "npm test": ["npm test", "npm test --silent"],
    "npm run build": ["npm run build", "npm run build -s"],
    "make test": ["make test", "make -j4 test", "make -s test"],
    "cargo test": ["cargo test --release parser", "cargo test --workspace"],
    "cargo check": ["cargo check --all-targets"],
    "go test ./...": ["go test -run TestX ./pkg", "go test -v -race ./..."],
    "go build ./...": ["go build ."],
    "ruff check --fix .": ["ruff check src", "ruff check --select=E501 src"],
    "mypy src": ["mypy --strict src tests"],
    "tsc --noEmit": ["tsc --noEmit --strict"],
    "npx eslint .": ["npx eslint src --fix"],
    "git checkout -b feat": ["git checkout -b other main"],
    "git stash": ["git stash -u", "git stash -m 'a b'"],
    "npm test -- size": ["npm test -- -t 'filesize' --watch=false", "npm test -- other"],
    "sed -i s/a/b/ README.md": ["sed -i 's/(x)/[y] z/g' src/a.py", "sed -i -E -e s/a/b/ -e 2d f"],
}  # fmt: skip

WIDER = {
    "pytest -q": [
        "pytest -p evil", "pytest -c /tmp/evil.ini", "pytest -c evil.ini", "pytest --rootdir=/",
        "pytest -o addopts='-p evil'", "pytest --pdbcls=evil:Shell", "pytest --confcutdir /",
        "pytest /etc", "pytest ../other", "pytest tests/../../x", "pytest ~/x", "pytest @args.txt",
        "pytest --junitxml=out.xml", "pytest --basetemp=src", "pytest -W error::evil.Class",
        "pytest $X", "pytest $(cat f)", "pytest *.py", "pytest -q > out", "pytest < data",
        "pytest; make", "pytest && rm -rf src", "pytest\nmake", "sudo pytest", "env X=1 pytest",
        "PYTEST_ADDOPTS='-p evil' pytest", "PYTHONPATH=/tmp pytest", "./pytest", "/tmp/pytest",
        "cd tests && pytest", "xargs pytest", "bash -c pytest", "pytest --co -p=evil",
        "pytest -qp evil", "pytest -- -p evil", "pytest --import-mode importlib", "pytest ''",
        "python -m pytest", "pytest -n 4 --dist=load -p x", "pytest --conf evil",
    ],
    "python -m pytest -q tests/test_a.py": [
        "python -m http.server", "python -c 'import os'", "python evil.py", "python -I -m pytest",
        "python -m pytest -p evil", "python3 -m pytest", "python -m pytest_evil",
    ],
    "uv run pytest -q": ["uv run --with evil pytest", "uv run python x.py", "uv run pytest -p e"],
    "npm test": ["npm run build", "npm install x", "npm test --prefix /tmp", "npm exec evil",
                 "npm test --script-shell=/tmp/evil", "npm test -- --config=/tmp/x"],
    "npm run build": ["npm run deploy", "npm run", "npm run build x", "npm run build --prefix .."],
    "make test": ["make", "make all", "make test clean", "make -f evil test", "make -C /tmp test",
                  "make test SHELL=/tmp/evil", "make --eval='x:;id' test", "make -I /tmp test"],
    "cargo test": ["cargo build", "cargo test --config evil", "cargo test --manifest-path ../x",
                   "cargo test --target-dir /tmp", "cargo run", "cargo +evil test",
                   "cargo test -Z unstable-options", "cargo test -C .."],
    "go test ./...": ["go test -exec ./evil ./...", "go test -toolexec=evil .", "go run .",
                      "go test -overlay=x .", "go test -o /tmp/x .", "go test -modfile=x ./...",
                      "go test ../other", "go test -vettool=evil .", "go vet ./..."],
    "ruff check --fix .": ["ruff check --config evil.toml .", "ruff format .", "ruff check ../x",
                           "ruff check --output-file=x .", "ruff check --cache-dir=src ."],
    "mypy src": ["mypy --config-file evil src", "mypy --python-executable ./evil src",
                 "mypy --install-types src", "mypy /", "mypy --cache-dir=src src"],
    "tsc --noEmit": ["tsc -p /tmp/evil", "tsc --outDir src", "tsc @args", "tsc --project x"],
    "npx eslint .": ["npx evil", "npx -p evil eslint .", "npx eslint -c evil.js .",
                     "npx eslint --rulesdir evil .", "npx eslint --plugin evil ."],
    "git checkout -b feat": ["git checkout feat", "git checkout -- .", "git checkout -f main",
                             "git -C .. checkout -b x", "git -c core.hooksPath=. checkout -b x"],
    "git stash": ["git stash pop", "git stash drop", "git stash clear", "git stash push x"],
    "npm test -- size": ["npm test", "npm test -- --config=/tmp/x", "npm test -- -c x",
                         "npm test -- --reporter evil", "npm test -- -r evil", "npm test -- ../x",
                         "npm run build -- size", "npm test -- --prefix .."],
    "sed -i s/a/b/ README.md": [
        "sed -i s/a/b/e x", "sed -i '1w /tmp/x' f", "sed -i '1e id' f", "sed -i e f",
        "sed -i 'r /etc/passwd' f", "sed -i s/a/b/w.git/hooks/x f", "sed -i -f s.sed f",
        "sed -i s/a/b/ /etc/passwd", "sed -i s/a/b/ ../x", "sed -i s/a/b/ ~/x",
        "sed -i.bak s/a/b/ f",
        "sed -i s/a/b/ .git/config", "sed -i s/a/b/ .bashrc", "sed -i s/a/b/ .envrc",
        "sed -i s/a/b/ .vscode/settings.json", "sed -i s/a/b/ $X", "sed -i s/a/b/ *.py",
        "sed -i s/a/b/ f > g", "sed -i s/a/b/ f && rm x", "sed -i --in-place=/tmp/* s/a/b/ f",
    ],
}  # fmt: skip


def lease(command: str) -> Lease:
    report = classify(command, cwd=WORK, workspace=WORK)
    assert offers(report, folder=WORK, workspace=WORK)[0].kind == "runs", command
    return grant(report, "runs", id="s1", folder=WORK, workspace=WORK)


def verdict(granted: Lease, command: str, now: Circumstances = IN_SANDBOX) -> str:
    report = classify(command, cwd=now.folder, workspace=WORK)
    return judge(report, leases=[granted], circumstances=now).kind


@pytest.mark.parametrize("command", COVERED)
def test_the_next_call_like_it_is_covered_and_nothing_wider(command: str) -> None:
    granted = lease(command)
    for like in (command, *COVERED[command]):
        assert verdict(granted, like) == "allow", like
    for wider in WIDER.get(command, ()):
        assert verdict(granted, wider) == "ask", wider


def test_every_other_program_asks() -> None:
    for command in COVERED:
        granted = lease(command)
        for other in set(COVERED) - {command}:
            assert verdict(granted, other) == "ask", (command, other)


def test_it_holds_in_a_sandbox_and_in_its_folder_only() -> None:
    granted = lease("pytest -q")
    assert verdict(granted, "pytest", Circumstances(folder=WORK)) == "ask"
    elsewhere = Circumstances(sandboxed=True, folder=f"{WORK}/sub")
    assert verdict(granted, "pytest", elsewhere) == "ask"
    assert "in the sandbox" in str(granted.text)
    assert can_be_saved(granted, toml_values)


def test_what_differs_by_more_than_an_option_is_offered_exactly_only() -> None:
    for command in ("pytest -p x", "make CC=gcc test", "python script.py", "npx evil", "make -f x",
                    "sed -i s/a/b/e x", "sed -i '1w f' x", "sed -i s/a/b/ .env"):  # fmt: skip
        report = classify(command, cwd=WORK, workspace=WORK)
        assert {one.kind for one in offers(report, folder=WORK)} == {"exact"}, command


EVERYDAY = {
    "git add -A": "git add src/a.py",
    'git commit -m "x"': 'git commit -m "y"',
    "git checkout -b feat": "git checkout -b other",
    "git stash": "git stash",
    "pytest -q": "pytest -x tests",
    "python -m pytest -q tests/test_a.py": "python -m pytest -q -k size",
    "npm test": "npm test --silent",
    "npm run build": "npm run build",
    "make test": "make -j4 test",
    "cargo test": "cargo test parser",
    "go test ./...": "go test -run TestX ./pkg",
    "ruff check --fix .": "ruff check src",
    "mypy src": "mypy src tests",
    "black src": "black tests",
    "uv run pytest -q": "uv run pytest -x",
    "tsc --noEmit": "tsc --noEmit --strict",
    "npx eslint .": "npx eslint src --fix",
    "mkdir -p a/b": "mkdir c",
    "touch x": "touch y",
    "cp a b": "cp c d",
    "sed -i s/a/b/ README.md": "sed -i s/c/d/ docs/x.md",
}
"""Everyday commands that are approved often, each with the next call like it."""
EXACT = (
    "git push", "pip install requests", "docker compose up -d", "terraform plan",
    "python script.py", "node -e 1",
)  # fmt: skip
READS = (
    "ls", "ls -la src", "git status", "git log --oneline -5", "git diff", "cat README.md | head -5",
    "grep -rn foo src", 'find . -name "*.py" | xargs wc -l', "sed -n 1,20p README.md",
)  # fmt: skip


@pytest.mark.parametrize("command", EVERYDAY)
def test_an_everyday_command_has_an_offer_for_the_next_call_like_it(command: str) -> None:
    report = classify(command, cwd=WORK, workspace=WORK)
    covering = []
    for offer in offers(report, folder=WORK, workspace=WORK):
        granted = grant(
            report, offer.kind, id="s1", folder=WORK, workspace=WORK, anywhere=offer.anywhere
        )
        assert verdict(granted, command) == "allow"
        if verdict(granted, EVERYDAY[command]) == "allow":
            covering.append(offer.kind)
    assert covering, command


def test_what_reads_has_one_key_for_all_and_what_runs_files_or_connects_stays_exact() -> None:
    for command in READS:
        assert classify(command, cwd=WORK, workspace=WORK).label == "safe_readonly", command
    for command in EXACT:
        report = classify(command, cwd=WORK, workspace=WORK)
        for offer in offers(report, folder=WORK, workspace=WORK):
            granted = grant(
                report, offer.kind, id="s1", folder=WORK, workspace=WORK, anywhere=offer.anywhere
            )
            assert verdict(granted, f"{command} --more") == "ask", command
