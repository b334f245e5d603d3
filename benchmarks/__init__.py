"""Side-by-side measurements, run by hand. Each prints a table; --write keeps it in README.md."""
