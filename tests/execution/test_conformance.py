"""The executor compared with a table of what a user expects of a terminal.

Each case runs in an executor of its own. A step is the command, the text the model must see
(compared after stripping; None: not looked at) and the exit code (`...`: not looked at).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kogniterm.execution import open_executor

Step = tuple[str, str | None, Any]


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[Step, ...]
    keys: tuple[Any, ...] = ()
    timeout: float = 60.0


def case(name: str, *steps: Step, keys: tuple[Any, ...] = (), timeout: float = 60.0) -> Case:
    return Case(name, steps, keys, timeout)


EXIT = [
    case("true", ("true", "", 0)),
    case("false", ("false", "", 1)),
    case("exit code", ("exit 3", "", 3), ("echo again", "again", 0)),
    case("exit code wraps", ("exit 300", "", 44)),
    case("exit in the middle", ("echo a; exit 7; echo b", "a", 7)),
    case(
        "command not found",
        ("nosuchprogram", "bash: line 1: nosuchprogram: command not found", 127),
    ),
    case("not executable", ("/etc/passwd", None, 126)),
    case("exec", ("exec sh -c 'echo in; exit 9'", "in", 9), ("echo next", "next", 0)),
    case("set -e", ("set -e; false; echo no", "", 1), ("echo still here", "still here", 0)),
    case("set -u", ("set -u; echo $nope; echo no", "bash: line 1: nope: unbound variable", 127)),
    case("subshell code", ("(exit 5)", "", 5)),
    case("last of pipe", ("false | true", "", 0)),
    case("pipefail", ("set -o pipefail; false | true", "", 1)),
    case("sigpipe", ("yes | head -1; echo ${PIPESTATUS[0]}", "y\n141", 0)),
    case("sigpipe pipefail", ("set -o pipefail; yes | head -1", "y", 141)),
    case("killed child", ("bash -c 'kill -9 $$'; echo $?", None, 0)),
    case("kills itself TERM", ("kill $$; sleep 1", None, 143), ("echo alive", "alive", 0)),
    case("kills itself KILL", ("kill -9 $$; sleep 1", None, 137), ("echo alive", "alive", 0)),
    case("interrupts itself", ("kill -INT $$; sleep 1; echo no", None, 130)),
    case("exit trap", ("trap 'echo bye' EXIT; echo hi", "hi\nbye", 0), ("echo x", "x", 0)),
    case("exit trap changes code", ("trap 'exit 9' EXIT; exit 4", "", 9)),
    case("exit trap with set -e", ("set -e; trap 'echo bye' EXIT; false", "bye", 1)),
    case("exit trap in subshell", ("( trap 'echo sub' EXIT; true ); echo main", "sub\nmain", 0)),
    case("err trap", ("trap 'echo err' ERR; false; true", "err", 0)),
    case("int trap", ("trap 'echo got; exit 3' INT; kill -INT $$; sleep 1", "got", 3)),
    case("empty", ("", "", 0)),
    case("only blanks", ("   \n  ", "", 0)),
    case("only a comment", ("# nothing", "", 0)),
    case("trailing comment", ("echo a # b", "a", 0)),
    case("trailing backslash", ("echo a \\", "a \\", 0)),
    case("trailing semicolon", ("echo a;", "a", 0)),
    case("trailing ampersand", ("true &", "", 0)),
    case("trailing newline", ("echo a\n\n", "a", 0)),
    case("leading newline", ("\n\necho a", "a", 0)),
    case("open double quote", ('echo "abc', None, 2), ("echo next", "next", 0)),
    case("open single quote", ("echo 'abc", None, 2), ("echo next", "next", 0)),
    case("open substitution", ("echo $(echo", None, 2), ("echo next", "next", 0)),
    case("open brace", ("{ echo a", None, 2), ("echo next", "next", 0)),
    case("open if", ("if true; then echo a", None, 2), ("echo next", "next", 0)),
    case("open quote after a failure", ("false", "", 1), ('echo "abc', None, 2)),
    case("syntax error", ("echo )", None, 2), ("echo next", "next", 0)),
    case("error on the second line", ("echo a\necho )\necho b", None, 2)),
    case("heredoc", ("cat <<EOF\none\n$((1+1))\nEOF", "one\n2", 0)),
    case("quoted heredoc", ("cat <<'EOF'\n$HOME `x` \\\nEOF", "$HOME `x` \\", 0)),
    case("tabbed heredoc", ("cat <<-EOF\n\tone\n\tEOF", "one", 0)),
    case("heredoc then more", ("cat <<A\n1\nA\necho 2", "1\n2", 0)),
    case("two heredocs", ("cat <<A - <<B\n1\nA\n2\nB", "2", 0)),
    case("unfinished heredoc", ("cat <<EOF\nhi", None, 0), ("echo next", "next", 0)),
    case("here string", ("cat <<< 'a b'", "a b", 0)),
    case("exclamation mark", ('echo "hi! !! !x"', "hi! !! !x", 0)),
    case("tab in text", ("echo 'a\tb'", "a\tb", 0)),
    case("quotes in quotes", ("""echo "it's" '"q"'""", 'it\'s "q"', 0)),
    case("backslashes", (r"echo 'a\nb' a\\b", r"a\nb a\b", 0)),
    case("unicode", ("echo 'ñ 日本 🙂'", "ñ 日本 🙂", 0)),
    case("long command", ("echo " + "x" * 200_000 + " | wc -c", "200001", 0)),
    case("many lines", ("\n".join(f"echo {i}" for i in range(300)) + "\n", None, 0)),
    case("line numbers", ("\necho $LINENO", "2", 0)),
    case("function and loop", ("f() { for i in 1 2; do echo $1$i; done; }\nf a", "a1\na2", 0)),
    case("case", ("case x in y) echo no;; x) echo yes;; esac", "yes", 0)),
    case("process substitution", ("diff <(echo a) <(echo a) && echo same", "same", 0)),
    case("return at the top", ("return 3", None, 2)),
    case("dollar zero", ("echo $0", "bash", 0)),
    case("arguments", ("echo $#", "0", 0)),
    case("time keyword", ("time true", None, 0)),
    case("begins with a dash", ("-foo", "bash: line 1: -foo: command not found", 127)),
    case("windows line ends", ("echo a\r\n", "a", 0)),
    case("kill the group", ("kill 0; sleep 5", None, 143), ("echo on", "on", 0)),
    case("negation", ("! true", "", 1)),
]

CARRY = [
    case("cd", ("cd /usr", "", 0), ("pwd", "/usr", 0)),
    case("cd -", ("cd /usr", "", 0), ("cd /etc", "", 0), ("cd -", "/usr", 0), ("pwd", "/usr", 0)),
    case(
        "cd through a link",
        ("mkdir d; ln -s d l; cd l; basename $PWD", "l", 0),
        ("basename $PWD", "l", 0),
    ),
    case("cd in a subshell", ("cd /usr", "", 0), ("(cd /etc)", "", 0), ("pwd", "/usr", 0)),
    case("folder removed", ("mkdir gone; cd gone; rmdir ../gone", "", 0), ("echo ok", "ok", 0)),
    case("folder with blanks", ("mkdir 'a b'; cd 'a b'", "", 0), ('basename "$PWD"', "a b", 0)),
    case(
        "pushd",
        ("pushd /usr >/dev/null; pushd /etc >/dev/null", "", 0),
        ("popd >/dev/null; pwd", "/usr", 0),
    ),
    case("plain variable", ("a=1", "", 0), ("echo $a; bash -c 'echo [$a]'", "1\n[]", 0)),
    case("exported variable", ("export a='x y'", "", 0), ("bash -c 'echo \"$a\"'", "x y", 0)),
    case(
        "odd values",
        ("a=$'1\\n2\\t\"`$(x)\\\\'", "", 0),
        ("printf %s \"$a\" | od -An -c | tr -d ' \\n'", '1\\n2\\t"`$(x)\\', 0),
    ),
    case(
        "unset",
        ("a=1; export b=2", "", 0),
        ("unset a b", "", 0),
        ("echo ${a-none} ${b-none}", "none none", 0),
    ),
    case(
        "unset inherited",
        ("unset HOME", "", 0),
        ("echo ${HOME-none}; env | grep -c ^HOME=", "none\n0", 1),
    ),
    case(
        "unexport", ("export a=1; export -n a", "", 0), ("echo $a; bash -c 'echo [$a]'", "1\n[]", 0)
    ),
    case("PATH", ("PATH=/nowhere:$PATH", "", 0), ("echo ${PATH%%:*}", "/nowhere", 0)),
    case(
        "array",
        ("a=(1 'two 2' 3); a[7]=x", "", 0),
        ('echo ${#a[@]} "${a[1]}" ${!a[@]}', "4 two 2 0 1 2 7", 0),
    ),
    case(
        "associative",
        ("declare -A m=([k]=v ['a b']='c \"d\"')", "", 0),
        ("echo ${m[k]} ${m[a b]} ${#m[@]}", 'v c "d" 2', 0),
    ),
    case("integer", ("declare -i n=5", "", 0), ("n=n+2; echo $n", "7", 0)),
    case(
        "lower and upper",
        ("declare -l l=ABC; declare -u u=abc", "", 0),
        ("l=XY; echo $l $u", "xy ABC", 0),
    ),
    case("nameref", ("t=1; declare -n r=t", "", 0), ("r=9; echo $t", "9", 0)),
    case(
        "readonly",
        ("readonly q=1", "", 0),
        ("q=2; echo no", "bash: line 1: q: readonly variable", 1),
        ("echo $q", "1", 0),
    ),
    case("function", ("f() { echo f:$1; }", "", 0), ("f 1", "f:1", 0)),
    case("function with heredoc", ("f() { cat <<EOF\nx $1\nEOF\n}", "", 0), ("f y", "x y", 0)),
    case("function with odd name", ("my-f.x() { echo odd; }", "", 0), ("my-f.x", "odd", 0)),
    case(
        "function with case",
        ('f() { case $1 in a|b) echo ab;; *) echo "o;;";; esac; }', "", 0),
        ("f b; f c", "ab\no;;", 0),
    ),
    case("exported function", ("f() { echo exp; }; export -f f", "", 0), ("bash -c f", "exp", 0)),
    case(
        "unset function",
        ("f() { :; }", "", 0),
        ("unset -f f", "", 0),
        ("type f >/dev/null 2>&1 || echo gone", "gone", 0),
    ),
    case("alias", ("alias hey='echo hello'", "", 0), ("hey you", "hello you", 0)),
    case(
        "alias and function",
        ("f() { ls -d /; }; alias ls='ls -1'", "", 0),
        ("f; ls -d /", "/\n/", 0),
    ),
    case("unalias", ("alias hey='echo x'", "", 0), ("unalias hey", "", 0), ("hey", None, 127)),
    case(
        "shopt",
        ("shopt -s extglob nullglob", "", 0),
        ("echo !(*)x; shopt -q extglob && echo on", "on", 0),
    ),
    case(
        "extglob function",
        ("shopt -s extglob\nf() { [[ $1 == @(a|b) ]] && echo m; }", "", 0),
        ("f a", "m", 0),
    ),
    case("umask", ("umask 027", "", 0), ("umask", "0027", 0)),
    case(
        "set -euo pipefail",
        ("set -euo pipefail", "", 0),
        ("echo $-; false | true; echo no", None, 1),
        ("echo alive", "alive", 0),
    ),
    case("set +e again", ("set -e", "", 0), ("set +e", "", 0), ("false; echo on", "on", 0)),
    case(
        "set -x",
        ("set -x", "", 0),
        ("echo hi", "+ echo hi\nhi", 0),
        ("set +x", "+ set +x", 0),
        ("echo q", "q", 0),
    ),
    case("PS4", ("PS4='> '; set -x", None, 0), ("true", "> true", 0)),
    case("set -f", ("set -f", "", 0), ("echo *", "*", 0)),
    case("set -C", ("set -C; echo a >f", "", 0), ("echo b >f", None, 1), ("cat f", "a", 0)),
    case("set -v", ("set -v", "", 0), ("echo hi", "echo hi\nhi", 0)),
    case("IFS", ("IFS=:", "", 0), ("a=1:2; set -- $a; echo $#", "2", 0)),
    case(
        "positional",
        ("set -- a 'b c'", "", 0),
        ('echo $# "$2"; shift', "2 b c", 0),
        ("echo $#", "1", 0),
    ),
    case("status", ("(exit 42)", "", 42), ("echo $?", "42", 0)),
    case("status of exit", ("exit 5", "", 5), ("echo $?", "5", 0)),
    case("last argument", ("echo one two", "one two", 0), ("echo $_", "two", 0)),
    case("exit carries", ("a=1; cd /usr; exit 3", "", 3), ("echo $a $PWD", "1 /usr", 0)),
    case("failure carries", ("a=1; nosuchprogram", None, 127), ("echo $a", "1", 0)),
    case("set -e carries", ("set -e; a=1; false", "", 1), ("echo $a", "1", 0)),
    case(
        "kill -9 keeps the last state",
        ("a=1", "", 0),
        ("a=2; kill -9 $$", None, 137),
        ("echo $a", "1", 0),
    ),
    case(
        "exec keeps the last state", ("a=1", "", 0), ("a=2; exec true", "", 0), ("echo $a", "1", 0)
    ),
    case(
        "exec redirection",
        ("exec >f; echo hidden", "", 0),
        ("echo shown; cat f", "shown\nhidden", 0),
    ),
    case("closed descriptors", ("exec 0<&- 1>&- 2>&-; a=1", "", 0), ("echo $a", "1", 0)),
    case("error trap carries", ("trap 'echo E' ERR", "", 0), ("false", "E", 1)),
    case(
        "lone exit trap waits",
        ("trap 'echo bye' EXIT", "", 0),
        ("echo x", "x", 0),
        ("exit 4", "bye", 4),
        ("echo y", "y", 0),
    ),
    case(
        "exit inside a function",
        ("x=0; f() { local x=1; y=2; exit 3; }; f", "", 3),
        ("echo $y", "2", 0),
    ),
    case(
        "huge value",
        ("big=$(head -c 3000000 /dev/zero | tr '\\0' x)", "", 0),
        ("echo ${#big}", "3000000", 0),
    ),
    case(
        "many variables",
        ("for i in {1..3000}; do declare v$i=$i; done", "", 0),
        ("echo $v1 $v3000", "1 3000", 0),
    ),
    case("dollar bang", ("sleep 0.3 & ", "", 0), ("p=$!", "", 0), ("wait $p; echo $?", "0", 0)),
    case("wait for a code", ("(sleep 0.2; exit 6) &", "", 0), ("wait $!", "", 6)),
    case("wait for all", ("sleep 0.3 & sleep 0.2 &", "", 0), ("wait; echo done", "done", 0)),
    case("kill a job", ("sleep 600 &", "", 0), ("kill $!", "", 0), ("wait $!; echo $?", "143", 0)),
    case("source", ("echo 'z=7; g() { echo g; }' >s; . ./s", "", 0), ("echo $z; g", "7\ng", 0)),
    case(
        "getopts",
        ("set -- -a -b; getopts ab o; echo $o", "a", 0),
        ("getopts ab o; echo $o", "b", 0),
    ),
    case(
        "readarray",
        ("printf '1\\n2\\n' | cat >f; mapfile -t l <f", "", 0),
        ("echo ${l[1]}", "2", 0),
    ),
    case("dotglob", ("touch .h; shopt -s dotglob", "", 0), ("echo *", ".h", 0)),
    case("cdpath and home", ("HOME=/usr", "", 0), ("cd; pwd", "/usr", 0)),
    case(
        "functions named like ours",
        ("function declare { echo mine; }", "", 0),
        ("declare x", "mine", 0),
        ("a=4", "", 0),
        ("echo $a", "4", 0),
    ),
    case("ulimit", ("ulimit -S -n 77", "", 0), ("ulimit -S -n", "77", 0)),
]

TERMINAL = [
    case("is a terminal", ("test -t 0 && test -t 1 && test -t 2 && echo tty", "tty", 0)),
    case("tty", ("tty | grep -c ^/dev/pts/", "1", 0)),
    case("dev tty", ("echo hello >/dev/tty", "hello", 0)),
    case("window size", ("stty size", "40 120", 0)),
    case("tput", ("tput cols; tput lines", "120\n40", 0)),
    case("TERM", ("echo $TERM | grep -vx -e dumb -e ''", None, 0)),
    case("foreground group", ("awk '{print $5 == $8}' /proc/$$/stat", "1", 0)),
    case(
        "no signal is ignored",  # but those the C library keeps for itself, 32 and 33
        ("echo $((0x$(awk '/SigIgn/{print $2}' /proc/self/status) & ~0x180000000))", "0", 0),
    ),
    case("pagers are off", ("seq 300 | ${PAGER} | tail -1; echo $GIT_PAGER", "300\ncat", 0)),
    case("job control", ("set -m; sleep 0.2 & fg >/dev/null; echo $?", "0", 0)),
    case(
        "raw mode left",
        ("stty raw -echo", None, 0),
        ("echo a; echo b", "a\nb", 0),
        ("stty -a | grep -cw -e '-icanon'", "0", 1),
    ),
    case(
        "alternate screen left", ("printf '\\033[?1049hfull'", None, 0), ("echo plain", "plain", 0)
    ),
    case("device query unanswered", ("printf '\\033[6n'", "", 0), ("echo next", "next", 0)),
    case("type-ahead of another", ("read -t 0.2 x; echo [$x]", "[]", 0)),
    case(
        "nothing on stdin but a terminal",
        ("python3 -c 'import sys; print(sys.stdin.isatty())'", "True", 0),
    ),
    case("background reads nothing", ("cat & wait; echo done", "done", 0)),
]

SCREEN = [
    case("carriage return", ("printf 'abc\\rX\\n'", "Xbc", 0)),
    case("progress", ("for i in 1 50 100; do printf '\\r%3d%%' $i; done; echo", "100%", 0)),
    case(
        "many redraws",
        ("for i in {1..2001}; do printf '\\rstep %d' $i; done; echo", "step 2001", 0),
    ),
    case("shorter redraw", ("printf 'long line\\r\\033[Kok\\n'", "ok", 0)),
    case("backspace", ("printf 'abc\\b\\bX\\n'", "aXc", 0)),
    case("colours", ("printf '\\033[1;31mred\\033[0m plain\\n'", "red plain", 0)),
    case("true colour", ("printf '\\033[38;2;1;2;3mx\\033[38:5:4my\\033[m\\n'", "xy", 0)),
    case("title", ("printf '\\033]0;title\\007text\\n'", "text", 0)),
    case("title with ST", ("printf '\\033]2;t\\033\\\\text\\n'", "text", 0)),
    case("hyperlink", ("printf '\\033]8;;http://x\\033\\\\link\\033]8;;\\033\\\\\\n'", "link", 0)),
    case("cursor up", ("printf 'one\\ntwo\\n\\033[2Auno\\n\\n'", "uno\ntwo", 0)),
    case("cursor up and erase", ("printf 'one\\ntwo\\n\\033[1A\\033[2Knew\\n'", "one\nnew", 0)),
    case("absolute column", ("printf 'abcdef\\033[3GX\\n'", "abXdef", 0)),
    case("save and restore", ("printf 'ab\\0337cd\\0338X\\n'", "abXd", 0)),
    case("clear", ("echo before; printf '\\033[H\\033[2J'; echo after", "after", 0)),
    case("alternate screen", ("echo a; printf '\\033[?1049hfull\\033[?1049l'; echo b", "a\nb", 0)),
    case("insert and delete", ("printf 'abc\\r\\033[2P\\033[1@X\\n'", "Xc", 0)),
    case("bell and nul", ("printf 'a\\007b\\000c\\n'", "abc", 0)),
    case("invalid utf-8", ("printf 'a\\377b\\n'", "a�b", 0)),
    case("overwritten tab", ("printf 'a\\tb\\rXY\\n'", "XY      b", 0)),
    case("split character", ("printf '\\303'; sleep 0.2; printf '\\261\\n'", "ñ", 0)),
    case("split sequence", ("printf '\\033[3'; sleep 0.2; printf '1mred\\n'", "red", 0)),
    case("unfinished sequence", ("printf 'red\\033[31'", "red", 0)),
    case("wide characters", ("printf '日本\\rX\\n'", "X 本", 0)),
    case("combining", ("printf 'e\\314\\201\\n'", "e\u0301", 0)),
    case("long line", ("head -c 10000 /dev/zero | tr '\\0' x; echo", "x" * 10000, 0)),
    case("no final newline", ("printf abc", "abc", 0)),
    case("empty lines", ("printf 'a\\n\\n\\nb\\n'", "a\n\n\nb", 0)),
    case("crlf", ("printf 'a\\r\\nb\\r\\n'", "a\nb", 0)),
    case("indentation", ("printf '  a\\n\\tb\\n' | sed 's/^/|/'", "|  a\n|\tb", 0)),
    case("stderr and stdout in order", ("echo 1; echo 2 >&2; echo 3", "1\n2\n3", 0)),
    case("repeat", ("printf 'a\\033[3b\\n'", "aaaa", 0)),
]

UP = "sh -c 'echo up; exec sleep 300'"
"""A command that Ctrl-C ends at any moment after its word; the shell's own fork would lose it."""

