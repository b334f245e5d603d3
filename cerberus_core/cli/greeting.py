"""What `cerberus serve` says once it listens: how to chat, look, and stop."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path


def greeting(url: str, model: str | None, command: str) -> str:
    """The lines, ready to be copied; `command` is how the person types `cerberus`. Pure."""
    lines = [f"Cerberus listens at {url}"]
    if model is None:
        lines.append(f"  model     {command} models pull starter   (fetches a small one)")
    lines.append(f'  chat      {command} chat "Why is the sky blue?"')
    if model is not None:
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
        lines.append(
            f"  curl      curl {url}/v1/chat/completions "
            f'-H "Authorization: Bearer $({command} token)" '
            f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"
        )
    lines.append(f"  page      {command} url   (a link that signs your browser in)")
    lines.append("  stop      Ctrl-C")
    return "\n".join(lines)


def command_as_typed(
    argv0: str | None = None, on_path: str | None = None, cwd: Path | None = None
) -> str:
    """`cerberus` where the PATH finds this very one, else its path, short from `cwd`.

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
    script = cwd / script
    if script.is_relative_to(cwd):
        script = script.relative_to(cwd)
        return shlex.quote(str(script) if len(script.parts) > 1 else f"./{script}")
    return shlex.quote(str(script))
