"""The dialects that clients and backends speak, and translators between them.

All of it is pure. A module `a.py` is a dialect: its errors, its keep-alive, what
the gateway must know of its requests. A module `a_over_b` serves clients that
speak a by backends that speak b.
"""
