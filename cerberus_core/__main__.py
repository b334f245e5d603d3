"""`python -m cerberus_core` is `cerberus`."""

from cerberus_core.cli import main

main()
