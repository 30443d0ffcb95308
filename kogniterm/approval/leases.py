"""Leases: permissions a person granted, with a scope, an end and a count. Pure data and rules.

A lease covers exactly one command, or one program with the same options, or one kind of
effect. It never covers more effects than the command it was granted for had, and nothing
dangerous. Time is given by the caller.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kogniterm.approval.naming import names
from kogniterm.approval.places import within
from kogniterm.approval.risk import classify
from kogniterm.approval.rules import called, quoted
from kogniterm.types import Effect, EffectKind, RiskReport, Text

LeaseKind = Literal["exact", "program", "effect"]

_NEVER = frozenset(
    names(
        """
    bash sh dash zsh ksh ash rbash fish csh tcsh python python2 python3 pypy pypy3 ipython perl
    ruby node nodejs php lua luajit tclsh expect Rscript R julia java scala groovy deno bun
    osascript pwsh guile sbcl sudo doas su pkexec runuser gosu env xargs parallel find eval
    source . exec command builtin nohup setsid timeout nice ionice stdbuf watch flock time
    busybox toybox chroot unshare nsenter systemd-run ssh script screen tmux rm shred dd awk
    gawk mawk nawk sed npx uvx pipx docker podman kubectl make coproc trap at batch crontab
    """
    )
)
_VERBS = frozenset(
    names(
        """
    git npm pnpm yarn pip pip3 cargo go apt apt-get brew systemctl gh aws terraform helm poetry
    uv bundle gem dotnet mvn gradle conda snap flatpak service
    """
    )
)
KIND_WORDS: Mapping[EffectKind, Text] = {
    "read": Text("reading files"),
    "write": Text("writing files"),
    "overwrite": Text("overwriting files"),
    "delete": Text("deleting files"),
    "network": Text("using the network"),
    "privilege": Text("using other privileges"),
    "execute": Text("running code"),
    "secret": Text("reading secrets"),
    "process": Text("acting on processes"),
}
_EFFECTS_OFFERED: tuple[EffectKind, ...] = ("network", "write", "overwrite", "read")


@dataclass(frozen=True, slots=True)
class Lease:
    """A granted permission.

    `kinds` are the effects it may have, `outside` whether they may leave the workspace,
    `folder` where it holds, `expires` in seconds of the caller's clock, `uses` how often at
    most (None: until the session ends), `used` how often it was used.
    """

    id: str
    kind: LeaseKind
    command: str
    programs: tuple[tuple[str, ...], ...]
    kinds: frozenset[EffectKind]
    hosts: frozenset[str]
    outside: bool
    folder: str
    expires: float | None = None
    uses: int | None = None
    used: int = 0

    @property
    def text(self) -> Text:
        """What it permits, for people."""
        if self.kind == "exact":
            return Text("exactly this command: {command}", {"command": self.command})
        if self.kind == "program":
            return Text("{program} with the same options", {"program": " ".join(self.programs[0])})
        return _kinds_text(self.kinds)

    def mismatch(self, report: RiskReport, *, folder: str, now: float) -> Text | None:
        """Why it does not cover `report` in `folder` at `now`; None when it does."""
        if self.expires is not None and now >= self.expires:
            return Text("the lease has expired")
        if self.uses is not None and self.used >= self.uses:
            return Text("the lease is used up ({uses} uses)", {"uses": self.uses})
        if not within(posixpath.normpath(folder), self.folder):
            return Text("the lease holds in {folder} only", {"folder": self.folder})
        if report.label == "dangerous":
            return Text("no lease covers dangerous commands")
        if self.kind == "exact":
            if report.command != self.command:
                return Text("the lease is for exactly {command}", {"command": self.command})
            return None
        return self._effects_mismatch(report) or self._programs_mismatch(report, folder)

    def _effects_mismatch(self, report: RiskReport) -> Text | None:
        for effect in report.effects:
            if effect.kind == "read" and not effect.outside:
                continue
            if effect.kind not in self.kinds:
                words = KIND_WORDS[effect.kind]
                return Text("the command also has the effect: {kind}", {"kind": words})
            if effect.kind == "network" and effect.target not in self.hosts:
                return Text("the command talks to {host}", {"host": effect.target})
            if effect.outside and not self.outside:
                return Text("the command reaches outside: {target}", {"target": effect.target})
        return None

    def _programs_mismatch(self, report: RiskReport, folder: str) -> Text | None:
        granted = {shape(argv) for argv in self.programs}
        for argv in report.programs:
            if any("…" in word for word in argv):
                return Text("an argument is only known when it runs")
            if shape(argv) in granted:
                continue
            if classify(quoted(argv), cwd=folder).label == "safe_readonly":
                continue
            if self.kind == "effect" and leasable(argv):
                continue
            return Text("the command also runs {program}", {"program": " ".join(shape(argv))})
        return None

    def taken(self) -> Lease:
        """The lease after one more use."""
        return replace(self, used=self.used + 1)


@dataclass(frozen=True, slots=True)
class Offer:
    """A lease a person may grant after approving a command."""

    kind: LeaseKind
    text: Text


def shape(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Program, verb (where programs have verbs) and options of a call, in order.

    A file of the same name elsewhere is another program.
    """
    if not argv:
        return ()
    name = called(argv[0])
    words = [word for word in argv[1:] if not word.startswith("-")]
    verb = words[:1] if name in _VERBS else []
    return (name, *verb, *(word for word in argv[1:] if word.startswith("-")))


