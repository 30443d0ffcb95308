"""The journal: append-only, hash-chained records with one writer."""
