#!/usr/bin/env bash
# Resolves anew and writes both locks: names, versions and hashes, no addresses.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
ensure_uv
cd "$root"
"$uv" lock --upgrade --quiet
"$uv" export --quiet --frozen --all-extras --no-emit-workspace --no-header --no-annotate --group build -o requirements.lock
"$uv" export --quiet --frozen --all-extras --all-groups --no-emit-workspace --no-header --no-annotate -o requirements-dev.lock