def leasable(argv: tuple[str, ...]) -> bool:
    """Whether a lease for the program itself may ever be offered: not for what runs anything."""
    if not argv or "/" in argv[0] or "…" in argv[0] or posixpath.basename(argv[0]) in _NEVER:
        return False
    return len(shape(argv)) > 1 if argv[0] in _VERBS else True


def _worrying(effects: Iterable[Effect]) -> frozenset[EffectKind]:
    return frozenset(e.kind for e in effects if not (e.kind == "read" and not e.outside))


def offers(report: RiskReport) -> tuple[Offer, ...]:
    """What may be offered after `report` was approved; nothing for what is dangerous."""
    if report.label == "dangerous":
        return ()
    found = [Offer("exact", Text("exactly this command"))]
    asking = [a for a in report.programs if classify(quoted(a)).label != "safe_readonly"]
    if len(asking) == 1 and leasable(asking[0]) and not any("…" in w for w in asking[0]):
        words = " ".join(shape(asking[0]))
        found.append(Offer("program", Text("{program} with these options", {"program": words})))
    kinds = _worrying(report.effects)
    if kinds and kinds <= set(_EFFECTS_OFFERED) and all(leasable(argv) for argv in asking):
        found.append(Offer("effect", _kinds_text(kinds)))
    return tuple(found)


def grant(
    report: RiskReport,
    kind: LeaseKind,
    *,
    id: str,
    folder: str,
    expires: float | None = None,
    uses: int | None = None,
) -> Lease:
    """The lease of `kind` for `report`; raises `ValueError` when it is not among its offers."""
    if kind not in {offer.kind for offer in offers(report)}:
        raise ValueError(f"a lease of kind {kind!r} is not offered for this command")
    asking = tuple(a for a in report.programs if classify(quoted(a)).label != "safe_readonly")
    return Lease(
        id=id,
        kind=kind,
        command=report.command,
        programs=asking,
        kinds=_worrying(report.effects),
        hosts=frozenset(e.target for e in report.effects if e.kind == "network"),
        outside=any(e.outside for e in report.effects),
        folder=posixpath.normpath(folder),
        expires=expires,
        uses=uses,
    )


def explain(
    leases: Iterable[Lease], report: RiskReport, *, folder: str, now: float
) -> tuple[tuple[Lease, Text], ...]:
    """Each lease that does not cover the command, with the reason."""
    pairs = ((lease, lease.mismatch(report, folder=folder, now=now)) for lease in leases)
    return tuple((lease, why) for lease, why in pairs if why is not None)


def _kinds_text(kinds: Iterable[EffectKind]) -> Text:
    words = tuple(KIND_WORDS[kind] for kind in sorted(kinds))
    return Text("commands whose effects are: {kinds}", {"kinds": words})
