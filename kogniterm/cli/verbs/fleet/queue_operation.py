"""`kogniterm queue limits` and `kogniterm queue list --all-users`: for those who run the queue."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from kogniterm.cli.verb_helpers import Report, iso, location_of, paths_in_use, user_name
from kogniterm.cli.verbs.fleet.task_files import queue_names
from kogniterm.errors import UsageError
from kogniterm.ui.display import write_drawn
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.sessions.store import SessionStore


def limits(store: SessionStore, args: argparse.Namespace) -> Report:
    """Set how many tasks of a queue run at once on all workers, or list these limits."""
    from kogniterm.fleet.queue_opening import open_queue

    del store
    name, slots = args.name, args.slots
    if (slots is not None and args.none) or (name is None and (slots is not None or args.none)):
        raise UsageError("Name a queue, and give either --slots N or --none.")
    with closing(open_queue(location_of(args), user_name(), paths_in_use().data)) as queue:
        if name is not None and (slots is not None or args.none):
            (name,) = queue_names(name)
            queue.set_limit(name, None if args.none else slots)
        found = queue.limits()
    if name is not None:
        found = {one: most for one, most in found.items() if one == name}
    told = _("{queue}: at most {slots} tasks at once, on all workers")
    lines = [told.format(queue=one, slots=most) for one, most in found.items()]
    return Report(found, lines, notes=[] if found else [_("No limit.")])


def all_users(args: argparse.Namespace) -> Report:
    """List the tasks of all users, without their contents."""
    from kogniterm.fleet.task_database import QUEUE, overview
    from kogniterm.storage.database import Database
    from kogniterm.types.queue_values import QueueCounts

    place, heads = location_of(args), paths_in_use().data
    with closing(Database(place, QUEUE, user=user_name(), heads=heads)) as database:
        found = overview(database, args.limit)
    if not args.json:
        from kogniterm.ui.screen.task_table import overview_table, totals

        states = Counter(one.state for one in found)
        counts = QueueCounts(states, sum(one.cost or 0.0 for one in found))
        write_drawn(sys.stdout, [overview_table(found), totals(counts)])
    times = ("due", "created", "updated")
    plain = [
        one._asdict() | {name: iso(getattr(one, name) or None) for name in times} for one in found
    ]
    notes = [] if found else [_("No tasks.")]
    return Report(plain, notes=notes, printed=not args.json and bool(found))
