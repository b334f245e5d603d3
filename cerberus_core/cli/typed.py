"""Commands as the person must type them here: hints are written with a plain `cerberus`."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

_COMMAND = re.compile(r"`cerberus(?=[ `])")


def typed(text: str, *, anywhere: bool = False) -> str:
    """`text` with every `cerberus …` in backticks as it must be typed here, or anywhere."""
    if not _COMMAND.search(text):
        return text
    command = command_as_typed(anywhere=anywhere)
    return _COMMAND.sub(lambda _: f"`{command}", text)


def command_as_typed(
    argv0: str | None = None,
    on_path: str | None = None,
    cwd: Path | None = None,
    *,
    anywhere: bool = False,
) -> str:
    """`cerberus` where the PATH finds this very one, else its path, short from `cwd`.

    `anywhere`: the whole path, for who reads it here and types it in another terminal.
    None: what this process was called as, what the PATH has, where we are.
    """
    argv0 = sys.argv[0] if argv0 is None else argv0
    on_path = shutil.which("cerberus") if on_path is None else on_path
    cwd = Path.cwd() if cwd is None else cwd
    script = Path(argv0)
    if script.stem != "cerberus":  # `python -m cerberus_core`
        script = Path(sys.executable).with_name("cerberus.exe" if os.name == "nt" else "cerberus")
    if not script.is_file():
        return f"{shlex.quote(sys.executable)} -m cerberus_core"
    if on_path and os.path.samefile(on_path, script):
        return "cerberus"
    return shlex.quote(str(cwd / script)) if anywhere else _short(cwd / script, cwd)


def install_as_typed(package: str, root: Path | None = None, cwd: Path | None = None) -> str:
    """What brings our distribution `package` here: in a clone there may be no pip."""
    import cerberus_core

    root = Path(cerberus_core.__file__).parents[1] if root is None else root
    cwd = Path.cwd() if cwd is None else cwd
    folder, uv = root / "plugins" / package, root / ".tools" / "bin" / "uv"
    if not folder.is_dir():
        return f"pip install {package}"
    if not uv.is_file():
        return _short(root / "scripts" / "serve", cwd)
    python, folder_words = shlex.quote(sys.executable), _short(folder, cwd)
    return f"{_short(uv, cwd)} pip install --python {python} -e {folder_words}"


def _short(path: Path, cwd: Path) -> str:
    if path.is_relative_to(cwd):
        path = path.relative_to(cwd)
        return shlex.quote(str(path) if len(path.parts) > 1 else f"./{path}")
    return shlex.quote(str(path))
