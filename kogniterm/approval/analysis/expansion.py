"""The state of the shell while a command is read, and the expansion of words.

An expanded word is an `CallWord`: text in which every part known only at run time is a `HOLE`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kogniterm.approval.analysis.arguments import NUMBER, TAINTED, CallWord
from kogniterm.approval.analysis.paths_and_variables import (
    HOLE,
    ResolvedPath,
    Roots,
    names,
    within,
)
from kogniterm.approval.parser.lexer import PLAIN, calculated_names, decode_ansi
from kogniterm.approval.parser.tree import (
    Assignment,
    Function,
    Literal,
    Loop,
    Node,
    Part,
    Pipeline,
    Simple,
    Substitution,
    Unknown,
    Variable,
    Word,
    parts_of,
    simple_commands,
)

MAX_BRACES = 64
_MAX_MEANINGS = 16
_LONGEST = 500
_CUT = "\x02"
_BLANKS = re.compile(r"[ \t\n]+")


@dataclass
class Scope:
    """The state of the shell as far as it is known; copied for branches and subshells."""

    roots: Roots
    cwd: str | None
    variables: dict[str, CallWord] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    items: CallWord | None = None
    """The input of xargs from the pipe, where that is known to be a path."""
    upstream: tuple[str, ...] = ()
    """Programs earlier in the pipe."""
    fed: bool = False
    """True if the input may be the output of another program or text of the command."""
    start: str | None = None
    links: dict[str, str] = field(default_factory=dict)
    """Links this command makes, in whatever shell: a path below one leads elsewhere."""
    evaluating: set[str] = field(default_factory=set)
    """Variables whose attributes do something with what they get, and redefined programs."""
    arrays: set[str] = field(default_factory=set)
    """Variables that this command makes arrays."""

    def branch(self) -> Scope:
        """Return an independent copy, but for links, for commands that may not run."""
        return replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            evaluating=set(self.evaluating),
            arrays=set(self.arrays),
        )

    def with_arguments(self, value: CallWord) -> Scope:
        """Return a copy in which every positional parameter is `value`."""
        inner = self.branch()
        inner.variables.update(dict.fromkeys("@*123456789", value))
        return inner

    def forget_arguments(self) -> None:
        for name in "@*123456789":
            self.variables.pop(name, None)

    def set_arguments(self, values: Sequence[CallWord]) -> None:
        """Make `values` the positional parameters."""
        self.variables |= {str(number): CallWord("") for number in range(1, 10)}
        self.variables |= {str(number): value for number, value in enumerate(values[:9], 1)}
        for name, between in (("@", _CUT), ("*", " ")):
            self.variables[name] = _join_values(between.join(one.value for one in values), values)

    def resolve(self, value: str, *, glob: bool = False) -> ResolvedPath:
        """Return where the path `value` leads, through the links this command has made."""
        resolved = self.roots.resolve(value, self.cwd, glob=glob)
        for link, leads in self.links.items():
            if resolved.path != link and within(resolved.path, link):
                beyond = leads.rstrip("/") + resolved.path[len(link) :]
                return self.roots.resolve(beyond, self.cwd, glob=glob)
        return resolved

    def meanings(self, value: str, *, glob: bool = False) -> list[ResolvedPath]:
        """Return all that a write to the path `value` may change with the links made so far.

        The path itself is the first, as a link may lie in a folder of the name it was given. What
        too many links lead to is known only at run time.
        """
        found = [self.roots.resolve(value, self.cwd, glob=glob)]
        for one in found:
            for link, leads in self.links.items():
                if within(one.path, link):
                    beyond = leads.rstrip("/") + one.path[len(link) :]
                    led = self.roots.resolve(beyond, self.cwd, glob=glob)
                    if len(found) == _MAX_MEANINGS:
                        return [*found, self.roots.resolve(HOLE, None)]
                    if led not in found:
                        found.append(led)
        return found

    def merge(self, others: Iterable[Scope], *, folders: bool = True) -> None:
        """Forget what differs between this scope and `others`; `folders`: the folder, too."""
        for other in others:
            if folders and other.cwd != self.cwd:
                self.cwd = None
            for name in self.variables.keys() | other.variables.keys():
                mine, theirs = variable(name, self), variable(name, other)
                if mine != theirs:
                    self.variables[name] = NUMBER if mine.counts and theirs.counts else TAINTED
            for name in self.functions.keys() | other.functions.keys():
                if self.functions.get(name) is not other.functions.get(name):
                    self.functions.pop(name, None)
                    self.evaluating.add(name)
            self.evaluating |= other.evaluating
            self.arrays |= other.arrays


def _join_values(text: str, values: Sequence[CallWord]) -> CallWord:
    """Return `text`, which was put together from `values`, with all that is known of them."""
    return CallWord(
        text,
        any(value.glob for value in values),
        any(value.split for value in values),
        any(value.tainted for value in values),
        tuple(name for value in values for name in value.names),
        tuple(nested for value in values for nested in value.inner),
        bool(values) and all(value.counts for value in values),
    )


_KNOWN_VARIABLES = {
    "HOME": "~",
    "PWD": ".",
    "TMPDIR": "/tmp",
    "XDG_CONFIG_HOME": "~/.config",
    "XDG_CACHE_HOME": "~/.cache",
    "XDG_DATA_HOME": "~/.local/share",
    "XDG_STATE_HOME": "~/.local/state",
    "XDG_RUNTIME_DIR": "/run/user/0",
}
_NUMERIC = names("""
    ? # $ ! UID EUID PPID RANDOM SRANDOM SECONDS LINENO BASHPID SHLVL EPOCHSECONDS BASH_SUBSHELL
    BASH_VERSINFO PIPESTATUS OPTIND HISTCMD