KEYS = [
    case(
        "read",
        ("read -p 'Name? ' n; echo Hello $n", "Name? bob\nHello bob", 0),
        keys=(("Name", 0, "bob\n"),),
    ),
    case("read without condition", ("read n; echo [$n]", "x\n[x]", 0), keys=((None, 0, "x\n"),)),
    case(
        "two questions",
        ("read -p 'A? ' a; read -p 'B? ' b; echo $a$b", "A? 1\nB? 2\n12", 0),
        keys=((r"A\? ", 0, "1\n"), (r"B\? ", 0, "2\n")),
    ),
    case("mapping", ("read n; echo [$n]", "x\n[x]", 0), keys=({"send": "x\n", "delay": 0.2},)),
    case("end of file", ("cat; echo $?", "0", 0), keys=((None, 0, "\x04"),)),
    case(
        "interrupt",
        (f"trap 'echo caught' INT; {UP}; echo after", "up\n^Ccaught\nafter", 0),
        keys=(("up", 0, "\x03"),),
    ),
    case("interrupt kills", (f"{UP}; echo no", None, 130), keys=(("up", 0, "\x03"),)),
    case(
        "silent read",
        ("read -s -p 'Pw: ' p; echo; echo ${#p}", "Pw: \n6", 0),
        keys=(("Pw", 0, "secret\n"),),
    ),
    case(
        "getpass",
        ("python3 -c 'import getpass; print(len(getpass.getpass()))'", "Password: \n5", 0),
        keys=(("word", 0, "12345\n"),),
    ),
    case(
        "python prompt",
        ("python3 -q -c 'print(int(input(\"n=\"))*2)'", "n=21\n42", 0),
        keys=(("n=", 0, "21\n"),),
    ),
    case(
        "long key text",
        ("cat >f; wc -c <f", None, 0),
        keys=((None, 0, "y" * 3000 + "\n" + "z" * 3000 + "\n"), (None, 0.3, "\x04")),
    ),
    case(
        "yes or no",
        ("select x in a b; do echo got $x; break; done", None, 0),
        keys=(("#", 0, "2\n"),),
    ),
    case("one character", ("read -n1 c; echo; echo [$c]", "q\n[q]", 0), keys=((None, 0, "q"),)),
]

