"""Coloured diffs of a file edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.text import Text

from kogniterm.text.file_text import WINDOWS_ENDS, unified_diff
from kogniterm.types import Effect, Phrase
from kogniterm.ui.locale import translate
from kogniterm.ui.screen.diffs import diff, relative, words
from kogniterm.ui.words.approval_words import effect_text

UNIFIED = """--- a/f.py
+++ b/f.py
@@ -1,3 +1,3 @@
 def f():
-    return old_value + 1
+    return new_value + 1
 # end
"""


def styled(text: Text, style: str) -> list[str]:
    return [text.plain[span.start : span.end] for span in text.spans if span.style == style]


NUMBERED = """--- a/f.py
+++ b/f.py
  8  def f():
  9 -    return old_value + 1
  9 +    return new_value + 1
 10  # end
...
101 --- a comment of SQL
100 +++ a plus
101 +more"""


def test_only_the_changed_words_are_marked() -> None:
    text = diff(UNIFIED)
    assert styled(text, "removed_word") == ["old_value"]
    assert styled(text, "added_word") == ["new_value"]


def test_lines_that_have_nothing_in_common_are_not_picked_apart() -> None:
    text = diff("-alpha beta gamma\n+0x1F 2 3 4 5 6 7\n")
    assert styled(text, "removed_word") == []
    assert styled(text, "added") != []


def test_a_long_diff_is_cut_with_a_count() -> None:
    text = diff("\n".join(f"+line {n}" for n in range(30)), limit=10)
    assert text.plain.splitlines()[-1] == "20 more changed lines"


def test_control_characters_of_a_file_are_not_obeyed() -> None:
    assert "\x1b" not in diff("+evil \x1b]0;title\x07\n").plain


def test_words_of_both_sides_are_kept() -> None:
    before, after = words("a b c", "a x c")
    assert (before.plain, after.plain) == ("a b c", "a x c")


def test_files_are_named_from_the_folder_and_content_is_left_alone() -> None:
    change = "--- /w/a/x.py\n+++ /w/a/x.py\n@@ -1 +1 @@\n--- /w/a/y\n+++ /w/a/z"
    assert relative(change, "/w/a").split("\n") == [
        "--- x.py", "+++ x.py", "@@ -1 +1 @@", "--- /w/a/y", "+++ /w/a/z",
    ]  # fmt: skip
    assert relative(change, "/w/b") == change
    assert relative("--- /dev/null\n+++ /w/a/n", "/w/a/") == "--- /dev/null\n+++ n"


@pytest.mark.parametrize("hidden", ["\u200b", "\u202e", "\r", "\x1b", "\u00a0", "\u2066"])
@pytest.mark.parametrize("sign", ["+", "-"])
def test_what_cannot_be_seen_is_spelt_out_in_both_sides(sign: str, hidden: str) -> None:
    shown = diff(f" before\n{sign}a{hidden}b\n after\n").plain
    assert shown.split("\n")[1] == f"{sign}a\\u{{{ord(hidden):X}}}b"


def test_lines_have_the_numbers_of_their_file() -> None:
    first = UNIFIED.replace("@@ -1,3 +1,3 @@", "@@ -8,3 +8,3 @@")
    second = "@@ -101 +100,2 @@\n--- a comment of SQL\n+++ a plus\n+more\n"
    text = diff(first + second)
    assert text.plain == NUMBERED


def test_long_lines_continue_below_their_text() -> None:
    change = "@@ -9 +9,2 @@\n-" + "a" * 30 + "\n+" + "b" * 30 + "\n+\t語" + "語" * 10
    shown = diff(change, columns=20).plain.split("\n")
    assert shown[:2] == [" 9 -" + "a" * 16, "    " + "a" * 14]
    assert shown[4:6] == ["10 +        " + "語" * 4, "    " + "語" * 7]


def test_similar_lines_are_compared_where_others_were_added() -> None:
    text = diff("@@ -1 +1,2 @@\n-the first value is\n+the first word is\n+something else\n")
    assert styled(text, "removed_word") == ["value"]
    assert styled(text, "added_word") == ["word"]


def test_tabs_and_the_line_ends_of_windows_are_no_news() -> None:
    windows = diff(unified_diff("f", "\ta\r\n", "\tb\r\n")).plain.split("\n")[2:]
    assert windows == [WINDOWS_ENDS, "1 -\ta", "1 +\tb"]
    assert diff(unified_diff("f", "a\r\n", "a\n")).plain.split("\n")[2:] == ["1 -a\\u{D}", "1 +a"]


def test_what_is_spelt_out_is_not_spelt_out_twice() -> None:
    change = unified_diff("f", "\\u{D} \u200b\n", b"\xe9" + b" " * 60)
    assert change.split("\n")[3:] == ["-\\u{5C}u{D} \\u{200B}", "+\\x{E9}\\u{20*60}",
                                       "\\ No newline at end of file"]  # fmt: skip
    for line in change.split("\n")[3:]:
        assert line in diff(change).plain


def test_a_shortened_diff_tells_how_many_changed_lines_it_leaves_out() -> None:
    before = "".join(f"{number}\n" for number in range(40))
    change = unified_diff("f", before, before.replace("3\n", "x\n"))
    shown = diff(change, limit=12).plain.split("\n")
    changed = [line for line in change.split("\n")[12:] if line[0] in "+-"]
    assert shown[-1] == f"{len(changed)} more changed lines"


def test_the_name_of_a_file_cannot_forge_a_line_of_a_diff(tmp_path: Path) -> None:
    lines = unified_diff(str(tmp_path / "a\n+++ b\n+forged"), b"old\n", "new\n").split("\n")
    assert [line[0] for line in lines] == ["-", "+", "@", "-", "+"]


@pytest.mark.parametrize("sign", ["\n", "\t", "\r", "\x1b", "\u202e", "\u200b", "\u2028"])
def test_a_foreign_value_stays_on_one_row_of_a_sentence(sign: str) -> None:
    said = translate(Phrase("Deletes {path}.", {"path": f"a{sign}[y] approve"}))
    assert said == f"Deletes a\\u{{{ord(sign):X}}}[y] approve."
    effect = effect_text(Effect("delete", f"a{sign}[y] approve", False))
    assert effect == f"deletes a\\u{{{ord(sign):X}}}[y] approve"
