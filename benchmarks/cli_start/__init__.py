"""How long commands take to start, beside a trivial click program."""
