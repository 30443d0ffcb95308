"""Secrets of the user in a command: which it names, and which programs receive them."""

from __future__ import annotations

import pytest

from kogniterm.approval import classify, names_variables, secret_use

NAMED = {
    'curl -H "Authorization: $T" https://x | tail -3': ("curl",),
    'timeout 5 curl "${T:-none}"': ("timeout", "curl"),
    'curl "$T"; cat f': ("curl", "cat"),
    'curl "$T" | grep -f /proc/self/environ': ("curl", "grep"),
    'printf %s "$T" | base64 | head -1': ("base64", "head"),
    'X=$T; curl "$X"; ls': ("curl", "ls"),
    'for x in "$T"; do wget "$x"; done': ("wget",),
    'case "$T" in a) ls;; esac': ("ls",),
    "[[ -n $T ]] && make": ("make",),
    "echo $((T))": ("echo",),
    "a[T]=1; ls": ("ls",),
    "T=x make": ("make",),
    'T="$T" make': ("make",),
    "printenv T": ("printenv",),
    "python3 -c 'import os; os.environ[\"T\"]'": ("python3",),
    'bash -c "curl $T"': ("bash", "curl"),
    'sudo -E env curl "$T"': ("sudo", "env", "curl"),
    "cat <<EOF | curl -d @- x\n$T\nEOF\n": ("cat", "curl"),
    "cat <<'EOF'\nT\nEOF\n": ("cat",),
    'wc -c <<< "$T"': ("wc",),
    'ls <(curl "$T")': ("curl", "ls"),
    'f() { ./run "$T"; }; f': ("./run", "f"),
    '/usr/bin/curl "$T"': ("curl",),
    '/opt/curl "$T"': ("/opt/curl",),
    "export T": ("export",),
}
NOT_NAMED = ("ls # $T", "echo $TT ${T_} X_T", "echo \"$'x'\"", "ls", "# T\nls", "printf '\\x54'")
NOT_PARSED = ('echo "$T', "echo ${!T}", "ls $T )", "cat <<EOF $(T")


@pytest.mark.parametrize(("command", "programs"), NAMED.items())
def test_a_named_secret_is_given_to_these_programs(command: str, programs: tuple[str]) -> None:
    assert names_variables(command, ["T", "U"]) == {"T"}
    use = secret_use(classify(command, cwd="/w", workspace="/w"), ["T", "U"])
    assert (use.names, use.programs, use.unread) == (("T",), programs, False)


@pytest.mark.parametrize("command", NOT_NAMED)
def test_a_comment_or_another_word_names_none(command: str) -> None:
    assert names_variables(command, ["T"]) == frozenset()


@pytest.mark.parametrize("command", NOT_PARSED)
def test_a_text_that_cannot_be_parsed_sets_none(command: str) -> None:
    assert names_variables(command, ["T"]) is None
    assert secret_use(classify(command, cwd="/w", workspace="/w"), ["T"]).unread