""")
"""The shell itself keeps numbers in these; what they are set to, it evaluates."""
_CHANGING = re.compile(
    r"(?:_|REPLY|MAPFILE|OPTARG|OLDPWD|DIRSTACK|GROUPS|FUNCNAME|COPROC|BASH_.*|(?:COMP|READLINE)_.*)\Z"
)
"""Variables that the shell sets by itself to what it reads."""
_POSITIONAL = re.compile(r"[0-9@*]\Z|[1-9][0-9]+\Z")
_GLOB = re.compile(r"[*?]|\[[^\]]")
_BRACE = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?\Z")


def expand(word: Word, scope: Scope) -> list[CallWord]:
    """Return the arguments `word` becomes, as far as the text tells."""
    if len(word.parts) == 1 and PLAIN.match(word.raw) and "~" not in word.raw:
        return [CallWord(word.raw)]
    arguments: list[CallWord] = []
    for parts in _braces(word.parts):
        if not parts:
            continue
        whole = _assemble(parts, scope)
        if _CUT not in whole.value:
            arguments.append(whole)
            continue
        arguments.extend(whole._replace(value=piece) for piece in whole.value.split(_CUT) if piece)
    return arguments


def expand_single(word: Word, scope: Scope) -> CallWord:
    """Expand `word` without splitting and braces, as in assignments and redirect targets."""
    whole = _assemble(word.parts, scope)
    return whole._replace(value=whole.value.replace(_CUT, " "), split=False)


def _assemble(parts: tuple[Part, ...], scope: Scope) -> CallWord:
    value: list[str] = []
    glob = split = tainted = False
    number = True
    names: list[str] = []
    inner: list[Substitution] = []
    for index, part in enumerate(parts):
        if isinstance(part, Literal):
            text = part.text
            if not part.quoted:
                if index == 0 and text.startswith("~"):
                    text = scope.roots.tilde(text)
                glob = glob or bool(_GLOB.search(text))
            value.append(text)
            continue
        piece = _part_value(part, scope)
        if not part.quoted and "IFS" in scope.evaluating:
            piece = TAINTED._replace(names=piece.names, inner=piece.inner)
        value.append(piece.value if part.quoted else _BLANKS.sub(_CUT, piece.value))
        if not part.quoted:
            split = split or piece.split or (HOLE in piece.value and not piece.number)
            glob = glob or piece.glob
        tainted = tainted or piece.tainted
        number = number and piece.counts
        names.extend(piece.names)
        inner.extend(piece.inner)
    text = "".join(value)
    return CallWord(text, glob, split, tainted, tuple(names), tuple(inner), number and HOLE in text)


def printed_text(part: Node, scope: Scope) -> str | None:
    """Return the output of an echo or printf, or a cat of a heredoc, if it is known."""
    if not isinstance(part, Simple) or not part.words:
        return None
    words = [argument for word in part.words for argument in expand(word, scope)]
    if words[0].value == "cat" and len(words) == 1 and len(part.redirects) == 1:
        body = part.redirects[0].body
        given = expand_single(body, scope) if body is not None else TAINTED
        return given.value if given.known else None
    if words[0].value not in {"echo", "printf"} or not all(argument.known for argument in words):
        return None
    texts = [argument.value for argument in words[1:]]
    option = texts.pop(0) if texts and re.fullmatch(r"-[neE]+", texts[0]) else ""
    spoken = " ".join(texts)
    if words[0].value == "echo" and "e" not in option:
        return spoken
    spoken = re.split(r"(?<!\\)\\c", spoken)[0]
    if words[0].value == "echo":
        spoken = re.sub(r"\\0([0-7]{1,3})", r"\\\1", spoken)
    decoded = "\0".join(map(decode_ansi, re.split(r"\\0(?![0-7])", spoken)))
    return decoded.replace("%s", " ").replace("%b", " ")


def _printed_word(node: Node, scope: Scope) -> str | None:
    """Return the output of a substitution if it is known and is one plain word."""
    if not isinstance(node, Simple) or node.assignments or not node.words:
        return None
    if node.words[0].raw == "pwd" and len(node.words) == 1 and not node.redirects:
        return scope.cwd
    if node.redirects and node.words[0].raw != "cat":
        return None
    spoken = printed_text(node, scope)
    # A format may put its arguments anywhere, and some characters would split or match.
    formats = re.findall("%.", " ".join(word.raw for word in node.words))
    if spoken is None or formats not in ([], ["%s"]):
        return None
    spoken = spoken.strip()
    return spoken if re.fullmatch(r"[\w./:,@+=-]+", spoken, re.ASCII) else None


def _part_value(part: Variable | Substitution | Unknown, scope: Scope) -> CallWord:
    if isinstance(part, Substitution):
        if part.kind != "command":
            return CallWord("/dev/fd/63", inner=(part,))
        plainly = _printed_word(part.node, scope)
        if plainly is not None:
            return CallWord(plainly, split=True, inner=(part,))
        number = prints_number(part.node, scope)
        tainted = not (number or prints_plainly(part.node))
        return CallWord(HOLE, split=True, tainted=tainted, inner=(part,), number=number)
    if isinstance(part, Unknown):
        if part.digits:
            return NUMBER
        values = [variable(name, scope) for name in part.names]
        tainted = not part.whole or any(value.tainted for value in values) or bool(part.inner)
        unset = tuple(name for name in part.names if name not in scope.variables)
        number = part.whole and all(value.counts for value in values)
        return CallWord(HOLE, False, True, tainted, unset, part.inner, number)
    return variable(part.name, scope)


def variable(name: str, scope: Scope) -> CallWord:
    """Return the value of `$name`, as far as it is known; what is not known is data."""
    if name in _NUMERIC:
        return NUMBER
    known = scope.variables.get(name)
    if known is not None and not _CHANGING.match(name) and name not in scope.evaluating:
        return known
    if name == "PWD":
        return CallWord(scope.cwd if scope.cwd is not None else "/" + HOLE)
    if name in _KNOWN_VARIABLES:
        return CallWord(scope.roots.tilde(_KNOWN_VARIABLES[name]))
    if name == "IFS":
        return CallWord(" \t\n")
    if _POSITIONAL.match(name):
        return TAINTED
    return CallWord(HOLE, split=True, tainted=True, names=(name,))


_CALCULATION = re.compile(r"[\w\s+\-*/%<>=!&|^~?:(),#]*\Z", re.ASCII)
_ALONE = re.compile(rf"(?<!\w){HOLE}+(?!\w)", re.ASCII)


def only_numbers(values: Iterable[CallWord], scope: Scope) -> bool:
    """Return whether the shell may evaluate `values`: they hold numbers, or names of such."""
    waiting, seen = list(values), set[str]()
    while waiting:
        value = waiting.pop()
        text = _ALONE.sub("0", value.value) if value.number else value.value
        if value.tainted or len(text) > _LONGEST or not _CALCULATION.match(text):
            return False
        fresh = set(calculated_names(text)[0]) - seen
        seen |= fresh
        waiting.extend(variable(name, scope) for name in fresh)
    return True


def evaluates(name: str, scope: Scope) -> bool:
    """Return whether the shell evaluates what the variable `name` is set to."""
    return name in _NUMERIC or name in scope.evaluating


def _braces(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """Expand braces over parts; too many alternatives become an unknown."""
    if not any(isinstance(p, Literal) and not p.quoted and "{" in p.text for p in parts):
        return [parts]
    # Each part that is not unquoted text becomes one private character; the rest is plain text.
    table: dict[str, Part] = {}
    flat: list[str] = []
    for part in parts:
        if isinstance(part, Literal) and not part.quoted:
            flat.append(part.text)
        else:
            mark = chr(0xF0000 + len(table))
            table[mark] = part
            flat.append(mark)
    expanded = _expand_braces("".join(flat))
    if expanded is None:
        return [(Unknown(quoted=False, names=("@",)),)]
    return [_unflatten(text, table) for text in expanded]


def _unflatten(text: str, table: dict[str, Part]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for is_mark, run in itertools.groupby(text, key=lambda char: char in table):
        if is_mark:
            parts.extend(table[char] for char in run)
        else:
            parts.append(Literal("".join(run), quoted=False))
    return tuple(parts)


def _expand_braces(text: str) -> list[str] | None:
    """Expand the innermost braces first; None when there are more than `MAX_BRACES` results."""
    texts = [text]
    if text.count("{") > 12:
        return None
    for _ in range(16):
        result: list[str] = []
        changed = False
        for item in texts:
            match = _BRACE.search(item)
            choices = _choices(match[0][1:-1]) if match else None
            if match is None or choices is None:
                result.append(item if match is None else item.replace("{", "\uf8f0", 1))
                changed = changed or match is not None
                continue
            changed = True
            result.extend(
                item[: match.start()] + choice + item[match.end() :] for choice in choices
            )
            if len(result) > MAX_BRACES:
                return None
        texts = result
        if not changed:
            return [item.replace("\uf8f0", "{") for item in texts]
    return None


def _choices(inner: str) -> list[str] | None:
    if "," in inner:
        return inner.split(",")
    match = _RANGE.match(inner)
    if match is None:
        return None
    first, last, _ = match.groups()
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        low, high = sorted((int(first), int(last)))
        padded = re.match(r"-?0\d", first) or re.match(r"-?0\d", last)
        width = max(len(first), len(last)) if padded else 0
        return [str(n).zfill(width) for n in range(low, min(high, low + MAX_BRACES) + 1)]
    low, high = sorted((ord(first[0]), ord(last[0])))
    return [chr(n) for n in range(low, high + 1)]


_NAMERS = frozenset({"pwd", "whoami", "hostname", "id", "uname"})
_FILE = r"(?!-)(?:[\w./@%+:~-]+|'[\w./@%+: ~-]+'|\"[\w./@%+: ~-]+\")"
_COUNTING = re.compile(
    rf"""
    wc(?:\ -[lwcmL]+)? | nproc(?:\ --all)?
    | date\ (?:-u\ )?['"]?\+(?:%-?[sYmdHMSNjuVIkle]|[-:. ])+['"]?
    | stat(?:\ -L)?\ (?:-c\ ?|--format=)['"]?%[sbhiugXYZW]['"]?\ (?:{_FILE}|(?:--\ )?"\$\w+")
    | awk\ '\s*END\s*\{{\s*print\ NR;?\s*\}}'(?:\ {_FILE})* | sed\ -n\ '?\$='?(?:\ {_FILE})*
    | git\ rev-list\ (?:--no-merges\ |--all\ )*--count(?:\ [\w./@^~]+)*(?:\ --all)?
    | grep(?:\ -[ivwxEFG]+)*\ -(?:-count|[ivwxEFG]*c[ivwxEFG]*)
      \ (?:{_FILE}|'[^'-][^']*'|"[^"$`\\-][^"$`\\]*")(?:\ {_FILE})?
    """,
    re.VERBOSE | re.ASCII,
)
"""Calls that print a number, written out: what is not listed may print anything."""
_PLAIN_ARGUMENT = re.compile(
    r"-\w+\Z|['\"]?\+(?:%[a-mo-suv-zA-Z]|[0-9T])(?:[-:._T]|%[a-mo-suv-zA-Z])*['\"]?\Z"
)


def prints_number(node: Node, scope: Scope) -> bool:
    """Return whether what a substitution prints is a number or date the machine itself chose."""
    if isinstance(node, Pipeline):
        node = node.parts[-1]
    if not isinstance(node, Simple) or not node.words:
        return False
    first, *rest = node.words
    if first.raw in scope.functions or first.raw in scope.evaluating:
        return False
    if first.raw == "seq":
        return all(one.counts for word in rest for one in expand(word, scope))
    text = " ".join(word.raw for word in node.words)
    # A name that may be an option could make it print its help.
    named = (variable(name, scope).value[:1] for name in re.findall(r'[^-] "\$(\w+)"', text))
    return bool(_COUNTING.fullmatch(text)) and all(first not in {"", "-", HOLE} for first in named)


def prints_plainly(node: Node) -> bool:
    """Return whether it prints a date, or a name the machine itself chose."""
    if (
        not isinstance(node, Simple)
        or not node.words
        or node.words[0].raw not in {*_NAMERS, "date"}
    ):
        return False
    return all(_PLAIN_ARGUMENT.match(word.raw) for word in node.words[1:])


def words_of_output(node: Node) -> list[str]:
    """Return the plain words of a substitution: its output is often one of them."""
    if not isinstance(node, Simple):
        return []
    given = (one.target or one.body for one in node.redirects)
    return [word.raw.strip("'\"") for word in (*node.words[1:], *given) if word is not None]


def matched_name(pattern: CallWord) -> CallWord:
    """Return a name that a pattern has matched: it stands for a file even where it is quoted.

    A name with a known end is seldom an option.
    """
    if not pattern.glob or pattern.value[-1:] not in "*?]":
        return pattern
    value = re.sub(r"[*?]+|\[[^]]*\]", HOLE, pattern.value)
    return pattern._replace(value=value, glob=False, tainted=True)


def any_of(values: Sequence[CallWord]) -> CallWord:
    """Return one argument that stands for any of `values`."""
    if not values:
        return CallWord(HOLE, split=True)
    first = values[0]
    if all(value == first for value in values):
        return first
    if all(value.counts for value in values):
        return NUMBER
    tainted = any(v.maybe_option or v.tainted or v.value[:1] in {"-", HOLE} for v in values)
    harmless = all(v.value[:1] in "./" or v.value[:1].isalnum() for v in values) and not tainted
    joined = _join_values("./" + HOLE if harmless else HOLE, values)
    return joined._replace(glob=False, tainted=tainted, number=False)


def assigned_value(assignment: Assignment, values: list[CallWord], scope: Scope) -> CallWord:
    """Return the value of a variable after `name=value`, `name+=value` or `name=(…)`."""
    if not values and not assignment.array and not assignment.adds:
        return CallWord("")
    value = values[0] if len(values) == 1 and not assignment.array else any_of(values)
    if not assignment.adds:
        return value
    before = variable(assignment.name, scope)
    if before.counts and value.counts:
        return NUMBER
    # Of an array, any element may be meant, and of data anything may stand before the text.
    kept = before.value if before.known and not (before.tainted or assignment.array) else HOLE
    return value._replace(value=kept + value.value, tainted=True, number=False)


def element(value: CallWord) -> CallWord:
    """Return an element of an array literal without its subscript."""
    bare = re.sub(r"^\[[^\]]*\]\+?=", "", value.value)
    return value if bare == value.value else value._replace(value=bare, glob=False)


_SETTERS = names("""
    read mapfile readarray printf getopts let unset wait declare typeset local export readonly
    command builtin eval
""")


def assigned_names(node: Node, scope: Scope) -> dict[str, bool]:
    """Return the names a statement may assign, each with whether it keeps holding a number."""
    found: dict[str, bool] = {}

    def note(name: str, *, number: bool) -> None:
        found[name] = number and found.get(name, True)

    for part in parts_of(node, scope.functions.get):
        if isinstance(part, Assignment):
            plain = len(part.values) == 1 and not part.array
            note(part.name, number=plain and _is_number(part.values[0]))
        elif isinstance(part, Loop) and part.variable is not None:
            note(part.variable, number=False)
        elif isinstance(part, Unknown):
            for name in part.targets:
                note(name, number=True)
            if part.assigns is not None:
                note(part.assigns, number=False)
        elif isinstance(part, Simple) and part.words and part.words[0].raw in _SETTERS:
            counts = part.words[0].raw == "let"
            for name in re.findall(r"[A-Za-z_]\w*", " ".join(w.raw for w in part.words[1:])):
                note(name, number=counts)
    return found


def _is_number(word: Word) -> bool:
    if len(word.parts) != 1:
        return False
    part = word.parts[0]
    if isinstance(part, Literal):
        return part.text.isdigit()
    return isinstance(part, Unknown) and part.digits


def programs_in(node: Node) -> set[str]:
    """Return the names of the programs a statement starts, without those in substitutions."""
    started = (command.words[0].raw for command in simple_commands(node) if command.words)
    return {name.rpartition("/")[2] for name in started}
