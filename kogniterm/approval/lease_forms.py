"""Which programs a lease may speak of, and what of their arguments it lets vary: data.

Everything that is not listed is granted as exactly one command or not at all: a program that is not
here, a subcommand that is not here, an option that is not here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from kogniterm.approval.naming import names
from kogniterm.approval.options import Rules, parse_options, parse_table
from kogniterm.approval.programs.registry import table
from kogniterm.approval.rules import called
from kogniterm.approval.scope import Argument

FORMS = """
touch: files; plain a c m no-create
mkdir: files; plain p parents v verbose
cp: files; plain r R a f n p u v recursive archive force no-clobber update verbose
mv: files; plain f n u v force no-clobber update verbose
tee: files; plain a append
gzip gunzip bzip2 bunzip2 xz unxz: files; plain k keep v verbose q quiet
gofmt: files; plain w l s d
black: files; plain q quiet v verbose check diff; value l line-length t target-version
ruff:check: files; plain fix q quiet n no-cache show-fixes; value select ignore
ruff:format: files; plain q quiet n no-cache check diff
git:add: files; plain A all u update v verbose n dry-run N intent-to-add
git:commit: same; plain a all q quiet v verbose s signoff; text m message
git:fetch git:pull git:push: same; plain q quiet v verbose p prune t tags all ff-only u set-upstream
git:ls-remote: same; plain h heads t tags q quiet
gh:pr:list gh:issue:list gh:run:list gh:release:list: same; value L limit s state l label a author
    B base json q jq R repo S search w workflow b branch
gh:pr:view gh:pr:diff gh:pr:checks gh:issue:view gh:run:view: number; plain c comments log
    log-failed name-only; value json q jq R repo
gh:pr:status gh:repo:view gh:release:view: same; value json q jq R repo
kubectl:get kubectl:describe kubectl:logs: same; plain A all-namespaces w watch f follow; value n
    namespace o output l selector c container tail since
curl: urls; plain s S f i I v silent show-error fail include head compressed; value m
    max-time retry connect-timeout; write o output
dig nslookup host: same; plain short
"""
"""`program[:subcommand…]: WHAT VARIES; plain OPTION…; value OPTION…`.

What varies: `files`, any file in the folder of the lease; `number`, operands that are numbers;
`urls`, URLs at or below the granted ones; `same`, nothing. An option's value is the granted one,
unless it is `text` (any text) or `write` (a file at or below the granted one).
"""
_RUNS: Mapping[str, str] = {
    "it runs code that it is given": """
        interpreter eval source code database docker awk sed
    """,
    "it runs the command in its arguments": """
        shell wrap time env command sudo xargs watch find fd exec ssh namespace containers later
    """,
    "its options can name programs to run": "tar zip rsync transfer man pager split",
    "its interactive commands can start a shell": "editor screen tmux records netcat",
    "it opens files in other programs": "opens",
}
"""Why a program is never leased, by its rules in the parser's table: the base, or KIND of `ask`."""
_ALSO_RUNS: Mapping[str, str] = {
    "it runs code that it is given": """
        gdb lldb irb pry jshell m4 bc dc ed ex ftp sftp lftp mysql psql sqlite3 nmap emacs
    """,
    "it runs programs that a file of the project names": """
        make gmake ninja cmake npm pnpm yarn npx bun deno uv poetry pip pip3 cargo go gradle mvn
        just task rake tox nox pytest jest vitest eslint prettier terraform ansible ansible-playbook
        pre-commit composer bundle
    """,
    "it runs the command in its arguments": """
        parallel busybox toybox chroot unshare nsenter systemd-run machinectl setsid coproc trap at
        batch crontab doas su pkexec runuser gosu script expect builtin rsh mosh autossh
    """,
    "its options can name programs to run": "scp bsdtar gtar cpio ar pax less more info",
    "it deletes what cannot be brought back": "rm shred dd",
}


@dataclass(frozen=True, slots=True)
class Form:
    """A call by its listed form: which row of the table, what varies, options and operands."""

    key: str
    varies: str
    options: tuple[tuple[str, str | None], ...]
    operands: tuple[str, ...]
    rules: Rules

    @property
    def title(self) -> str:
        """The program with its subcommands and options, for people."""
        words = self.key.split(":")
        for name, value in self.options:
            written = f"--{name}" if len(name) > 1 else f"-{name}"
            free = value is None or self.rules.options.get(name) == "text"
            words.append(written if free else f"{written} {value}")
        return " ".join(words)


@functools.cache
def _forms() -> Mapping[str, Rules]:
    return parse_table(FORMS)


def why_never(program: str) -> str | None:
    """Return why no lease speaks of `program` as a whole, or None when one might."""
    rules = table().get(program)
    kinds = {rules.base, rules.detail.partition(" ")[0]} if rules else set()
    for why, bases in _RUNS.items():
        if kinds & set(names(bases)):
            return why
    return next((why for why, also in _ALSO_RUNS.items() if program in names(also)), None)


def form_of(argv: tuple[str, ...]) -> Form | None:
    """Return the listed form of a call; None when it is not listed or has an unlisted option."""
    if not argv or any("…" in word for word in argv):
        return None
    words = [called(argv[0]), *argv[1:]]
    if ":" in words[0] or why_never(words[0]) is not None:
        return None
    depth = next((n for n in (3, 2, 1) if ":".join(words[:n]) in _forms()), 0)
    if not depth or len(words) < depth:
        return None
    key = ":".join(words[:depth])
    rules = _forms()[key]
    parsed = parse_options([Argument(word) for word in words[depth:]], rules)
    if any(option.name not in rules.options for option in parsed.options):
        return None
    lacking = any(rules.takes_value(o.name) != (o.value is not None) for o in parsed.options)
    if lacking:
        return None
    options = tuple((o.name, o.value.value if o.value else None) for o in parsed.options)
    operands = tuple(operand.value for operand in parsed.operands)
    return Form(key, rules.base, options, operands, rules)
