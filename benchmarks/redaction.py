"""Measure what redaction finds, what it redacts by mistake, and its speed.

    python -m benchmarks.redaction [--misses] [--seen] [--each 20]

The secrets are those of tests/text/secret_corpus.py, of which one half (`HELD_OUT`) was written
before the shapes and never looked at while they were. The harmless lines come from this machine:
manuals, documents, licences, Spanish messages, Python's library, packages' records with their
sums. Half of them, by a hash of the line, belong to the development of the shapes; the other half
is what is reported. A card or account number in them is a true finding; the few there are
published examples.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections import Counter
from collections.abc import Iterable

from kogniterm.text.redact import redact
from tests.text import harmless, secret_corpus


def missed(sentences: str, each: int, seed: int) -> tuple[list[secret_corpus.Sample], int]:
    """Return the samples whose secret is not redacted, and the number of samples."""
    samples = list(secret_corpus.samples(sentences, seed=seed, each=each))
    return [one for one in samples if one.secret in redact(one.text)], len(samples)


def taken(lines: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], Counter[str]]:
    """Return the harmless lines that redaction changes, and the number of lines by source."""
    counts: Counter[str] = Counter()
    wrong = []
    for source, line in lines:
        counts[source] += 1
        if redact(line) != line:
            wrong.append((source, line))
    return wrong, counts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--each", type=int, default=20, help="lines of each file")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seen", action="store_true", help="the half used in development")
    parser.add_argument("--misses", action="store_true", help="print what went wrong")
    asked = parser.parse_args()
    sentences = secret_corpus.SEEN if asked.seen else secret_corpus.HELD_OUT
    lost, total = missed(sentences, 6, asked.seed)
    print(f"secrets found: {total - len(lost)} of {total} ({1 - len(lost) / total:.1%})")
    lines = [
        (source, line)
        for source, line in harmless.of_the_machine(each=asked.each, seed=asked.seed)
        if (zlib.crc32(line.encode()) % 2 == 0) == asked.seen
    ]
    lines += [("made", line) for line in harmless.made(3000, seed=asked.seed + asked.seen)]
    begun = time.process_time()
    wrong, counts = taken(lines)
    spent = time.process_time() - begun
    size = sum(len(line) for _, line in lines)
    print(f"harmless lines changed: {len(wrong)} of {len(lines)} ({len(wrong) / len(lines):.2%})")
    for source, count in counts.items():
        print(f"  {source:16} {sum(one == source for one, _ in wrong):5} of {count}")
    print(f"{size / spent / 1e6:.1f} MB of single lines a second")
    if asked.misses:
        for sample in lost:
            print("missed:", sample.text)
        for source, line in wrong:
            print("taken:", source, "|", line, "→", redact(line))


if __name__ == "__main__":
    main()
