"""`scripts/serve` itself, in a clone whose uv and page are stand-ins: what it fetches, and when."""

import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.processes import clean_env

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable

UV = f"""#!/bin/bash
echo "$UV_CACHE_DIR $*" >> "$(dirname "$0")/../uv.log"
venv=$(cd "$(dirname "$0")/../.." && pwd)/.venv
case "$1 $2" in
  "--version "*) echo "uv 1" ;;
  "venv "*) mkdir -p "$venv/bin"
    printf '#!/bin/bash\\nexec {PYTHON} "$@"\\n' > "$venv/bin/python"
    printf '#!/bin/bash\\nexec {PYTHON} -m cerberus_core "$@"\\n' > "$venv/bin/cerberus"
    chmod +x "$venv/bin/"* ;;
esac
case "$*" in *--target*) echo "no network here" >&2; exit 1 ;; esac
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the scripts are for Linux")


@attrs.frozen
class Clone:
    """The files that `scripts/serve` reads."""

    folder: Path
    env: dict[str, str]

    def fetches(self) -> list[str]:
        """What uv was asked for, the version aside."""
        log = self.folder / ".tools" / "uv.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if not line.endswith("--version")]

    def serve(self) -> str:
        """Start, wait for the greeting, stop; all that was said."""
        with subprocess.Popen(
            ["scripts/serve", "--port", "0"],
            cwd=self.folder, env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("  stop"):
                    break
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "Traceback" not in err
        return "".join(said) + out + err


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    folder = tmp_path / "clone"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder / name)
    for project in [
        *ROOT.glob("plugins/*/pyproject.toml"),
        *ROOT.glob("examples/*/pyproject.toml"),
    ]:
        target = folder / project.relative_to(ROOT)
        target.parent.mkdir(parents=True)
        shutil.copy(project, target)
    program(folder / ".tools" / "bin" / "uv", UV)
    program(folder / "scripts" / "web", "#!/bin/bash\n")
    env = clean_env(tmp_path)
    env["CERBERUS_BLOCKED_PLUGINS"] = '["hello"]'
    for name in ("UV_CACHE_DIR", "npm_config_cache"):
        assert name not in env
    return Clone(folder, env)


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_the_second_start_fetches_nothing(clone: Clone, tmp_path: Path) -> None:
    testing = pytest.importorskip("cerberus_llamacpp.testing")
    (tmp_path / "mine").mkdir()
    testing.write_gguf(tmp_path / "mine" / "tiny.gguf")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f'[plugins.llamacpp]\nfolders = ["{tmp_path / "mine"}"]\n'
    )
    said = clone.serve()
    assert "llamacpp/tiny" in said, "the greeting names the model that is there"
    first = clone.fetches()
    assert any("--require-hashes" in line for line in first)
    assert not any("--target" in line for line in first), "no starter: there is a model"
    caches = {line.split()[0] for line in first}
    assert caches == {str(clone.folder / ".tools" / "cache" / "uv")}
    assert "llamacpp/tiny" in clone.serve()
    assert clone.fetches() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clone", "config", "data", "mine"]


def test_without_a_model_the_starter_is_tried_and_it_serves_all_the_same(clone: Clone) -> None:
    pytest.importorskip("cerberus_llamacpp")
    said = clone.serve()
    assert any("--target" in line for line in clone.fetches())
    assert "no network here" in said
    assert f"{clone.folder}/.venv/bin/cerberus models pull starter" in said
    assert "Cerberus listens at" in said


def test_a_broken_page_is_no_reason_not_to_serve(clone: Clone) -> None:
    program(clone.folder / "scripts" / "web", "#!/bin/bash\nexit 1\n")
    clone.env["CERBERUS_PLUGINS__OPENAI__ENDPOINTS__A__BASE_URL"] = "http://127.0.0.1:9/v1"
    clone.env["CERBERUS_PLUGINS__OPENAI__ENDPOINTS__A__MODELS"] = '["m"]'
    said = clone.serve()
    assert "The page could not be built" in said
    assert not any("--target" in line for line in clone.fetches()), "a/m can be talked to"
