"""What `cerberus serve` says once it listens: how to chat, look, and stop."""

import json
import shlex


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
