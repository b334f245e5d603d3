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
)
