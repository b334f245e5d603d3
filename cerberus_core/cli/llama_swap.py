"""A llama-swap config as settings of Cerberus. Pure, but for `read`.

Keys are those of llama-swap's `config.example.yaml`; what Cerberus has no
setting for is told, line by line.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import attrs

from cerberus_core.errors import BadRequest, NotFound, Unsupported

Key = tuple[str, ...]

_MACRO = re.compile(r"\$\{([^{}]*)\}")
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_MODEL = ("-m", "--model")
_CONTEXT = ("-c", "--ctx-size")
_PARALLEL = ("-np", "--parallel")
_REPO = ("-hf", "-hfr", "--hf-repo")
_OURS = {
    "--host",
    "--port",
    "-a",
    "--alias",
    "--api-key",
    "-mm",
    "--mmproj",
    "--metrics",
    "--slots",
}
"""Cerberus sets these itself, or finds them by itself."""
_TUNED: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "cache_type_k": (("-ctk", "--cache-type-k"), str),
    "cache_type_v": (("-ctv", "--cache-type-v"), str),
    "gpu_layers": (("-ngl", "--gpu-layers", "--n-gpu-layers"), int),
    "tensor_split": (("-ts", "--tensor-split"), lambda v: [float(x) for x in v.split(",")]),
    "main_gpu": (("-mg", "--main-gpu"), int),
    "devices": (("-dev", "--device"), lambda v: v.split(",")),
    "chat_template": (("--chat-template-file",), str),
    "draft_tokens": (("--draft-max", "--draft", "--draft-n", "--spec-draft-n-max"), int),
}
"""Settings of one model: their flags, and how their values are read."""
_DRAFT = ("-md", "--model-draft", "--spec-draft-model")
_QUIET = {"cmd", "aliases", "ttl", "unlisted", "macros", "concurrencyLimit", "name", "description"}
_QUIET |= {"proxy", "checkEndpoint", "metadata", "useModelName"}
_TOP = {"models", "macros", "groups", "globalTTL", "hooks", "startPort", "healthCheckTimeout"}
_TOP |= {"logLevel", "logTimeFormat", "logToStdout", "metricsMaxInMemory", "captureBuffer"}
_TOP |= {"sendLoadingState", "includeAliasesInList"}


@attrs.define
class Translation:
    """`settings`: key path → value, in the order to write them. `notes`: what wasn't translated."""

    settings: dict[Key, Any] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    folders: list[str] = attrs.field(factory=list)
    """Folders with the models' files."""


