"""git's settings that only shape what it does (git-config(1)). Pure.

The harmless ones are listed. Every other counts as one whose value is a program or leads to one,
also if only a later git knows it. Names are as `git config --list` prints them.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_LISTED = """
add advice am apply author blame branch checkout clean clone color column commit commitgraph: *
committer extensions feature fetch fsck fsmonitor grep i18n index lsrefs mailinfo mailmap: *
maintenance notes pack pretty push rebase receive repack rerere reset revert safe showbranch: *
sparse splitindex stash tag transfer user versionsort worktree format gui: *
core: abbrev attributesfile autocrlf bare bigfilethreshold checkroundtripencoding checkstat
    commentchar commentstring commitgraph compression configwritelocktimeoutms deltabasecachelimit
    eol excludesfile filemode fscache fsmonitorhookversion fsync fsyncmethod fsyncobjectfiles
    hidedotfiles hookspath ignorecase ignorestat logallrefupdates longpaths loosecompression
    multipackindex notesref packedgitlimit packedgitwindowsize precomposeunicode preloadindex
    protecthfs protectntfs quotepath repositoryformatversion safecrlf sharedrepository splitindex
    sparsecheckout sparsecheckoutcone symlinks trustctime untrackedcache warnambiguousrefs
    whitespace
credential: protectprotocol sanitizeprompt usehttppath username *.usehttppath *.username
diff: algorithm autorefreshindex colormoved colormovedws context dirstat dstprefix ignoresubmodules
    indentheuristic interhunkcontext mnemonicprefix noprefix orderfile relative renamelimit renames
    srcprefix statgraphwidth statnamewidth suppressblankempty wordregex wserrorhighlight
    *.algorithm *.binary *.cachetextconv *.funcname *.wordregex *.xfuncname
filter: *.required
gc: aggressivedepth aggressivewindow auto autodetach autopacklimit bigpackthreshold cruftpacks
    logexpiry maxcruftsize packrefs pruneexpire reflogexpire reflogexpireunreachable rerereresolved
    rerereunresolved worktreepruneexpire writecommitgraph
gpg: format mintrustlevel *.allowedsignersfile *.revocationfile
http: lowspeedlimit lowspeedtime maxrequests postbuffer useragent version
include: path
init: defaultbranch
interactive: singlekey
lfs: concurrenttransfers fetchexclude fetchinclude locksverify pushurl repositoryformatversion url
    *.access *.locksverify
log: abbrevcommit date decorate excludedecoration follow graphcolors initialdecorationset mailmap
    showroot showsignature
merge: autostash branchdesc conflictstyle directoryrenames ff log renamelimit renames renormalize
    stat verbosity verifysignatures *.name *.recursive
protocol: version
pull: ff rebase
remote: pushdefault *.fetch *.followremotehead *.gh-resolved *.lfsurl *.mirror *.promisor *.prune
    *.partialclonefilter *.prunetags *.push *.skipdefaultupdate *.skipfetchall *.tagopt
status: aheadbehind branch displaycommentprefix relativepaths renamelimit renames short showstash
    showuntrackedfiles
submodule: active alternateerrorstrategy alternatelocation fetchjobs propagatebranches recurse
    *.active *.branch *.fetchrecursesubmodules *.ignore *.path *.shallow *.url
trailer: ifexists ifmissing separators where *.ifexists *.ifmissing *.key *.where
uploadpack: allowanysha1inwant allowfilter allowreachablesha1inwant allowrefinwant
    allowtipsha1inwant hiderefs
