"""Wires: what clients and backends speak, and the translators between them. Pure.

A dialect has a module of its own (its errors, its keep-alive); `a_over_b` serves
clients that speak `a` from a backend that speaks `b`.
"""
