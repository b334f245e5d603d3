"""Cerberus' gateway beside nginx and beside no proxy at all, on one fast fake upstream."""
