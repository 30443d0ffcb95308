"""Trust of folders, as a comparison: what was trusted, what is there now. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kogniterm.types import Phrase


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """What a person trusted: the folder and the SHA-256 of each file that may have effects."""

    folder: str
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrustFinding:
    """How the folder compares with its record, if it has one."""

    known: bool
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        """Return whether everything found may have effect: nothing new, nothing changed."""
        return self.known and not self.new and not self.changed

    @property
    def texts(self) -> tuple[Phrase, ...]:
        """What a person is asked about."""
        found = [] if self.known else [Phrase("This folder has not been trusted before.")]
        for template, names in (
            ("New since it was trusted: {names}.", self.new if self.known else ()),
            ("Changed since it was trusted: {names}.", self.changed),
            ("No longer there, or not readable: {names}.", self.gone),
        ):
            if names:
                found.append(Phrase(template, {"names": ", ".join(names)}))
        return tuple(found)


def compare(
    folder: str, found: Mapping[str, str], records: Mapping[str, TrustRecord]
) -> TrustFinding:
    """Compare the files `found` in `folder` (path to hash) with its record.

    Trust is per folder and never inherited: a folder below a trusted one is asked about itself.
    """
    record = records.get(folder)
    if record is None:
        return TrustFinding(known=False, new=tuple(sorted(found)))
    return TrustFinding(
        known=True,
        new=tuple(sorted(set(found) - set(record.hashes))),
        changed=tuple(
            sorted(n for n in found if n in record.hashes and record.hashes[n] != found[n])
        ),
        gone=tuple(sorted(set(record.hashes) - set(found))),
    )
