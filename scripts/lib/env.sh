# Sourced by scripts/{serve,test,check}: uv into .tools, the locked set into .venv.
# All lands inside the clone; nothing is asked of the system but Python >= 3.11.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=$root/.tools
venv=$root/.venv
uv=$tools/bin/uv

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

. "$root/scripts/lib/fetch.sh"

find_python() {
  local name
  for name in python3 python3.13 python3.12 python3.11 python; do
    if command -v "$name" >/dev/null &&
      "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python=$(command -v "$name")
      return
    fi
  done
  die "Cerberus needs Python 3.11 or later. On Debian or Ubuntu: apt install python3"
}

ensure_uv() {
  [ -x "$uv" ] && "$uv" --version >/dev/null 2>&1 && return
  find_python
  mkdir -p "$tools/bin"
  local lock=$root/scripts/lib/bootstrap.lock target=$tools/uv
  say "Installing uv into .tools"
  rm -rf "$target"
  if "$python" -m pip --version >/dev/null 2>&1; then
    retry env PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --require-hashes \
      --target "$target" -r "$lock" || die "uv could not be installed. Is there a way to the Python package index?"
  elif "$python" -m venv "$tools/pip" >/dev/null 2>&1; then
    retry "$tools/pip/bin/python" -m pip install --quiet --disable-pip-version-check \
      --require-hashes --target "$target" -r "$lock" || die "uv could not be installed. Is there a way to the Python package index?"
  else
    rm -rf "$tools/pip"
    die "This Python has neither pip nor venv. On Debian or Ubuntu: apt install python3-venv
Then run this again."
  fi
  ln -sf "$target/bin/uv" "$uv"
}

digest() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1
}

# ensure_set LOCK FOLDER…: the locked packages, and our own distributions as editables.
ensure_set() {
  local lock=$1 stamp want members=() member
  shift
  stamp=$venv/.set-$(basename "$lock")
  ensure_uv
  [ $# -gt 1 ] || die "There are no plugins in $root/plugins: is this clone complete?"
  for member in "$@"; do members+=(-e "$root/$member"); done
  want=$(cd "$root" && cat "$lock" pyproject.toml plugins/*/pyproject.toml examples/*/pyproject.toml | digest)
  [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return
  if command -v flock >/dev/null; then
    exec 8>"$tools/env.lock"
    flock 8
  fi
  if [ ! -x "$venv/bin/python" ]; then
    find_python
    "$uv" venv --quiet --python "$python" "$venv"
  fi
  say "Installing the Python packages"
  retry "$uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r "$root/$lock" ||
    die "The packages could not be installed. Is there a way to the Python package index?"
  "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation "${members[@]}"
  printf '%s\n' "$want" >"$stamp"
  command -v flock >/dev/null && exec 8>&- || true
}

# members FOLDER…: our distributions in these folders of the clone, whatever folder we were called from.
members() { (cd "$root" && for folder in "$@"; do ls -d "$folder"/*/; done | sed 's:/$::'); }
