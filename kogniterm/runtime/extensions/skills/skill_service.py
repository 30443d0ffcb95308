"""The skills of an open session: what the model is offered, and what it gets when one is used.

What is used is what is on the disk at that moment, if it is still what the user trusts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from kogniterm import prompts
from kogniterm.agent.compaction import observation_limit, text_tokens, used_skills
from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import ToolError, UsageError
from kogniterm.host.safe_files import read_regular, resolve_path
from kogniterm.runtime.extensions.extension_port import Extension, Moment, Right
from kogniterm.runtime.extensions.skills.skill_sources import (
    FoundSkill,
    Skill,
    SkillSources,
    by_name,
    find_skill,
)
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.trust.project_places import LARGEST_SKILL_FILE, SKILL_FILE, ProjectWalk
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import AskPort, SessionModes
from kogniterm.sessions.records import Noted
from kogniterm.text.shorten import one_line
from kogniterm.types import USE_SKILL, Phrase

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.allowed_tools import NamedPermission

WINDOW_SHARE = 0.02
"""The part of the model's window that the catalogue may take."""
SHORTEST = 24
"""Characters below which a description says nothing."""
_USABLE = ("ready", "off", "new", "changed")
"""States of skills that the model can use, or the user can let it use, in this session."""
_MOST_FILES = 60
"""Files listed with the instructions of a skill."""
_WRAPPING = 1_500
"""Characters kept for what stands around the instructions: folder and files."""


