"""Skills on the disk: their front matter, their places, their bounds, and the catalogue."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kogniterm.agent.compaction import text_tokens
from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.paths import Paths
from kogniterm.runtime.extensions.skills.skill_service import WINDOW_SHARE, make_catalogue
from kogniterm.runtime.extensions.skills.skill_sources import (
    FoundSkill,
    Skill,
    SkillSources,
    by_name,
    parse_skill,
)
from kogniterm.runtime.operations.skill_actions import add_skill, own_skill, remove_skill
from kogniterm.runtime.trust.project_places import LARGEST_SKILL_FILE, MOST_SKILL_FILES, walk
from kogniterm.runtime.trust.trust_store import TrustStore

SKILLS = Path(__file__).parents[2] / "data" / "skills"
PLAIN = "---\nname: {name}\ndescription: About {name}.\n---\nDo it.\n"


def write(folder: Path, text: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text or PLAIN.format(name=folder.name))
    return folder


@pytest.fixture
def sources(tmp_path: Path) -> SkillSources:
    paths = Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    return SkillSources(paths, tmp_path / "work", tmp_path / "home")


def states(sources: SkillSources) -> dict[str, str]:
    return {f"{one.where}:{one.name}": one.state for one in sources.find()}


def test_a_skill_is_read_in_the_public_format() -> None:
    text = (SKILLS / "release-notes" / "SKILL.md").read_text()
    skill = parse_skill("release-notes", text)
    assert skill.tools == ("Bash(git log:*)", "Bash(git tag:*)", "Read")
    assert (skill.license, skill.compatibility) == ("MIT", "Needs git.")
    assert skill.body.startswith("# Release notes")
    assert "metadata" not in skill.body
    assert (skill.for_user, skill.for_model) == (True, True)
    assert parse_skill("a", "Only *words*.\nMore.").description == "Only *words*."
    forked = parse_skill("a", "---\ndescription: D.\ncontext: fork\nmodel: x\n---\nB.")
    assert forked.ignored == ("context", "model")


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ("Read, Grep", ("Read", "Grep")),
        ("Bash(npm run test:*), Bash(git diff:*) Read",
         ("Bash(npm run test:*)", "Bash(git diff:*)", "Read")),
        ("[Read, 'Bash(make)']", ("Read", "Bash(make)")),
    ],
)  # fmt: skip
def test_allowed_tools_may_be_written_in_three_ways(value: str, tools: tuple[str, ...]) -> None:
    text = f"---\ndescription: D.\nallowed-tools: {value}\n---\nB.\n"
    assert parse_skill("a", text).tools == tools


@pytest.mark.parametrize(
    "fields",
    [
        "description: >-\n  Research &\n  more",
        "description: >\n  Research &\n  more\nargument-hint: [a] [b]",
        "license: Apache: 2.0\ndescription: |\n  Research &\n  more",
        "description: Research &\n  more\nmetadata: {a: &x [1], b: *x}",
    ],
)
def test_one_field_that_is_no_yaml_costs_no_other(fields: str) -> None:
    assert parse_skill("a", f"---\n{fields}\n---\nB.\n").description == "Research & more"


@pytest.mark.parametrize(
    ("folder", "text", "why"),
    [
        ("Upper", "---\ndescription: D.\n---\nB.", "a-z"),
        ("a--b", "---\ndescription: D.\n---\nB.", "hyphens"),
        ("x" * 65, "---\ndescription: D.\n---\nB.", "64"),
        ("one", "---\nname: two\ndescription: D.\n---\nB.", "not that of its folder"),
        ("one", "---\nname: one\n---\n\n", "no description"),
    ],
)
def test_what_is_no_skill_says_why(folder: str, text: str, why: str) -> None:
    with pytest.raises(UnusableValueError, match=why):
        parse_skill(folder, text)


def test_control_characters_and_length_of_a_description_are_bounded() -> None:
    text = f'---\ndescription: "a\\e[31mred\\u202e {"long " * 400}"\n---\nB.\n'
    skill = parse_skill("a", text)
    assert len(skill.description) <= 1024
    assert skill.description.isprintable()


def test_each_place_has_its_own_way_to_be_used(sources: SkillSources) -> None:
    write(sources.paths.extensions.skills / "mine")
    write(sources.folder / ".agents/skills/theirs")
    write(sources.home / ".claude/skills/installed")
    write(sources.home / ".agents/skills/mine")
    assert states(sources) == {
        "user:mine": "ready",
        "project:theirs": "untrusted",
        "shared:installed": "new",
        "shared:mine": "new",
    }
    TrustStore(sources.paths.trust_file).trust(sources.folder, walk(sources.folder).files)
    for one in sources.find():
        if one.where == "shared":
            sources.accept(one)
    sources.switch("theirs", on=False)
    assert states(sources) == {
        "user:mine": "ready",
        "shared:mine": "hidden",
        "project:theirs": "off",
        "shared:installed": "ready",
    }
    assert by_name(sources.find())["mine"].where == "user"
    sources.switch("theirs", on=True)
    assert states(sources)["project:theirs"] == "ready"


def test_any_change_of_any_file_takes_the_acceptance_away(sources: SkillSources) -> None:
    folder = sources.home / ".agents/skills/release-notes"
    shutil.copytree(SKILLS / "release-notes", folder)
    (folder / "data.bin").write_bytes(b"\0" * 100_000)

    def found() -> FoundSkill:
        return by_name(sources.find())["release-notes"]

    for change in (
        lambda: (folder / "scripts/commits.sh").write_text("rm -rf ~\n"),
        lambda: (folder / "scripts/more.sh").write_text("echo\n"),
        lambda: (folder / "data.bin").write_bytes(b"\0" * 99_999 + b"\1"),
        (folder / "references/style.md").unlink,
    ):
        sources.accept(found())
        assert found().state == "ready"
        change()
        assert found().state == "changed"
    sources.accept(found())
    (folder / "SKILL.md").write_text("---\ndescription: New.\n---\nOther.\n")
    one = found()
    assert sources.finding(one).changed == ("SKILL.md",)
    assert "+Other." in sources.accepted.changes(one.folder, one.files)["SKILL.md"]


def test_links_pipes_and_huge_trees_are_passed_over_with_a_reason(sources: SkillSources) -> None:
    place = sources.folder / ".claude/skills"
    outside = sources.home / "secret.txt"
    outside.write_text("secret\n")
    (write(place / "leads-out") / "notes.md").symlink_to(outside)
    (write(place / "dangling") / "notes.md").symlink_to("nowhere")
    os.mkfifo(write(place / "pipe") / "in")
    many = write(place / "many")
    for number in range(MOST_SKILL_FILES):
        (many / f"{number}.txt").write_text("x")
    deep = write(place / "deep")
    (deep / "a/b/c/d/e/f/g").mkdir(parents=True)
    with (write(place / "large") / "big").open("wb") as file:
        file.truncate(LARGEST_SKILL_FILE + 1)
    good = write(place / "good")
    (good / "again.md").symlink_to("SKILL.md")
    (good / ".git").mkdir()
    (good / ".git" / "index").write_bytes(b"changes by itself")
    (place / "elsewhere").symlink_to(write(sources.home / "elsewhere"))
    (place / "no-skill").mkdir()
    names = {one.name for one in walk(sources.folder).files}
    assert names == {".claude/skills/good/SKILL.md", ".claude/skills/good/again.md"}
    reasons = "\n".join(map(str, walk(sources.folder).passed_over))
    for why in (
        "leads-out not used: notes.md is a link that leads out of its folder.",
        "dangling not used: notes.md is a link that leads nowhere.",
        "pipe not used: in is not a regular file.",
        "many not used: it has more than 200 files.",
        "deep not used: its folders are too deep",
        "large not used: big is larger than",
    ):
        assert why in reasons
    assert "elsewhere" not in reasons
    found = by_name(sources.find())
    assert found["pipe"].state == "unusable"
    assert found["good"].state == "untrusted"
    assert "elsewhere" not in found


def test_the_catalogue_is_cut_fairly_to_its_share() -> None:
    def skill(number: int, length: int) -> Skill:
        return Skill(f"skill-{number}", "word " * length, "Body.")

    few = [skill(1, 2), skill(2, 100)]
    whole = make_catalogue(few, 1_000_000)
    assert not whole.cut
    assert ("word " * 100).strip() in whole.text
    many = [skill(number, 2 if number < 3 else 150) for number in range(30)]
    for window in (60_000, 20_000, 8_000, 1_000):
        cut = make_catalogue(many, window)
        assert text_tokens(cut.text) <= window * WINDOW_SHARE
    cut = make_catalogue(many, 100_000)
    assert cut.cut == {f"skill-{number}" for number in range(3, 30)}
    assert "- skill-1: word word" in cut.text
    assert not cut.unnamed
    named = make_catalogue(many, 20_000)
    assert "word" not in named.text.partition("\n")[2]
    some = make_catalogue(many, 10_000)
    assert some.unnamed
    assert f"[{len(some.unnamed)} more;" in some.text
    assert make_catalogue([], 1_000).text == ""


def test_a_skill_is_added_with_its_scripts_and_removed(sources: SkillSources) -> None:
    paths = sources.paths
    script = sources.home / "release-notes"
    shutil.copytree(SKILLS / "release-notes", script)
    (script / "scripts/commits.sh").chmod(0o755)
    assert add_skill(paths, script) == "release-notes"
    copied = paths.extensions.skills / "release-notes"
    assert os.access(copied / "scripts/commits.sh", os.X_OK)
    assert (copied / "references/style.md").read_bytes() == (
        SKILLS / "release-notes/references/style.md"
    ).read_bytes()
    with pytest.raises(UsageError, match="already"):
        add_skill(paths, script)
    with pytest.raises(UsageError, match="not a usable skill"):
        add_skill(paths, sources.home)
    remove_skill(own_skill(paths, "release-notes"))
    assert not copied.exists()
    for name in ("release-notes", "..", "a/b", ""):
        with pytest.raises(UsageError, match="no skill"):
            own_skill(paths, name)
    target = write(sources.home / "linked")
    (paths.extensions.skills / "linked").symlink_to(target)
    remove_skill(own_skill(paths, "linked"))
    assert target.is_dir()
