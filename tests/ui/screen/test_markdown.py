"""Markdown drawn for the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.ui.screen.markdown import MarkdownStream, markdown_lines
from tests.ui.face import PLAIN

DOCUMENT = """# Title
Some text
in two lines

- one
- two

  deeper

1. first

```python
x = 1

y = 2
```
After the fence

| a | b |
|---|---|
| 1 | 2 |

Last words"""


def blocks(text: str, size: int) -> list[str]:
    stream = MarkdownStream()
    found = []
    for start in range(0, len(text), size):
        found += stream.feed(text[start : start + size])
    return [*found, stream.finish()]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_blocks_do_not_depend_on_how_the_stream_is_cut(size: int) -> None:
    assert blocks(DOCUMENT, size) == blocks(DOCUMENT, len(DOCUMENT))


def test_where_blocks_end() -> None:
    found = blocks(DOCUMENT, 5)
    assert found[0] == "# Title\n"
    assert found[1] == "Some text\nin two lines\n\n"
    assert found[2].startswith("- one\n- two\n\n  deeper\n\n1. first")
    assert "```python\nx = 1\n\ny = 2\n```\n" in found
    assert found[-1] == "Last words"


def test_prose_ends_at_a_readable_width_and_code_and_tables_at_the_terminals() -> None:
    words = "some words of an answer " * 12
    code, cell = "x = " + "1 + " * 30 + "1", "long " * 22
    source = (
        f"# {words}\n\n{words}\n\n- {words}\n  - {words}\n\n> {words}\n\n```\n{code}\n```\n\n"
        f"| a | b |\n|---|---|\n| {cell} | 2 |\n"
    )
    lines = markdown_lines(source, PLAIN, 140)
    prose = [line for line in lines if "answer" in line]
    assert max(map(len, prose)) in range(90, 101)
    assert f"  {code}" in lines
    assert any(cell.strip() in line for line in lines)
    assert max(map(len, markdown_lines(words, PLAIN, 60))) <= 60


@given(st.text(alphabet="ab`~#-1. |\n ", max_size=200), st.integers(1, 9))
def test_nothing_is_lost_or_said_twice(text: str, size: int) -> None:
    said = "".join(blocks(text, size))
    assert [line for line in said.split("\n") if line.strip()] == [
        line for line in text.split("\n") if line.strip()
    ]


def test_a_heading_is_finished_with_its_line_and_a_paragraph_is_not() -> None:
    stream = MarkdownStream()
    assert stream.feed("## Now") == []
    assert stream.feed("\nwords") == ["## Now\n"]
    assert stream.feed("\n") == []
    assert stream.open_text == "words\n"


def test_the_tail_of_a_long_fence_is_still_a_fence() -> None:
    stream = MarkdownStream()
    stream.feed("```sh\n" + "".join(f"line {n}\n" for n in range(100)))
    tail = stream.open_tail(3)
    assert tail == "```sh\nline 97\nline 98\nline 99\n"


def test_a_fence_inside_a_list_does_not_end_the_list() -> None:
    assert blocks("- a\n  ```\n  x\n  ```\n- b\n\nend\n\n", 3) == [
        "- a\n  ```\n  x\n  ```\n- b\n\n",
        "end\n\n",
    ]
