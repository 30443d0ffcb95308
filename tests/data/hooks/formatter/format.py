#!/usr/bin/env python3
"""Strip blanks at the ends of lines in the file that was edited, and report it."""

import json
import pathlib
import sys

given = json.load(sys.stdin)
file = pathlib.Path(given["tool_input"]["file_path"])
before = file.read_text()
after = "".join(f"{line.rstrip()}\n" for line in before.splitlines())
if after != before:
    file.write_text(after)
    said = {"hookEventName": "PostToolUse", "additionalContext": f"{file.name} was formatted."}
    sys.stdout.write(json.dumps({"hookSpecificOutput": said}))
