"""One part of a request → one command: examples as turns of a chat, and a check of the reply.

A small model copies names out of the examples it was shown, forgets those of the request, lists
where it should count, and now and then deletes unasked. All of that shows in the
text of the command. After such a finding there are more tries with the next-best examples, and the
best command is taken. A command with harm that was not requested is never proposed, and neither is
prose.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kogniterm import prompts
from kogniterm.addons.local_model.bank import Bank, CommandExample, examples
from kogniterm.addons.local_model.conversation import asks_how, asks_to_look, wording
from kogniterm.addons.local_model.runtime import Chat, LocalPrompt, chat_text
from kogniterm.addons.local_model.steps import TurnSoFar
from kogniterm.addons.local_model.workspace_view import Looks, columns, description
from kogniterm.approval.parser import tree
from kogniterm.approval.parser.parse import parse
from kogniterm.errors import ModelReplyError
from kogniterm.host.programs import find_user_program
from kogniterm.text.language import LANGUAGES, Language, language_of, plain
from kogniterm.types import Usage

_NAME = re.compile(r"[\w~/-]*\.?[\w-]+(?:[./][\w-]+)+/?|(?<![\w.])\.[a-z]\w*|[\w-]+/(?!\w)")
_QUOTED = re.compile(r"\"([^\"\n]+)\"|«([^»\n]+)»|“([^”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)|`([^`\n]+)`")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w.,]*\w)")
# A name inside a sentence; names of tools and kinds of file need not stand in the command.
_PROPER = re.compile(r"(?<=[\w,] )[A-ZÁÉÍÓÚÑ][a-záéíóúñ]{2,}\b")
_NO_NAME = re.compile(wording("no_name"))
_COMMAND_NAME = re.compile(r"(?<![\w.*?/-])[\w-]+(?:/[\w.-]+)*\.[a-z]\w{0,5}\b")

_DESTROYS = re.compile(
    r"(^|[;&|({]|\b(?:do|then|else|xargs|sudo|exec|-execdir|-exec)\b)\s*(?:-\S+\s+)*"
    r"(rm|rmdir|unlink|shred|wipe|truncate\s+-s\s*0|mkfs\S*|dd|fdisk|kill|pkill|killall|shutdown|reboot|"
    r"poweroff|halt|userdel|crontab\s+-r)\b"
    r"|\s-delete\b|\bgit\s+(clean|reset\s+--hard|branch\s+-[dD]|push\s+\S*-f|stash\s+(drop|clear)|restore(?!\s+--staged)|"
    r"checkout\s+(--\s|\.|-f))|\bgit\s+push\s+.*--(delete|force)"
)
_EMPTIES = re.compile(r"(^|[;&|]\s*):?\s*>\s*[\w./]")
_CHANGES = re.compile(
    r"(^|[;&|({]|\b(?:do|then|else|xargs|sudo|exec|-execdir|-exec)\b)\s*(?:-\S+\s+)*"
    r"(mv|chmod|chown|chgrp|ln|install|tee|patch|git\s+(commit|add|merge|rebase|push|mv|rm|init))\b"
    r"|\b(sed|perl)\s+(?:\S+\s+)*?-(?:\w*i\b|-in-place)|\bsort\s+(?:\S+\s+)*?-o\b"
)
_QUESTION = re.compile(wording("question"))
_SWEEPS = re.compile(
    r"\brm\s+(?:-\S+\s+)*(?:\.{1,2}|/|~|/\*|\"?\$HOME\"?)/?(?=\s|$|[;&|)])|"
    r"\b(?:mkfs\S*|dd)\b.*/dev/[a-z]|:\(\)\s*\{"
)
_WANTS_IT_GONE = re.compile(wording("wants_it_gone"))
_WANTS_IT_EMPTY = re.compile(wording("wants_it_empty"))
_ORDERS_IT_GONE = re.compile(wording("orders_it_gone"))
_CREATES = re.compile(
    r"\b(creat|mak|touch|generat|sav|put|stor|writ|crea|haz|hacer|gener|guard|escrib|pon)\w*"
)
_NOT_MEANT = re.compile(
    r"\b(clear|limpia|borra) (the |my |la )?(screen|terminal|console|pantalla|consola)\b"
)
_FORBIDS = re.compile(
    r"\b(do not|don'?t|never|without|sin|no|nunca) (los |las |lo |la )?"
    r"(delet|remov|eras|overwrit|borr|elimin|quit|suprim|sobrescrib)\w*"
)

_HOW_MANY = re.compile(
    r"\b(how many|the number of|cuant[oa]s|el numero de (?!linea\b)|cantidad de)\b"
)
_COUNTS = re.compile(
    r"\bwc\b|\buniq\b|\bawk\b|\bpython3?\b|\bjq\b|\bbc\b|\bexpr\b|\bseq\b|\bdate\b|\bnproc\b|"
    r"\bgetconf\b|\bdu\b|\bdf\b|\bstat\b|\bnl\b|\btail\b|\bhead\b|\bsort\b|\bsed\b|\becho\b|"
    r"--count|\s-[a-zA-Z]*c\b|\bfree\b|\buptime\b|\$\(\(|<\(|[;>]|&&"
)
_LISTS = re.compile(r"^(find|ls|grep|pgrep|git (ls-files|branch|tag|log --oneline|stash list))\b")
_LONG = re.compile(r"^ls\b(?=.*\s-\w*l)|\s-(print0|exec|ls|delete)\b|^grep\b.*\s-\w*q")

_COUNTS_LINES = re.compile(r"\bwc -l$|\bgrep (-\w+ )*-\w*c\b")
_WANTS_NUMBER = re.compile(wording("wants_number"))

# The part of a command that deletes what the rest of it finds.
_DELETES_FOUND = re.compile(
    r"\s+(?:-delete\b|-exec(?:dir)?\s+rm\b.*?(?:\\;|';'|\+)|\|\s*xargs\s+(?:-\S+\s+)*rm\b[^|;&]*)"
)
_FINDS = re.compile(r"^(?:find|ls|grep)\b(?!.*\s-print0)")
_PS_HEADER = re.compile(r"(^ps\b(?!.*(?:--no-headers|=\s))[^;&]*\|\s*head -n ?)1$")
_LS_TOTAL = re.compile(r"^(ls\b(?=[^|;&]*\s-\w*l)[^|;&]*\|\s*head -n ?)(\d+)$")
_COUNTS_COMMITS = re.compile(r"(\bgit log\b)(?!.*--(?:oneline|format|pretty))(?=[^|;&]*\|\s*wc -l)")

# A replaced text and its replacement, where they stand as plain words in the request.
_REPLACES = re.compile(wording("replaces"), re.IGNORECASE)
_ABOUT_GIT = re.compile(wording("about_git"))
_GIT = re.compile(r"(^|[;&|(]\s*)git\b")
_SUBSTITUTION = re.compile(r"\bs([/|#,])([^/|#,]+)\1([^/|#,]*)\1")
_REPLACES_BY_ITSELF = re.compile(r"\bs([/|#,])([^/|#,]+)\1\2\1")
_PROSE = re.compile(r"(?:[A-ZÁÉÍÓÚÑ][\w']*,?|¿\w+|¡\w+)\s|https?://\S+$")

_SORTS_SIZES = re.compile(r"(\b(?:du|ls)\s+-\w*h\w*\b[^;&]*\|\s*sort\s+-r?)n")

# Something that is added to a file, or put at an end of it, leaves the rest of it there.
_ADDS = re.compile(wording("adds"))
_ECHOING = frozenset({"echo", "printf"})

HARM = "harm"
_UNSEEN = Looks()


def doubts(
    request: str, command: str, shown: Sequence[CommandExample], looks: Looks = _UNSEEN
) -> tuple[str, ...]:
    """Return the reasons against `command` for `request`, worst first."""
    found = []
    if needless_harm(request, command):
        found.append(HARM)
    if _COUNTS_LINES.search(command) and not _WANTS_NUMBER.search(plain(request)):
        found.append("counts")
    if _GIT.search(command) and not _ABOUT_GIT.search(plain(request)):
        found.append("git")
    if _REPLACES_BY_ITSELF.search(command):
        found.append("replaces nothing")
    if _ADDS.search(plain(request)) and _echoes_over(command):
        found.append("overwrites")
    folded, numbers = plain(command), columns(looks)
    names = [
        name for name in names_in(request) if not _reads_column(command, numbers.get(plain(name)))
    ]
    missing = [name for name in names if not _holds(folded, plain(name))]
    if not _ANY_CASE.search(command):
        missing += [name for name in names if name not in missing and not _holds(command, name)]
    found += [f"forgot {name}" for name in missing]
    found += [f"copied {name}" for name in _copied_names(request, command, shown)]
    return tuple(found)


def needless_harm(request: str, command: str) -> bool:
    """Return whether `command` deletes, overwrites or ends something `request` wants to keep.

    A question wants nothing changed at all, and a request to find, list or count something
    wants it gone only where that is ordered too; the current, the root and the home folder are
    never meant.
    """
    if _SWEEPS.search(command):
        return True
    if _QUESTION.match(plain(request)) and not asks_how(request) and _CHANGES.search(command):
        return True
    if _DESTROYS.search(command):
        return not _wants_it_gone(request)
    if _EMPTIES.search(command):
        return not (_CREATES.search(plain(request)) or _wants_it_gone(request))
    return False


def _wants_it_gone(request: str) -> bool:
    asked = _FORBIDS.sub("", _NOT_MEANT.sub("", plain(request)))
    if _WANTS_IT_EMPTY.search(asked):
        return True
    if asks_to_look(request) and not asks_how(request):
        return bool(_ORDERS_IT_GONE.search(asked))
    return bool(_WANTS_IT_GONE.search(asked))


def correct_command(request: str, command: str) -> str:
    """Return `command` with the mistakes corrected whose correction is certain.

    A script of the shell is run by bash, as its file need not be executable. A text that is to be
    replaced is spelled as in `request`. A list is counted when `request` asks
    how many, and commits by their lines; sizes like 4.0K are sorted as sizes; the header of `ps` is
    not the first process, nor the total of `ls -l` the first file; what would be deleted unasked is
    listed.
    """
    command = _PYTHON.sub(r"\1python3", _SCRIPT.sub(r"bash \1", command))
    command = _whole_names(request, _made_below(request, command))
    command = _UNPACKS_INTO.sub(r"mkdir -p \g<folder> && \g<0>", _lines_apart(command))
    command = _keep_input(command)
    command = _LS_TOTAL.sub(lambda found: f"{found[1]}{int(found[2]) + 1}", command)
    command = _SORTS_SIZES.sub(r"\1h", _COUNTS_COMMITS.sub(r"\1 --oneline", command))
    command = _restore_spelling(request, _PS_HEADER.sub(r"\g<1>2", command))
    if _FINDS.match(command) and needless_harm(request, command):
        command = _DELETES_FOUND.sub("", command)
    if not _HOW_MANY.search(plain(request)) or _COUNTS.search(command):
        return command
    if not _LISTS.match(command) or _LONG.search(command):
        return command
    return f"{command} | wc -l"


def _whole_names(request: str, command: str) -> str:
    """Return `command` with the file names of `request` that have spaces as one word each."""
    quoted = ["".join(groups) for groups in _QUOTED.findall(request)]
    for name in (*quoted, *_SPACED.findall(request)):
        if " " in name and _IS_NAME.fullmatch(name):
            bare = rf"(?<![\w'\"\\/.]){re.escape(name)}(?![\w'\"])"
            command = re.sub(bare, f"'{name}'", command) if "'" not in command else command
    return command


def _made_below(request: str, command: str) -> str:
    """Return a `mkdir` of folders beside the one that `request` wants them in, with them in it."""
    below = _BELOW.search(request)
    made = _MKDIR.fullmatch(command)
    folders = made[1].split() if made else []
    if below is None or len(folders) < 2 or below[1] not in (folders[0], folders[-1]):
        return command
    inner = [folder for folder in folders if folder != below[1]]
    if any("/" in folder for folder in inner):
        return command
    return f"mkdir -p {' '.join(f'{below[1]}/{folder}' for folder in inner)}"


def _lines_apart(command: str) -> str:
    """Return `command` so that echo ends lines where its text has the escape for that."""
    echoed = _ECHOES.match(command)
    if echoed is None or "\\n" not in echoed[2]:
        return command
    # In a string of a program, and beside what is no escape, it may stand for itself.
    strings = _INNER_STRINGS[echoed[1]].findall(echoed[2])
    if _NO_ESCAPE.search(echoed[2]) or any("\\n" in string for string in strings):
        return command
    text = echoed[2].removesuffix("\\n")
    return f"echo -e {echoed[1]}{text}{echoed[1]}{command[echoed.end() :]}"


def _echoes_over(command: str) -> bool:
    """Return whether `command` puts an echoed text in place of all that a file holds."""
    return any(
        one.op == ">" and one.target is not None and not one.target.raw.startswith("/dev/")
        for part in tree.simple_commands(parse(command))
        if part.words and part.words[0].raw in _ECHOING
        for one in part.redirects
    )


def _keep_input(command: str) -> str:
    """Return `command` so that it does not empty the file that it reads before it is read."""
    statements = parse(command)
    last = statements
    if isinstance(statements, tree.Sequence):
        last = statements.items[-1][1] if statements.items else statements
        if any(operator == "||" for operator, _ in statements.items):
            return command
    program, written = _split_at_output(command, last)
    if not written or _path(written) not in _paths_read(last):
        return command
    new = f"{written.raw}.new"
    return f"{program} {new} && test -s {new} && mv {new} {written.raw}"


def _split_at_output(command: str, last: tree.Node) -> tuple[str, tree.Word | None]:
    """Return `command` up to the file at its end that its output goes to, and that file."""
    for part in tree.parts_of(last):
        if isinstance(part, tree.Redirect) and part.target is not None and part.op in _OUTPUTS:
            before = command.removesuffix(part.target.raw).rstrip()
            if before.endswith(part.op) and not _OTHER_OUTPUT.search(before):
                return before, part.target
    return command, None


def _paths_read(node: tree.Node) -> frozenset[str]:
    """Return the words in `node` that may name files that it reads, as paths."""
    parts = list(tree.parts_of(node))
    words = [part.target for part in parts if isinstance(part, tree.Redirect) and part.op == "<"]
    for part in parts:
        if isinstance(part, tree.Simple) and part.words and part.words[0].raw not in _ECHOING:
            words += part.words[1:]
    return frozenset(filter(None, map(_path, words)))


def _path(word: tree.Word | None) -> str:
    """Return the path that a word names, "" where it has expansions, and for a device."""
    parts = word.parts if word is not None else ()
    text = "".join(part.text for part in parts if isinstance(part, tree.Literal))
    fixed = all(isinstance(part, tree.Literal) for part in parts) and not set("*?[") & set(text)
    return posixpath.normpath(text) if fixed and text and not text.startswith("/dev/") else ""


_SPACED = re.compile(wording("spaced"), re.IGNORECASE)
_IS_NAME = re.compile(r"[\w.() -]+")
_BELOW = re.compile(wording("below"), re.IGNORECASE)
_MKDIR = re.compile(r"mkdir (?:-p )?((?:[\w./-]+ )+[\w./-]+)")
_ECHOES = re.compile(r"echo (['\"])((?:(?!\1).)*)\1")
_INNER_STRINGS = {"'": re.compile(r'"[^"]*"'), '"': re.compile(r"(?<!\w)'[^']*'")}
_NO_ESCAPE = re.compile(r"\\[^nt\"$`]|\b[A-Za-z]:\\")
_OUTPUTS = frozenset({">", ">|", "&>"})
_OTHER_OUTPUT = re.compile(r"(?<!\S)(?:0|[2-9]|\d\d+)>\|?$")
_UNPACKS_INTO = re.compile(r"^tar -?\w*x[^;&|]* -C (?P<folder>[\w-][\w./-]*)(?=\s|$)")
_SCRIPT = re.compile(r"^(?:\./|python3? (?:\./)?|sh (?:\./)?)([\w./-]+\.sh)\b")
_PYTHON = re.compile(r"(^|[;&|]\s*)python(?= )")
_INTO_FILE = re.compile(r"^(?!:|true\b)[^>]*[^>\s\d&=-]\s*>>?\s*(?!/dev/)([\w./-]+)$")
_SED = re.compile(
    r"^sed -i (?:-E )?(?P<quote>['\"])s(?P<mark>[/|#,])(?P<old>[^/|#,'\"\\]+)(?P=mark)"
    r"[^/|#,'\"]*(?P=mark)g?(?P=quote) (?P<files>[^;&|<>]+)$"
)


def checked_command(request: str, command: str) -> str:
    """Return `command` so that it fails where it left an empty file, or had nothing to replace."""
    if (sed := _SED.match(command)) is not None and " -E " not in command:
        quote = sed["quote"]
        return f"grep -q -- {quote}{sed['old']}{quote} {sed['files']} && {command}"
    written = _INTO_FILE.match(command)
    if written is None or _WANTS_IT_EMPTY.search(plain(request)):
        return command
    return f"{command} && test -s {written[1]}"


def _restore_spelling(request: str, command: str) -> str:
    """Return `command` with the texts of its only substitution spelled as in `request`.

    A small model corrects what it copies: "colour" becomes "color", and "Madrid" "madrid".
    """
    pairs = [[word for word in words if word] for words in _REPLACES.findall(request)]
    found = list(_SUBSTITUTION.finditer(command))
    if len(pairs) != 1 or len(found) != 1:
        return command
    (old, new), (mark, was, becomes) = pairs[0], found[0].groups()
    if plain(becomes) != plain(new) or plain(was) not in (plain(old), plain(new)):
        return command
    return f"{command[: found[0].start(1)]}{mark}{old}{mark}{new}{mark}{command[found[0].end() :]}"


def names_in(request: str) -> tuple[str, ...]:
    """Return the names in `request` that its command must contain."""
    quoted = ["".join(groups) for groups in _QUOTED.findall(request)]
    rest = _QUOTED.sub(" ", request)
    files = [name.strip("/") for name in _NAME.findall(rest)]
    numbers = _NUMBER.findall(_NAME.sub(" ", rest))
    proper = [word for word in _PROPER.findall(rest) if not _NO_NAME.fullmatch(word.lower())]
    replaced = [word for pair in _REPLACES.findall(rest) for word in pair]
    placed = [word for groups in _PLACED.findall(rest) for word in groups]
    named = [*files, *quoted, *numbers, *proper, *replaced, *placed]
    return tuple(dict.fromkeys(filter(None, named)))


# A column, or a folder that ends a request or goes before what it has, named by a plain word.
_PLACED = re.compile(wording("placed"))


# A text that is searched or replaced in any case may be written in any.
_ANY_CASE = re.compile(r"\s-\w*i|/\w*I\b|tolower|iname")


def _holds(command: str, name: str) -> bool:
    """Return whether the name is in the command, where a quoted text may be escaped or cut up."""
    if name.isdigit():
        return bool(re.search(rf"(?<!\d){name}(?!\d)", command))
    words = re.findall(r"\w+", name)
    return bool(words) and all(re.search(rf"(?<!\w){word}(?!\w)", command) for word in words)


def _reads_column(command: str, number: int | None) -> bool:
    """Return whether the command takes the column from the lines that it reads, by its number."""
    return bool(number) and bool(re.search(rf"(?:\$|-f ?|-k ?){number}(?!\d)", command))


_SHELL_WORDS = (
    "alias bg break builtin case cd command continue declare dirs do done echo elif else esac eval "
    "exec exit export false fg fi for function getopts hash help history if jobs kill let local "
    "mapfile popd printf pushd pwd read readonly return select set shift shopt source test then "
    "time times trap true type ulimit umask unalias unset until wait while"
)
_WORDS_OF_SHELL = frozenset(_SHELL_WORDS.split())
_STRINGS = re.compile(r"'[^']*'|\"(?:\\.|[^\"])*\"")
_PROGRAM = re.compile(r"(?:^|[;|&(])\s*(?:\w+=\S*\s+)*([a-z][\w.+-]*)(?=\s|$)")


def _missing(command: str) -> list[str]:
    """Return the programs in `command` that this machine does not have."""
    programs = dict.fromkeys(_PROGRAM.findall(_STRINGS.sub("''", command)))
    named = [name for name in programs if name not in _WORDS_OF_SHELL]
    return [f"no program {name}" for name in named if find_user_program(name) is None]


def _copied_names(request: str, command: str, shown: Collection[CommandExample]) -> Iterable[str]:
    asked = plain(request)
    theirs = {
        name
        for example in shown
        for name in _COMMAND_NAME.findall(example.command)
        if name in example.request and plain(name) not in asked
    }
    return [name for name in dict.fromkeys(_COMMAND_NAME.findall(command)) if name in theirs]


EXAMPLES = 5
MAX_COMMAND_TOKENS = 160
CANDIDATES = 3
"""Commands written for one proposal: another one only if there are reasons against the others."""
_ONE_LINE = "root ::= [^ \\t\\r\\n`#] [^\\r\\n]*"
_ERROR_LINES = 3
_REPEATED = "repeated what failed"


class Completion(NamedTuple):
    """A finished completion."""

    text: str
    usage: Usage
    cut: bool


class CommandProposal(NamedTuple):
    """The best command found, the remaining reasons against it, and the usage."""

    command: str
    doubts: tuple[str, ...]
    usage: Usage

    @property
    def harmful(self) -> bool:
        """Return whether it deletes or ends something that the user did not ask to lose."""
        return HARM in self.doubts

    @property
    def repeated(self) -> bool:
        """Return whether nothing better was found than the command that just failed."""
        return _REPEATED in self.doubts

    @property
    def weight(self) -> tuple[bool, bool, int]:
        """Return a sort key; the better of two proposals weighs less."""
        return self.harmful, self.repeated, len(self.doubts)


class CommandWriter:
    """Writes commands with the completions of `write` and the examples of the bank.

    `extra` gives the user's own examples as they are now: one learned a moment ago counts.
    """

    def __init__(
        self,
        write: Callable[[LocalPrompt], Awaitable[Completion]],
        extra: Callable[[], Sequence[CommandExample]],
    ) -> None:
        self._write = write
        self._extra = extra
        self._built: Sequence[CommandExample] = ()
        self._banks: Mapping[Language, Bank] | None = None

    def bank(self, language: Language) -> Bank:
        """Return the examples in `language`, the user's first; built anew when those changed."""
        extra = tuple(self._extra())
        if self._banks is None or extra != self._built:
            everything = (*extra, *examples())
            self._banks = {language: Bank(everything, language) for language in LANGUAGES}
            self._built = extra
        return self._banks[language]

    def known_share(self, text: str, language: Language) -> float:
        return self.bank(language).known_share(text)

    async def propose(self, turn: TurnSoFar, part: str) -> CommandProposal:
        """Return a command for `part`. Raises `ModelReplyError` without any usable reply."""
        found: list[CommandProposal] = []
        usage = Usage()
        # After a failure the next-best examples: the best ones led to what failed.
        first = len(turn.failed) * EXAMPLES
        for number in range(CANDIDATES):
            rank = first + number * EXAMPLES
            asked = f"{turn.previous[0]} {part}" if turn.previous else part
            similar = self.bank(language_of(turn.request)).nearest(asked, rank + EXAMPLES)
            shown = similar[rank:] or similar[-EXAMPLES:]
            # The model sometimes repeats a failed command that it is shown; then it is not shown.
            text = chat_text(command_chat(turn, part, shown, with_failure=number == 0))
            prompt = LocalPrompt(text, MAX_COMMAND_TOKENS, stop=("\n",), grammar=_ONE_LINE)
            written = await self._write(prompt)
            usage += written.usage
            command = correct_command(part, written.text.strip())
            if written.cut or not command or _PROSE.match(command):
                continue
            against = (*doubts(part, command, shown, turn.looks), *_missing(command))
            if turn.failed and checked_command(part, command) == turn.failed[-1].command:
                against = (_REPEATED, *against)
            found.append(CommandProposal(command, against, usage))
            if not against:
                break
        if not found:
            raise ModelReplyError(
                "The local model found no usable command; rephrase the "
                "request, or split it into smaller ones."
            )
        best = min(found, key=lambda proposal: proposal.weight)
        return CommandProposal(best.command, best.doubts, usage)


def command_chat(
    turn: TurnSoFar, part: str, shown: Sequence[CommandExample], *, with_failure: bool = True
) -> Chat:
    """Return the chat for `part`: what was seen, examples, the earlier parts, request and error."""
    seen = description(turn.request, turn.looks)
    system = prompts.text("local_model.command")
    chat = [("system", f"{system}\n\n{seen}" if seen else system)]
    for example in reversed(shown):
        chat += [("user", example.request), ("assistant", example.command)]
    if turn.previous is not None:
        chat += [("user", turn.previous[0]), ("assistant", turn.previous[1])]
    for earlier, ran in zip(turn.parts, turn.done, strict=False):
        chat += [("user", earlier), ("assistant", ran.command)]
    chat.append(("user", part))
    if turn.failed and with_failure:
        said = "\n".join(turn.failed[-1].output.splitlines()[-_ERROR_LINES:])
        chat.append(("assistant", turn.failed[-1].command))
        again = prompts.text("local_model.another_command", output=said, request=part)
        chat.append(("user", again))
    return chat
