"""The schema, one step after the other. A step that was released is never changed."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE footprints (
        model TEXT NOT NULL, plan TEXT NOT NULL, pool TEXT NOT NULL,
        mib INTEGER NOT NULL, at TEXT NOT NULL,
        PRIMARY KEY (model, plan, pool)
    ) WITHOUT ROWID;
    CREATE TABLE load_times (
        model TEXT NOT NULL, plan TEXT NOT NULL, seconds REAL NOT NULL, at TEXT NOT NULL,
        PRIMARY KEY (model, plan)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE keys (
        id TEXT NOT NULL PRIMARY KEY, hash BLOB NOT NULL, key TEXT NOT NULL, last_used_at TEXT
    ) WITHOUT ROWID;
    CREATE TABLE key_spent (
        key TEXT NOT NULL, period TEXT NOT NULL,
        requests INTEGER NOT NULL, tokens INTEGER NOT NULL,
        money REAL NOT NULL, joules REAL NOT NULL,
        PRIMARY KEY (key, period)
    ) WITHOUT ROWID;
    """,
)