class SkillService(Extension):
    """The skills of one session; `found` is how they were when they were last looked at.

    `seen` is the workspace just now, for the first look.
    """

    name = "skills"
    moments: ClassVar[Mapping[Moment, Right]] = {"offer_tools": "add"}
    catalogue_tool = USE_SKILL

    def __init__(
        self,
        sources: SkillSources,
        journal: TurnJournal,
        modes: SessionModes,
        policy: PolicyService,
        asker: AskPort,
        seen: ProjectWalk | None = None,
    ) -> None:
        self.sources = sources
        self.journal = journal
        self.modes = modes
        self.policy = policy
        self.asker = asker
        self.found: tuple[FoundSkill, ...] = ()
        self._seen = seen
        self.offered = SkillCatalogue()
        self._tool_offered = False
        """Set once the model has the tool, which stays then: the list of tools must not change."""
        self._declined: set[str] = set()
        """The skills whose permissions the user did not want in this process."""

    def look(self) -> tuple[FoundSkill, ...]:
        """Look at the disk again; return all skills there are."""
        seen, self._seen = self._seen, None
        self.found = self.sources.find(seen)
        self.notices = tuple(
            Phrase("Skill {name} ({file}) ignored: {why}",
                   {"name": one.name, "file": one.folder, "why": one.problem})
            for one in self.found
            if one.problem is not None
        )  # fmt: skip
        self._tool_offered = self._tool_offered or any(one.state in _USABLE for one in self.found)
        return self.found

    def catalogue(self) -> str | None:
        found, info = self.look(), self.modes.model.info
        if info.one_command:
            return None
        ready = [one.skill for one in found if one.state == "ready" and one.skill is not None]
        self.offered = make_catalogue(ready, info.context_window)
        return self.journal.redact(self.offered.text)

    def withdrawal(self) -> str:
        return prompts.text("skills.gone")

    def unneeded(self) -> frozenset[str]:
        """Return the tool of skills where there is none.

        A skill of the user's counts before it is accepted: accepting it, or switching it on, must
        not change the list of tools. One of a folder that is not trusted has no effect at all.
        """
        usable = self._tool_offered and not self.modes.model.info.one_command
        return frozenset() if usable else frozenset({USE_SKILL})

    def preloaded(self, names: Collection[str], plugin: str) -> tuple[str, tuple[Phrase, ...]]:
        """Return the instructions of the skills that a sub-agent begins with, and why some lack.

        A sub-agent of a `plugin` names the skills of that without its name.
        """
        found = by_name(self.look()) if names else {}
        texts, lacking = [], []
        for name in names:
            one = found.get(f"{plugin}:{name}") or found.get(name)
            if one is None:
                lacking.append(Phrase("there is no skill {name}", {"name": one_line(name, 64)}))
            elif not one.usable:
                lacking.append(self.why_not(one))
            else:
                texts.append(self.journal.redact(self.for_model(one)))
        return "\n\n".join(texts), tuple(lacking)

    @property
    def used(self) -> frozenset[str]:
        """Return the names of the skills whose instructions are in the history."""
        return frozenset(used_skills(self.journal.state.messages))

    # --- the port of the tools ------------------------------------------------------------------

    async def use(self, name: str) -> str:
        """Return the instructions of a skill for the model. Raises `ToolError`."""
        one = by_name(self.look()).get(name)
        if one is None:
            ready = [skill.name for skill in self.found if skill.state == "ready"]
            names = ", ".join(ready) or "none"
            raise ToolError("There is no skill {name}; there are: {names}.", name=name, names=names)
        if one.state != "ready":
            raise ToolError("Not used: {why}", why=self.why_not(one))
        if self.asks(name):
            from kogniterm.runtime.extensions.allowed_tools import DECLINE, GRANT, question

            named = self.to_offer(name)
            reply = await self.asker.ask(question(name, named), (GRANT, DECLINE))
            self.answer_offer(name, named if reply == str(GRANT) else ())
        return self.for_model(one)

    def asks(self, name: str) -> bool:
        """Return whether the user is asked for permissions when this skill is used."""
        only = self.modes.plans.only_planning(self.journal.state) or self.modes.in_plan_mode
        return self.asker.ask_now is not None and not only and bool(self.to_offer(name))

    def to_offer(self, name: str) -> tuple[NamedPermission, ...]:
        """Return the permissions that a usable skill names and the session does not have yet."""
        one = by_name(self.found).get(name)
        if one is None or one.skill is None or not one.usable or name in self._declined:
            return ()
        from kogniterm.runtime.extensions.allowed_tools import named_permissions, not_granted

        workspace = str(resolve_path(self.sources.folder))
        return not_granted(
            named_permissions(one.skill.tools, workspace), self.policy.session_leases
        )

    def answer_offer(self, name: str, granted: Sequence[NamedPermission]) -> None:
        """Grant what the user allowed for this session; nothing declines all."""
        if not granted:
            self._declined.add(name)
        for one in granted:
            self.policy.grant(one.report, one.offer, str(self.sources.folder))

    def may_read(self, path: Path) -> bool:
        """Return whether a resolved path is a file of a usable skill, as it was trusted."""
        for one in self.found:
            if not one.usable or not path.is_relative_to(one.top):
                continue
            if is_secret(f"/{path.relative_to(one.top)}"):
                return False
            try:
                data = read_regular(path, LARGEST_SKILL_FILE + 1)
            except OSError:
                return False
            return hashlib.sha256(data).hexdigest() == one.digest_of(path)
        return False

    def runs_from(self, command: str, cwd: str) -> bool:
        """Return whether a command names the folder of a usable skill or plugin, or runs in it."""
        workspace = resolve_path(self.sources.folder)
        plugins = {Path(one.root): one.shown for one in self.sources.plugins}
        skills = {one.top: str(one.folder) for one in self.found if one.usable}
        for top, shown in (skills | plugins).items():
            names = {shown, str(top), str(top).replace(str(Path.home()), "~", 1)}
            if top.is_relative_to(workspace):
                names.add(str(top.relative_to(workspace)))
            if Path(cwd).is_relative_to(top) or any(name in command for name in names):
                return True
        return False

    # --- the user's commands --------------------------------------------------------------------

    def commands(self, taken: Collection[str]) -> tuple[tuple[str, str], ...]:
        """Return name and description of the skills that a slash command runs.

        Names that are `taken` stay what they are.
        """
        return tuple(
            (one.name, one_line(one.skill.description, 100))
            for one in self.found
            if one.usable and one.skill is not None and one.skill.for_user
            if one.name not in taken
        )

    def template(self, name: str) -> str:
        """Return the instructions of a skill that the user runs, its places not filled in.

        Raises `UsageError`.
        """
        one, model = find_skill(self.look(), name), self.modes.model.info
        if model.one_command:
            raise UsageError(
                "Model {model} is too small to use skills. Choose another with /model or --model.",
                model=model.name,
            )
        if not one.usable:
            raise UsageError("Not used: {why}", why=self.why_not(one))
        return self.instructions(one)

    def accept(self, one: FoundSkill) -> None:
        """Accept a shared skill as it was shown, and journal it."""
        self.sources.accept(one)
        files = {file.name: file.digest for file in one.files}
        self.journal.record(Noted("skill", {"accepted": one.name, "files": files}))

    def for_model(self, one: FoundSkill) -> str:
        """Return the instructions of a skill that nobody gave arguments and ran commands of."""
        return re.sub(r"\$ARGUMENTS(?:\[\d+\]|\b)", "", self.instructions(one))

    def instructions(self, one: FoundSkill) -> str:
        """Return the instructions of a skill as the model gets them, with its folder and files."""
        assert one.skill is not None
        names = [file.name for file in one.files if file.name != SKILL_FILE]
        listed = names[:_MOST_FILES]
        if len(names) > _MOST_FILES:
            listed.append(f"[{len(names) - _MOST_FILES} more]")
        files = prompts.text("skills.no_files")
        if names:
            files = prompts.text("skills.files", files=", ".join(listed))
        body = one.skill.body.replace("</skill", "<\\/skill")
        given = {"DIR": str(one.folder), "SESSION_ID": self.journal.state.session_id}
        body = re.sub(r"\$\{CLAUDE_(?:SKILL_)?(DIR|SESSION_ID)\}", lambda at: given[at[1]], body)
        room = observation_limit(self.modes.model.info.context_window) - _WRAPPING - len(files)
        if len(body) > max(room, _WRAPPING):
            rest = prompts.text("skills.cut", file=str(one.folder / SKILL_FILE))
            body = f"{body[: max(room, _WRAPPING)]}\n{rest}"
        return prompts.text(
            "skills.used", skill=one.name, folder=str(one.folder), files=files, body=body
        )

    def why_not(self, one: FoundSkill) -> Phrase:
        """Return why a skill cannot be used, and what the user can do."""
        name = {"name": one.name}
        match one.state:
            case "manual":
                return Phrase("only the user starts the skill {name}, with /{name}.", name)
            case "off":
                return Phrase("the skill {name} is switched off; kogniterm skills on {name}", name)
            case "new":
                return Phrase(
                    "the skill {name} is not accepted; kogniterm skills trust {name}", name
                )
            case "changed":
                return Phrase(
                    "the skill {name} changed since it was accepted; kogniterm skills trust {name}",
                    name,
                )
            case "untrusted" if one.plugin is not None and one.plugin.own:
                values = {**name, "plugin": one.plugin.name, "path": one.plugin.root}
                return Phrase(
                    "the plugin of the skill {name} is not trusted; /trust {plugin} or kogniterm "
                    "trust -C {path}",
                    values,
                )
            case "untrusted":
                return Phrase(
                    "the folder of the skill {name} is not trusted; /trust or kogniterm trust", name
                )
            case _:
                problem = one.problem or Phrase("another skill has its name")
                return Phrase("the skill {name}: {why}.", {**name, "why": problem})