SERVER = """python3 -c '
import http.server as h
s = h.HTTPServer(("127.0.0.1", 0), h.SimpleHTTPRequestHandler)
open("port", "w").write(str(s.server_port))
s.serve_forever()' >/dev/null 2>&1 &"""
CLIENT = """while ! test -s port; do sleep 0.05; done; python3 -c '
import urllib.request as u
print(u.urlopen("http://127.0.0.1:" + open("port").read()).status)'"""

BACKGROUND = [
    case("ampersand", ("sleep 300 &", "", 0)),
    case("background holds the terminal", ("(sleep 300; echo late) & echo now", "now", 0)),
    case("nohup", ("nohup sleep 300 >/dev/null 2>&1 & echo started", "started", 0)),
    case("setsid", ("setsid sleep 300 & echo started", "started", 0)),
    case("daemon", ("(setsid sleep 300 >/dev/null 2>&1 </dev/null &) ; echo d", "d", 0)),
    case("disown", ("sleep 300 & disown; echo d", "d", 0)),
    case("coproc", ("coproc sleep 300; echo c", "c", 0)),
    case("server answers later", (SERVER, "", 0), (CLIENT, "200", 0)),
    case("ignores hangup", ("(trap '' HUP TERM INT; sleep 300) & echo x", "x", 0)),
]

CASES = EXIT + CARRY + TERMINAL + SCREEN + KEYS + BACKGROUND


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_case(case: Case, tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        for command, text, code in case.steps:
            result = executor.run(command, timeout=case.timeout, keystrokes=case.keys)
            shown = (result.ended, result.exit_code, result.text, result.notes)
            assert result.ended in ("exited", "signaled"), shown
            if text is not None:
                assert result.text.strip() == text, shown
            if code is not ...:
                assert result.exit_code == code, shown


def test_background_commands_return_at_once(tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        for item in BACKGROUND[:7]:
            executor.run(item.steps[0][0])
        running = [job for job in executor.jobs() if job.state == "running"]
        assert len(running) == 7
