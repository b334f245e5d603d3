"""The documentation names what there is, and nothing else."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import typer

from cerberus_core import cli, hookspecs
from cerberus_core.cli.parser import root
from cerberus_core.config import Config, ModelPrice, ModelSettings
from cerberus_core.interfaces import backend, gpu

DOCS = Path(__file__).parents[1] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def headings(text: str) -> set[str]:
    """What stands between backticks in the headings of level three."""
    return set(re.findall(r"^### `(.+)`$", text, re.MULTILINE))


def signatures(module: Any) -> Iterator[str]:
    """Of every function in a module, as it is written there, but for `self`."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.args.args = [arg for arg in node.args.args if arg.arg != "self"]
            kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
            assert node.returns is not None
            yield f"{kind}{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"


def test_every_hook_and_method_of_a_plugin_has_a_heading_with_its_signature() -> None:
    expected = {*signatures(hookspecs), *signatures(backend), *signatures(gpu)}
    assert headings(page("plugins.md")) == expected


def commands() -> dict[str, Any]:
    """`models pull` → the click command, of everything that can be called."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        if hasattr(command, "list_commands"):
            for name in command.list_commands(None):
                walk(command.get_command(None, name), (*words, name))
        else:
            found[" ".join(words)] = command

    walk(typer.main.get_command(root), ())
    return found


def test_every_command_has_a_heading() -> None:
    assert headings(page("cli.md")) == {f"cerberus {name}" for name in commands()}


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_is_named_under_its_command(name: str) -> None:
    text = page("cli.md")
    section = text.partition(f"### `cerberus {name}`\n")[2].partition("\n#")[0]
    for parameter in commands()[name].params:
        for option in parameter.opts:
            if option.startswith("--") and option not in ("--json", "--help"):
                assert f"`{option}`" in section


def test_the_exit_codes_are_those_of_the_program() -> None:
    table = re.findall(r"^\| (\d+) \| (.+?) \|$", page("cli.md"), re.MULTILINE)
    assert cli.__doc__ is not None
    told = re.sub(r"\s+", " ", cli.__doc__.partition("Exit codes:")[2])
    listed = re.findall(r"(\d+) ([^;.]+)", told)
    assert [code for code, _ in table] == [code for code, _ in listed]
    for (_, documented), (_, in_code) in zip(table, listed, strict=True):
        assert documented.startswith(in_code)


def settings(cls: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(`server.port`, its default as the documentation writes it)."""
    for field in attrs.fields(cls):
        default = field.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            default = default.factory()
        if attrs.has(type(default)):
            yield from settings(type(default), f"{field.name}.")
        elif not isinstance(default, dict) or prefix:  # at the top they are sections
            yield f"{prefix}{field.name}", _written(default)


def _written(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def test_every_setting_is_listed_with_its_default() -> None:
    rows = re.findall(r"^\| `([\w.<>]+)` \| (\S+) \| .+ \|$", page("config.md"), re.MULTILINE)
    expected = [
        *settings(Config),
        *settings(ModelSettings, "models.<id>."),
        *settings(ModelPrice, "prices.<id>."),
    ]
    assert sorted(rows) == sorted(expected)


def test_no_page_leads_nowhere() -> None:
    for file in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name} → {target}"
