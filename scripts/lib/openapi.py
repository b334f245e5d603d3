"""Writes web/openapi.json from the application, or checks that it is fresh (`--check`)."""

import json
import sys
from pathlib import Path

from cerberus_core.api.app import admin_app

TARGET = Path(__file__).resolve().parents[2] / "web" / "openapi.json"


def main() -> int:
    """1 if `--check` finds the file older than the code."""
    schema = admin_app(None).openapi_schema.to_schema()
    text = json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    if "--check" not in sys.argv:
        TARGET.write_text(text)
        return 0
    if TARGET.read_text() != text:
        sys.stderr.write(
            "web/openapi.json is older than the code: run "
            "`.venv/bin/python scripts/lib/openapi.py` and `scripts/web types`\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
