"""The worst a foreign text visibly does: the last net under what is not judged."""

from __future__ import annotations

import re

_WORST = (
    (r"rm\s+(?:-\w+\s+)*-\w*[rRf]\w*\s+(?:--\S+\s+)*[\"']?(?:/|~|\$HOME|\*|\.\.?(?:[\"'\s]"
        r"|$))", "deletes far more than one file"),
    (r"rmtree\(\s*(?:[\"'](?:/|~|\.\.)|os\.path\.expanduser|Path\.home"
        r"|[\"']\.[\"'])", "deletes whole folders"),
    (r"rm_rf|rimraf|rmSync\([^)]*recursive|removeSync|File::Path.*(?:rmtree"
        r"|remove_tree)", "deletes whole folders"),
    (r"mkfs|/dev/(?:sd|nvme|hd|vd|mmcblk|mem)|dd\s+if=", "writes to a disk"),
    (r"socket.*(?:dup2|subprocess|pty\.spawn|/bin/(?:ba)?sh|exec)|pty\.spawn|/dev/tcp/"
        r"|fsockopen.*exec", "gives a shell to the network"),
    (r"(?:curl|wget)[^|;&]*\|\s*(?:ba|z|da)?sh\b|exec\(\s*(?:urllib"
        r"|requests)", "runs code that comes from the network"),
    (r":\(\)\s*\{|while\s+(?:True|1)\s*:?\s*os\.fork|fork\s+while\s+fork"
        r"|os\.fork\(\)\s*while", "starts processes without end"),
    (r"os\.kill\(\s*-1|kill\s+-9\s+-1", "ends every process"),
    (r"authorized_keys|/etc/(?:passwd|shadow|sudoers|cron)|\.bashrc"
        r"|\.ssh/", "touches files other programs obey"),
    (r"base64.{0,40}(?:b64decode|decode64|-d).{0,60}(?:exec|eval|system)|(?:exec"
        r"|eval)\(.{0,60}(?:b64decode|decode64|unhexlify|fromhex|atob"
            r"|marshal)", "runs text that was decoded out of sight"),
)  # fmt: skip

_PUT_TOGETHER = re.compile(r"\$\{?IFS\}?|[{},]")
"""How a shell joins words without blanks: braces and the separator variable."""


def worst_of_text(code: str) -> str | None:
    """The worst thing a foreign text visibly does, in words; a last net, never a permission."""
    plain = _PUT_TOGETHER.sub(" ", code[:20000])
    for pattern, what in _WORST:
        if re.search(pattern, code[:20000], re.DOTALL) or re.search(pattern, plain, re.DOTALL):
            return what
    return None
