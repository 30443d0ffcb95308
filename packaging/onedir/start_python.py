"""Entry point of `kogniterm-python`: runs the parts of KogniTerm that are programs of their own.

It takes the calls of Python that KogniTerm makes: `-I`, `-S`, `-P` and `-X utf8`, which are always
in force here, and then `-c CODE`, `-m MODULE` or a file, with arguments.
"""

import os
import sys

import frozen_environment

ALWAYS_IN_FORCE = ("-I", "-P", "-S")
USAGE = "kogniterm-python runs parts of KogniTerm: FILE, -m MODULE or -c CODE"


def main(words: list[str]) -> None:
    """Run what the words name, as `__main__`."""
    option = ""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-c", "-m"):
            break
        if option == "-X":
            words = words[1:]
        elif option not in ALWAYS_IN_FORCE:
            sys.exit(f"kogniterm-python: unknown option {option}\n{USAGE}")
        option = ""
    if not words:
        sys.exit(USAGE)
    name = words[0]
    sys.argv = ["-c", *words[1:]] if option == "-c" else words
    if option == "-m":
        from runpy import run_module

        run_module(name, run_name="__main__", alter_sys=True)
        return
    started = sys.modules["__main__"]
    if option == "-c":
        code = compile(name, "<string>", "exec")
    else:
        from importlib.machinery import SourceFileLoader

        started.__file__ = name
        code = SourceFileLoader("__main__", name).get_code("__main__")
    for own in ("ALWAYS_IN_FORCE", "USAGE", "frozen_environment", "main", "os", "sys"):
        del started.__dict__[own]
    exec(code, started.__dict__)


frozen_environment.prepare()
# As Python does in the C locale, for the programs that are started from here (PEP 538).
if not any(os.environ.get(one) for one in ("LC_ALL", "LC_CTYPE", "LANG")):
    os.environ["LC_CTYPE"] = "C.UTF-8"
main(sys.argv[1:])
