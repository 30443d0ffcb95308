"""The turns of an ordinary session of ten, for counting the model calls that learning takes."""

from __future__ import annotations

TURNS = (
    (
        "Have a look at this project and tell me what it does.",
        "It is a small web shop in Python: Flask for the pages, SQLite for orders, and a Makefile "
        "with the targets test, run and deploy. The tests are in tests/ and take about 40 seconds.",
    ),
    (
        "The test of the basket fails since yesterday. Why?",
        "test_basket.py::test_total compares prices as floats. Since the commit of yesterday the "
        "discount is 0.1, which has no exact binary form, so the total is 26.999999999999996.",
    ),
    (
        "We always use Decimal for money here. Please fix it that way.",
        "I changed basket.py to compute with Decimal, and the two callers in orders.py. All 84 "
        "tests pass. The prices in the database are integers in cents, so no migration is needed.",
    ),
    (
        "Good. Is there anywhere else with floats for money?",
        "Yes: shipping.py computes the fee with a float and rounds it, and invoices.py formats the "
        "total with a float in one place. Neither loses a cent today, but both could.",
    ),
    (
        "Change these too, and run the tests again.",
        "Both use Decimal now. All 84 tests pass; I added two for amounts that floats cannot hold.",
    ),
    (
        "Write a commit message. I prefer short ones, in the imperative.",
        "Compute all money with Decimal",
    ),
    (
        "Commit it, please, but do not push: we deploy from main every Tuesday.",
        "Committed as 4f1c2d7 on the branch fix-basket. Nothing was pushed.",
    ),
    (
        "How large is the database on the server meanwhile?",
        "The file shop.db has 412 MB. The table events takes 380 MB of it; the oldest rows are "
        "from three years ago, and nothing in the code reads rows older than 90 days.",
    ),
    (
        "Can we delete the old ones?",
        "Yes: nothing refers to them. A script that deletes in steps of 10,000 rows keeps the shop "
        "usable meanwhile; VACUUM afterwards needs 412 MB of free space and locks the file.",
    ),
    (
        "Then make that script, but only a dry run for now.",
        "scripts/prune_events.py counts what it would delete: 2,913,448 of 3,170,002 rows. With "
        "--really it deletes in steps. I did not run it with that option.",
    ),
)