"""
"""Sections and their harmless settings; `*` is all of them, and `*.` any subsection. The settings
of an included file are listed with those of the file that includes it."""
_HARMLESS = {
    section: frozenset(settings.split())
    for line in _LISTED.replace("\n    ", " ").strip().splitlines()
    for sections, _, settings in [line.partition(": ")]
    for section in sections.split()
}
_SWITCH = "true|false|yes|no|on|off|[0-9]+|"
_PAGER = r"cat|more|delta|less(?: -[FRSXMiQ]+)*|" + _SWITCH
_EDITOR = "vi|vim|nvim|nano|emacs|true|false|:|code --wait"
_HELPER = r"(?:store|cache(?: --timeout[= ]\d+)?|libsecret|osxkeychain|manager)?"
_ADDRESS = r"(?:https?|ssh|git)://[^\s/]+(?:/\S*)?|(?:[\w.+-]+@)?[\w.-]+:(?!:)[\w./~+-]+"
_CRYPT = '|"?(?:/usr/bin/|/usr/local/bin/)?git-crypt"? '
_OF_VALUE = {
    "core.editor": _EDITOR,
    "core.fsmonitor": _SWITCH,
    "core.pager": _PAGER,
    "core.worktree": r"(?:\.\./){3,}.+",  # as git writes it for a submodule
    "credential.*.helper": _HELPER,
    "credential.helper": _HELPER,
    "diff.*.textconv": f"cat{_CRYPT}diff",
    "diff.submodule": "short|log",
    "filter.*.clean": f"cat|git-lfs clean -- %f{_CRYPT}clean",
    "filter.*.process": r"|git-lfs filter-process(?: --skip)?",
    "filter.*.smudge": f"cat|git-lfs smudge(?: --skip)? -- %f{_CRYPT}smudge",
    "log.diffmerges": "off|none|first-parent|1|separate|m|combined|c|dense-combined|cc",
    "merge.*.driver": "true|:",
    "pager.*": _PAGER,
    "remote.*.pushurl": _ADDRESS,
    "remote.*.url": _ADDRESS,
    "sequence.editor": _EDITOR,
    "status.submodulesummary": "false|no|off|0",
    "submodule.*.update": "checkout|rebase|merge|none",
}
"""Settings of which these values are harmless: git's own, and programs that its users install."""
_OF_CHANGES = frozenset((
    "branch.*.mergeoptions", "core.editor", "diff.guitool", "diff.tool", "difftool", "guitool",
    "imap", "init.templatedir", "instaweb", "interactive.difffilter", "merge.*.driver",
    "merge.guitool", "merge.tool", "mergetool", "pull.octopus", "pull.twohead", "sendemail",
    "sequence.editor", "submodule.*.update", "tar", "trailer",
))  # fmt: skip
"""Settings and sections that git does not use where it only reads."""
_OF_CONNECTIONS = frozenset((
    "core.alternaterefscommand", "core.askpass", "core.gitproxy", "core.sshcommand", "credential",
    "http", "protocol", "remote", "ssh", "url",
))  # fmt: skip
"""The same, except that it gets missing objects of a partial clone so."""
_FETCHING = ("remote.*.promisor", "remote.*.partialclonefilter", "extensions.partialclone")
_LEADING = ("include.path", "core.hookspath")
"""Settings that lead to others, or to hooks: harmless where these are looked at too."""
_SECTIONS = _OF_CHANGES | _OF_CONNECTIONS | _HARMLESS.keys() | {
    "alias", "browser", "help", "hook", "includeif", "man", "pager", "sequence", "web",
}  # fmt: skip


def _form(name: str) -> tuple[str, str]:
    """Return the section of a setting, and its name with `*` for what users choose of it."""
    section, _, rest = name.lower().partition(".")
    subsection, _, variable = rest.rpartition(".")
    if subsection:
        return section, f"{section}.*.{variable}"
    return section, "pager.*" if section == "pager" else f"{section}.{variable}"


def is_harmless(name: str, value: str) -> bool:
    """Return whether a setting, in any case, makes git start nothing that is not git's own."""
    section, form = _form(name)
    if form in _OF_VALUE:
        return bool(re.fullmatch(_OF_VALUE[form], value))
    return form not in _OF_CHANGES and not _HARMLESS.get(section, frozenset()).isdisjoint(
        ("*", form.partition(".")[2])
    )


def names_program(name: str, value: str) -> bool:
    """Return whether a setting of git's, in any case, can make it start or trust something."""
    _, form = _form(name)
    return form in _LEADING or (is_of_git(name) and not is_harmless(name, value))


def is_of_git(name: str, sections: Collection[str] = ()) -> bool:
    """Return whether git reads a setting, and not only other programs; it names its `sections`."""
    return _form(name)[0] in _SECTIONS.union(sections)


def fetches_when_read(name: str) -> bool:
    """Return whether with this setting git gets missing objects from a remote to read them."""
    return _form(name)[1] in _FETCHING


def runs_program(
    name: str, value: str, *, reading: bool, fetching: bool, verbs: frozenset[str]
) -> bool:
    """Return whether git, asked for `verbs`, may start what a repository's setting leads to.

    `reading` is whether the verbs only read, and `fetching` whether that gets missing objects.
    """
    section, form = _form(name)
    if section == "alias":
        named = name.partition(".")[2].removesuffix(".command")
        return named.lower() in {verb.lower() for verb in verbs}
    if is_harmless(name, value):
        return False
    if reading and _OF_CONNECTIONS & {section, form}:
        return fetching
    return not (reading and _OF_CHANGES & {section, form})
