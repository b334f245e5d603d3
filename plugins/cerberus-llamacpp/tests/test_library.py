"""Which files are models, and under which names."""

import os
import sys
from pathlib import Path

import pytest
from cerberus_llamacpp.library import Found, Library
from cerberus_llamacpp.testing import TINY, write_gguf

PROJECTOR = {
    "general.architecture": "clip",
    "general.type": "mmproj",
    "clip.vision.projection_dim": 64,
}


def scan(*roots: Path) -> dict[str, Found]:
    return Library(roots).scan()


def test_m11_splits_are_one_model_and_best_of_breed_is_a_normal_one(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write_gguf(tmp_path / f"big-{number:05d}-of-00003.gguf")
    write_gguf(tmp_path / "single.gguf")
    write_gguf(tmp_path / "best-of-breed.gguf")
    write_gguf(tmp_path / "torn-00001-of-00003.gguf")
    write_gguf(tmp_path / "torn-00003-of-00003.gguf")
    models = scan(tmp_path)
    assert list(models) == ["best-of-breed", "big", "single", "torn"]
    assert models["big"].path.name == "big-00001-of-00003.gguf"
    assert len(models["big"].shards) == 3
    assert models["big"].problem is None
    assert models["torn"].problem == "torn-00002-of-00003.gguf is missing"


def test_m11_a_lone_second_part_is_unusable_and_says_what_is_missing(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x-00002-of-00002.gguf", {"split.no": 1})
    assert scan(tmp_path)["x"].problem == "x-00001-of-00002.gguf is missing"


def test_m11_a_cut_part_makes_the_whole_unusable(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x-00001-of-00002.gguf")
    write_gguf(tmp_path / "x-00002-of-00002.gguf", cut=10)
    problem = scan(tmp_path)["x"].problem
    assert problem is not None
    assert problem.startswith("x-00002-of-00002.gguf: incomplete")


def test_m12_names_of_every_kind_are_listed_with_their_projector(tmp_path: Path) -> None:
    folder = tmp_path / "模型 ü dir"
    names = ["-dash", 'it\'s "quoted"', "two words", "模型", "emoji 🐕", "dots.v1.5"]
    for name in names:
        write_gguf(folder / name / f"{name}.gguf")
        write_gguf(folder / name / f"mmproj-{name}-F16.gguf", PROJECTOR)
    models = scan(tmp_path)
    assert sorted(models) == sorted(names)
    for name, found in models.items():
        assert found.projector == folder / name / f"mmproj-{name}-F16.gguf"
        assert "vision" in found.info().capabilities


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_no_text_is_listed_under_one_that_is(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.gguf"))
    write_gguf(path)
    [found] = scan(tmp_path).values()
    assert found.info().id.encode() == "llamacpp/caf�".encode()
    assert found.path == path


def test_a_projector_goes_to_the_model_that_it_fits(tmp_path: Path) -> None:
    write_gguf(tmp_path / "small.gguf")
    write_gguf(tmp_path / "large.gguf", {**TINY, "llama.embedding_length": 128})
    write_gguf(tmp_path / "mmproj-F16.gguf", PROJECTOR)
    models = scan(tmp_path)
    assert models["small"].projector is not None
    assert models["large"].projector is None


def test_a_projector_that_names_another_model_is_left_alone(tmp_path: Path) -> None:
    write_gguf(tmp_path / "gemma.gguf")
    write_gguf(tmp_path / "qwen.gguf")
    write_gguf(tmp_path / "mmproj-qwen.gguf", PROJECTOR)
    models = scan(tmp_path)
    assert models["gemma"].projector is None
    assert models["qwen"].projector == tmp_path / "mmproj-qwen.gguf"


def test_broken_files_are_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "page.gguf").write_text("<html>")
    write_gguf(tmp_path / "cut.gguf", cut=700)
    write_gguf(tmp_path / "nothing.gguf", tensors=[])
    write_gguf(tmp_path / "anonymous.gguf", {})
    problems = {name: found.info().problem for name, found in scan(tmp_path).items()}
    assert problems["empty"] == "the file is empty"
    assert "not a GGUF" in str(problems["page"])
    assert "incomplete" in str(problems["cut"])
    assert problems["nothing"] == "holds no weights"
    assert "names no architecture" in str(problems["anonymous"])


def test_adapters_and_imatrices_are_no_models(tmp_path: Path) -> None:
    write_gguf(tmp_path / "lora.gguf", {**TINY, "general.type": "adapter"})
    write_gguf(tmp_path / "m.imatrix.gguf", {**TINY, "general.type": "imatrix"})
    assert scan(tmp_path) == {}


def test_one_name_in_two_folders_gives_two_ids_always_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "models", tmp_path / "more"
    for path in (first / "a/x.gguf", first / "b/x.gguf", second / "x.gguf"):
        write_gguf(path)
    for _ in range(2):
        models = scan(first, second)
        assert list(models) == ["x", "x@b", "x@more"]
        assert models["x"].path == first / "a/x.gguf"


def test_links_are_followed_once_and_loops_end(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    write_gguf(real / "blob.gguf")
    models = tmp_path / "models"
    models.mkdir()
    (models / "folder").symlink_to(real)
    (models / "again.gguf").symlink_to(real / "blob.gguf")
    (models / "nowhere.gguf").symlink_to(tmp_path / "gone")
    (real / "loop").symlink_to(models)
    assert list(scan(models)) == ["again"]


def test_hidden_folders_and_foreign_files_are_left_out(tmp_path: Path) -> None:
    write_gguf(tmp_path / ".pulls" / "half.gguf")
    (tmp_path / "x.gguf.part").write_bytes(b"GGUF")
    assert scan(tmp_path, tmp_path / "absent") == {}


def test_capabilities_come_from_the_metadata(tmp_path: Path) -> None:
    write_gguf(tmp_path / "chat.gguf")
    write_gguf(tmp_path / "embed.gguf", {**TINY, "llama.pooling_type": 1})
    write_gguf(tmp_path / "bert.gguf", {**TINY, "general.architecture": "bert"})
    write_gguf(tmp_path / "rank.gguf", {**TINY, "llama.pooling_type": 4})
    models = {name: found.info() for name, found in scan(tmp_path).items()}
    assert models["chat"].capabilities == {"chat", "completion"}
    assert models["embed"].capabilities == {"embed"}
    assert models["bert"].capabilities == {"embed"}
    assert models["rank"].capabilities == {"rerank"}
    assert models["chat"].ctx == 2048
    assert models["chat"].detail == "1M · Q4_1 · llama"


def test_a_file_is_read_again_only_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    original = Library._read.__globals__["read_header"]

    def counting(path: Path) -> object:
        read.append(path.name)
        return original(path)

    monkeypatch.setitem(Library._read.__globals__, "read_header", counting)
    write_gguf(tmp_path / "a.gguf")
    write_gguf(tmp_path / "b.gguf", cut=9)
    library = Library([tmp_path])
    assert library.scan()["b"].problem is not None
    write_gguf(tmp_path / "b.gguf")
    assert library.scan()["b"].problem is None
    assert read == ["a.gguf", "b.gguf", "b.gguf"]