def read(file: Path) -> Any:
    """The YAML of a file. Raises NotFound, BadRequest, Unsupported."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise Unsupported(
            "Reading YAML needs the package PyYAML", hint="cerberus-llamacpp brings it along."
        ) from None
    try:
        return yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise NotFound(f"{file} can't be read: {error.strerror or error}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise BadRequest(f"{file} is no YAML: {words}") from None


def translate(config: Any, env: Mapping[str, str]) -> Translation:
    """What of a llama-swap config Cerberus can do too. Raises BadRequest."""
    models = config.get("models") if isinstance(config, dict) else None
    if not isinstance(models, dict):
        raise BadRequest("That is no llama-swap config: it has no table `models`")
    told = Translation()
    ids: dict[str, str] = {}
    for name, model in models.items():
        if isinstance(model, dict):
            _model(str(name), model, _table(config, "macros"), env, told, ids)
        else:
            told.notes.append(f"models.{name}: is no table")
    _groups(config, ids, told)
    _preload(config, ids, told)
    ttl = config.get("globalTTL")
    if _is_count(ttl):
        told.settings["engines", "ttl_s"] = ttl
    for key in config:
        if key not in _TOP:
            told.notes.append(f"{key}: not translated")
    if ids and not config.get("groups") and not config.get("matrix"):
        told.notes.append(
            "llama-swap keeps one model at a time where no groups say otherwise, Cerberus as many "
            "as fit: `cerberus config set engines.max_loaded 1` keeps one"
        )
    told.folders = _outermost(told.folders)
    return told


def lines(settings: Mapping[Key, Any]) -> list[str]:
    """Settings as `key = value`, as TOML has them."""
    return [f"{dotted(key)} = {text(value)}" for key, value in settings.items()]


def dotted(key: Key) -> str:
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else text(part) for part in key)


def text(value: Any) -> str:
    """A value as TOML writes it (JSON does too, for these)."""
    return json.dumps(value, ensure_ascii=False)


def _model(
    name: str,
    model: dict[str, Any],
    macros: Mapping[str, Any],
    env: Mapping[str, str],
    told: Translation,
    ids: dict[str, str],
) -> None:
    where = f"models.{name}"
    words = {**macros, **_table(model, "macros"), "MODEL_ID": name, "PORT": "0"}
    try:
        command = shlex.split(_filled(_without_comments(model.get("cmd")), words, env))
    except ValueError as error:
        told.notes.append(f"{where}.cmd: {error}")
        return
    program = PurePath(command[0]).name if command else ""
    if not program.startswith("llama-server"):
        told.notes.append(
            f"{where}.cmd: {program or 'nothing'} is no llama-server; a server that runs by itself "
            "can be an endpoint: plugins.openai.endpoints"
        )
        return
    flags = _flags(command[1:])
    path = _one(flags, _MODEL)
    if path is None:
        repo = _one(flags, _REPO)
        fetch = f"`cerberus models pull {repo}` fetches it" if repo else "it names no model file"
        told.notes.append(f"{where}.cmd: {fetch}")
        return
    model_id = f"llamacpp/{_SHARD.sub('', PurePath(path).stem)}"
    folder = str(PurePath(path).parent)
    if not PurePath(path).is_absolute() and not path.startswith("~"):
        told.notes.append(f"{where}.cmd: {path} is relative; its folder is not set")
    else:
        told.folders.append(folder)
    if model_id in ids.values():
        told.notes.append(
            f"{where}: another model has the same file; it is an alias, its own flags are left out"
        )
        _aliases(name, model, model_id, told)
        ids[name] = model_id
        return
    ids[name] = model_id
    _aliases(name, model, model_id, told)
    _sizes(where, flags, model_id, told)
    ttl = model.get("ttl")
    if _is_count(ttl):
        told.settings["models", model_id, "ttl_s"] = ttl
    limit = model.get("concurrencyLimit")
    if _is_count(limit) and limit:
        told.settings["models", model_id, "concurrency"] = limit
    if model.get("unlisted") is True:
        told.notes.append(f"{where}.unlisted: Cerberus lists all models")
    _tuned(where, flags, model_id, told)
    for key in model:
        if key not in _QUIET:
            told.notes.append(f"{where}.{key}: not translated")


def _tuned(
    where: str, flags: list[tuple[str, str | None]], model_id: str, told: Translation
) -> None:
    """Flags that have a setting become it; the others are passed on as they are."""
    known = {flag: (name, read) for name, (names, read) in _TUNED.items() for flag in names}
    rest: list[str] = []
    for flag, value in flags:
        name, read = known.get(flag, ("", str))
        if flag in _DRAFT and value is not None:
            told.settings["models", model_id, "draft"] = _SHARD.sub("", PurePath(value).stem)
            told.folders.append(str(PurePath(value).parent))
        elif name and value is not None and _reads(read, value):
            told.settings["models", model_id, name] = read(value)
        elif flag not in {*_MODEL, *_CONTEXT, *_PARALLEL, *_OURS}:
            rest += [flag] if value is None else [flag, value]
    if rest:
        told.settings["models", model_id, "extra_args"] = rest
        told.notes.append(
            f"{where}.cmd: {shlex.join(rest)}: passed on as it is; a llama-server takes it, "
            "the embedded engine doesn't"
        )


def _reads(read: Callable[[str], Any], value: str) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _sizes(
    where: str, flags: list[tuple[str, str | None]], model_id: str, told: Translation
) -> None:
    """A llama-server's context is shared out among its slots, ours is each request's."""
    parallel, context = _number(flags, _PARALLEL), _number(flags, _CONTEXT)
    if parallel:
        told.settings["models", model_id, "parallel"] = parallel
    if context and context >= (parallel or 1):
        told.settings["models", model_id, "context"] = context // (parallel or 1)
    for names, number in ((_PARALLEL, parallel), (_CONTEXT, context)):
        value = _one(flags, names)
        if value is not None and number is None:
            told.notes.append(f"{where}.cmd: {names[-1]} {value}: is no number above 0")


def _aliases(name: str, model: dict[str, Any], model_id: str, told: Translation) -> None:
    wanted = [name, *_names(model.get("aliases"))]
    key = ("models", model_id, "aliases")
    taken = {
        alias for path, value in told.settings.items() if path[-1] == "aliases" for alias in value
    }
    fresh = []
    for alias in wanted:
        if alias in (model_id, model_id.removeprefix("llamacpp/")) or alias in taken:
            continue
        if not alias or any(letter.isspace() for letter in alias):
            told.notes.append(f"models.{name}: {alias!r} can't be an alias: it holds a space")
        elif alias not in fresh:
            fresh.append(alias)
    if fresh:
        told.settings[key] = [*told.settings.get(key, []), *fresh]


def _groups(config: dict[str, Any], ids: Mapping[str, str], told: Translation) -> None:
    for name, group in _table(config, "groups").items():
        if not isinstance(group, dict):
            told.notes.append(f"groups.{name}: is no table")
            continue
        swap, exclusive = group.get("swap", True), group.get("exclusive", True)
        for member in _names(group.get("members")):
            model_id = ids.get(member)
            if model_id is None:
                told.notes.append(f"groups.{name}: {member} was not translated")
                continue
            if swap and exclusive:
                told.settings["models", model_id, "exclusive"] = True
            elif exclusive:
                told.settings["models", model_id, "group"] = str(name)
            if group.get("persistent") is True:
                told.settings["models", model_id, "pinned"] = True
        if swap and not exclusive:
            told.notes.append(
                f"groups.{name}: one of its models at a time beside those of other groups: "
                "Cerberus has no such rule, and keeps as many as fit"
            )


def _preload(config: dict[str, Any], ids: Mapping[str, str], told: Translation) -> None:
    started = _table(_table(config, "hooks"), "on_startup")
    for name in _names(started.get("preload")):
        if name in ids:
            told.settings["models", ids[name], "preload"] = True
        else:
            told.notes.append(f"hooks.on_startup.preload: {name} was not translated")


def _filled(command: str, macros: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """With its macros put in. Raises ValueError where one is unknown or holds itself."""

    def value(match: "re.Match[str]") -> str:
        name = match[1]
        known = env.get(name[4:]) if name.startswith("env.") else macros.get(name)
        if known is None:
            raise ValueError(f"nothing is known of ${{{name}}}")
        return _without_comments(str(known))

    for _ in range(20):
        filled = _MACRO.sub(value, command)
        if filled == command:
            return filled
        command = filled
    raise ValueError("its macros hold each other")


def _without_comments(command: Any) -> str:
    rows = command.splitlines() if isinstance(command, str) else []
    rows = [row.strip().removesuffix("\\") for row in rows]
    return " ".join(row for row in rows if not row.startswith("#"))


def _flags(words: list[str]) -> list[tuple[str, str | None]]:
    """(flag, value) of each; what follows a flag and is none itself is its value."""
    found: list[tuple[str, str | None]] = []
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-\d+(\.\d+)?", word):
            flag, _, value = word.partition("=") if word.startswith("--") else (word, "", "")
            found.append((flag, value or None))
        elif found and found[-1][1] is None:
            found[-1] = (found[-1][0], word)
        else:
            found.append((word, None))
    return found


def _one(flags: list[tuple[str, str | None]], names: tuple[str, ...]) -> str | None:
    return next((value for flag, value in reversed(flags) if flag in names), None)


def _number(flags: list[tuple[str, str | None]], names: tuple[str, ...]) -> int | None:
    value = _one(flags, names)
    return int(value) or None if value is not None and value.isdecimal() else None


def _names(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else []:
        name = item.get("id") if isinstance(item, dict) else item
        if isinstance(name, str):
            yield name


def _table(value: dict[str, Any], key: str) -> dict[str, Any]:
    table = value.get(key)
    return {str(k): v for k, v in table.items()} if isinstance(table, dict) else {}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _outermost(folders: list[str]) -> list[str]:
    """Each once, without those inside another: folders are searched to their depth."""
    kept: list[str] = []
    for folder in sorted(set(folders), key=len):
        if not any(PurePath(folder).is_relative_to(outer) for outer in kept):
            kept.append(folder)
    return sorted(kept)
