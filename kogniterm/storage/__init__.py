"""The databases: SQLite and PostgreSQL, transactions, migrations and the head file."""
