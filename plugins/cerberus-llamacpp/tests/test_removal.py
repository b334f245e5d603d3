"""`remove` deletes a model's own files and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cerberus_llamacpp.backend import LlamaCpp
from cerberus_llamacpp.testing import Setup, write_gguf

from cerberus_core.errors import AccessDenied, BadRequest
from cerberus_core.values import ModelInfo

pytestmark = pytest.mark.anyio

Make = Callable[..., LlamaCpp]
CLIP = {"general.architecture": "clip", "clip.vision.projection_dim": 64}


async def models(backend: LlamaCpp) -> dict[str, ModelInfo]:
    return {model.name: model for model in await backend.list()}


async def test_all_shards_go_and_the_folders_that_are_left_empty(
    make_backend: Make, setup: Setup
) -> None:
    folder = setup.models_dir / "org" / "repo"
    write_gguf(folder / "x-00001-of-00002.gguf")
    write_gguf(folder / "x-00002-of-00002.gguf")
    write_gguf(folder / "mmproj.gguf", CLIP)
    backend = make_backend()
    await backend.remove((await models(backend))["x"])
    assert list(setup.models_dir.iterdir()) == []


async def test_a_projector_stays_while_another_model_uses_it(
    make_backend: Make, setup: Setup
) -> None:
    for name in ("a", "b"):
        write_gguf(setup.models_dir / f"{name}.gguf")
    write_gguf(setup.models_dir / "mmproj.gguf", CLIP)
    backend = make_backend()
    known = await models(backend)
    await backend.remove(known["a"])
    assert (setup.models_dir / "mmproj.gguf").exists()
    await backend.remove(known["b"])
    assert list(setup.models_dir.iterdir()) == []


async def test_a_broken_model_can_be_removed_too(make_backend: Make, setup: Setup) -> None:
    write_gguf(setup.models_dir / "cut.gguf", cut=50)
    backend = make_backend()
    await backend.remove((await models(backend))["cut"])
    assert await backend.list() == []


async def test_what_lies_behind_a_linked_folder_is_refused(
    make_backend: Make, setup: Setup, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "somebody else's" / "x.gguf")
    (setup.models_dir / "link").symlink_to(path.parent)
    backend = make_backend()
    with pytest.raises(AccessDenied, match="outside"):
        await backend.remove((await models(backend))["x"])
    assert path.exists()


async def test_a_linked_file_loses_its_link_alone(
    make_backend: Make, setup: Setup, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "elsewhere" / "x.gguf")
    (setup.models_dir / "x.gguf").symlink_to(path)
    backend = make_backend()
    await backend.remove((await models(backend))["x"])
    assert path.exists()
    assert await backend.list() == []


async def test_a_configured_folder_is_ours_to_delete_in_and_stays(
    make_backend: Make, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "more" / "x.gguf")
    backend = make_backend(folders=[str(tmp_path / "more")])
    await backend.remove((await models(backend))["x"])
    assert not path.exists()
    assert path.parent.exists()


async def test_pulls_of_another_notation_are_refused(make_backend: Make) -> None:
    with pytest.raises(BadRequest, match="names no model"):
        await make_backend().pull("just-a-name", lambda progress: None)