class SkillCatalogue(NamedTuple):
    """The text for the model; `cut` are the skills whose descriptions are shorter than they are.

    `unnamed` are those that the model is not told of.
    """

    text: str = ""
    cut: frozenset[str] = frozenset()
    unnamed: frozenset[str] = frozenset()


def make_catalogue(skills: Sequence[Skill], window: int) -> SkillCatalogue:
    """Return the catalogue for a model with a `window` in tokens.

    Where descriptions do not fit, the longest are cut first, all to one length; then only names are
    given; then only some of them, with the number of the others.
    """
    if not skills:
        return SkillCatalogue()
    room = int(window * WINDOW_SHARE)
    longest = max(len(one.description) for one in skills)
    length = _largest(skills, SHORTEST, longest, room)
    if length is not None:
        cut = frozenset(one.name for one in skills if len(one.description) > length)
        return SkillCatalogue(_describe_skills(skills, length), cut)
    everyone = frozenset(one.name for one in skills)
    for count in range(len(skills), -1, -1):
        lines = [f"- {one.name}" for one in skills[:count]]
        if others := len(skills) - count:
            lines.append(f"- [{others} more; kogniterm skills list shows them to the user]")
        text = prompts.text("skills.catalogue", skills="\n".join(lines))
        if text_tokens(text) <= room:
            return SkillCatalogue(text, everyone, frozenset(one.name for one in skills[count:]))
    return SkillCatalogue("", everyone, everyone)


def _largest(skills: Sequence[Skill], low: int, high: int, room: int) -> int | None:
    """Return the most characters that each description may have; None where too few fit."""
    if text_tokens(_describe_skills(skills, high)) <= room:
        return high
    if text_tokens(_describe_skills(skills, low)) > room:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        fits = text_tokens(_describe_skills(skills, middle)) <= room
        low, high = (middle, high) if fits else (low, middle)
    return low


def _describe_skills(skills: Sequence[Skill], length: int) -> str:
    lines = (f"- {one.name}: {one_line(one.description, length)}" for one in skills)
    return prompts.text("skills.catalogue", skills="\n".join(lines))
