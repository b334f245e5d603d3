"""A llama-swap config as settings."""

from typing import Any

import pytest

from cerberus_core.cli.llama_swap import lines, read, translate
from cerberus_core.errors import BadRequest, NotFound

EXAMPLE = """
globalTTL: 300
startPort: 10001
apiKeys: [sk-1]
macros:
  llama: >
    /opt/llama-server
    --port ${PORT}
  dir: "${env.HOME}/models"
  ctx: 8192
models:
  qwen:
    cmd: |
      # the small one
      ${llama}
      --model ${dir}/Qwen3-4B-Q4_K_M.gguf
      --ctx-size ${ctx} --parallel 4 -ngl 99 -ctk q8_0 -fa on --no-mmap
      -ts 3,1 -md ${dir}/drafts/Qwen3-0.6B.gguf --draft-max 8
    ttl: 60
    aliases: [gpt-4o-mini, {id: small, name: x}]
    concurrencyLimit: 8
    env: ["CUDA_VISIBLE_DEVICES=0"]
  big:
    macros: {ctx: 16384}
    cmd: ${llama} -m ${dir}/big/Big-Q8-00001-of-00003.gguf -c ${ctx}
    unlisted: true
  twin:
    cmd: llama-server -m ${dir}/Qwen3-4B-Q4_K_M.gguf --temp 0
  hub:
    cmd: llama-server -hf org/repo:Q4_K_M
  docker:
    cmd: docker run ghcr.io/x
  unknown:
    cmd: llama-server -m ${nowhere}/x.gguf
groups:
  pair: {swap: false, exclusive: true, members: [qwen]}
  alone: {swap: true, exclusive: true, persistent: true, members: [big, docker]}
hooks:
  on_startup:
    preload: [qwen]
"""


def settings_of(yaml: str, tmp_path: Any) -> Any:
    file = tmp_path / "config.yaml"
    file.write_text(yaml)
    return translate(read(file), {"HOME": "/home/me"})


def test_what_llama_swap_says_is_said_in_our_words(tmp_path: Any) -> None:
    told = settings_of(EXAMPLE, tmp_path)
    assert told.folders == ["/home/me/models"]
    assert lines(told.settings) == [
        'models."llamacpp/Qwen3-4B-Q4_K_M".aliases = ["qwen", "gpt-4o-mini", "small", "twin"]',
        'models."llamacpp/Qwen3-4B-Q4_K_M".parallel = 4',
        'models."llamacpp/Qwen3-4B-Q4_K_M".context = 2048',
        'models."llamacpp/Qwen3-4B-Q4_K_M".ttl_s = 60',
        'models."llamacpp/Qwen3-4B-Q4_K_M".concurrency = 8',
        'models."llamacpp/Qwen3-4B-Q4_K_M".gpu_layers = 99',
        'models."llamacpp/Qwen3-4B-Q4_K_M".cache_type_k = "q8_0"',
        'models."llamacpp/Qwen3-4B-Q4_K_M".tensor_split = [3.0, 1.0]',
        'models."llamacpp/Qwen3-4B-Q4_K_M".draft = "Qwen3-0.6B"',
        'models."llamacpp/Qwen3-4B-Q4_K_M".draft_tokens = 8',
        'models."llamacpp/Qwen3-4B-Q4_K_M".extra_args = ["-fa", "on", "--no-mmap"]',
        'models."llamacpp/Big-Q8".aliases = ["big"]',
        'models."llamacpp/Big-Q8".context = 16384',
        'models."llamacpp/Qwen3-4B-Q4_K_M".group = "pair"',
        'models."llamacpp/Big-Q8".exclusive = true',
        'models."llamacpp/Big-Q8".pinned = true',
        'models."llamacpp/Qwen3-4B-Q4_K_M".preload = true',
        "engines.ttl_s = 300",
    ]


def test_what_has_no_setting_is_told_line_by_line(tmp_path: Any) -> None:
    notes = settings_of(EXAMPLE, tmp_path).notes
    begins = [note.partition(": ")[0] for note in notes]
    assert begins == [
        "models.qwen.cmd",
        "models.qwen.env",
        "models.big.unlisted",
        "models.twin",
        "models.hub.cmd",
        "models.docker.cmd",
        "models.unknown.cmd",
        "groups.alone",
        "apiKeys",
    ]
    assert "-fa on --no-mmap: passed on as it is" in notes[0]
    assert "cerberus models pull org/repo:Q4_K_M" in notes[4]
    assert "${nowhere}" in notes[6]
    assert "sk-1" not in " ".join(notes)


def test_without_groups_it_is_told_that_more_than_one_model_may_live(tmp_path: Any) -> None:
    told = settings_of("models: {a: {cmd: llama-server -m /m/a.gguf}}", tmp_path)
    assert told.settings == {}
    assert "max_loaded" in told.notes[-1]


@pytest.mark.parametrize(
    "yaml", ["", "[]", "models: 3", "a: 1", "x: [", "x: !!python/object:os.system {}", "\t- a: b"]
)
def test_what_is_no_llama_swap_config_is_told(yaml: str, tmp_path: Any) -> None:
    with pytest.raises(BadRequest):
        settings_of(yaml, tmp_path)


def test_a_file_that_is_not_there_is_told(tmp_path: Any) -> None:
    with pytest.raises(NotFound):
        read(tmp_path / "no.yaml")


@pytest.mark.parametrize(
    "model",
    [
        "3",
        "{}",
        "{cmd: 3}",
        "{cmd: 'llama-server \"'}",
        "{cmd: llama-server}",
        "{cmd: '${a}', macros: {a: '${a} x'}}",
        "{cmd: llama-server -m /m/a.gguf -c x -np -1, aliases: 3, ttl: soon}",
    ],
)
def test_odd_models_cost_a_note(model: str, tmp_path: Any) -> None:
    told = settings_of(f"models: {{a b: {model}}}", tmp_path)
    assert any(note.startswith("models.a b") for note in told.notes)
    assert all(key[-1] != "aliases" for key in told.settings)
