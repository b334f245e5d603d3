"""Which files of a repository a reference means. Pure."""

import pytest
from cerberus_llamacpp.pull.choose import RemoteFile, Wish, choose, parse, quant_of

from cerberus_core.errors import BadRequest, NotFound

REPO = [
    "README.md",
    "Tiny-F16.gguf",
    "Tiny-IQ2_XXS.gguf",
    "Tiny-Q4_K_M.gguf",
    "Tiny-Q8_0.gguf",
    "Tiny-UD-Q4_K_XL.gguf",
    "Q5_K_M/Tiny-Q5_K_M-00002-of-00002.gguf",
    "Q5_K_M/Tiny-Q5_K_M-00001-of-00002.gguf",
]


def paths(wish: Wish, names: list[str]) -> list[str]:
    return [file.path for file in choose(wish, [RemoteFile(name, 1) for name in names])]


@pytest.mark.parametrize(
    ("ref", "wish"),
    [
        ("org/repo", Wish("org/repo")),
        ("org/repo:Q4_K_M", Wish("org/repo", quant="Q4_K_M")),
        ("org/re.po-1/sub/a b.gguf", Wish("org/re.po-1", file="sub/a b.gguf")),
        ("org/repo/tree/x/a.gguf", Wish("org/repo", file="tree/x/a.gguf")),
        ("https://huggingface.co/org/repo", Wish("org/repo")),
        ("https://huggingface.co/org/repo/", Wish("org/repo")),
        ("hf.co/org/repo:Q8_0", Wish("org/repo", quant="Q8_0")),
        ("huggingface.co/org/repo/tree/main", Wish("org/repo")),
        ("https://hf.co/org/repo/blob/main/s/a.gguf?x=1#y", Wish("org/repo", file="s/a.gguf")),
        ("https://huggingface.co/org/repo/resolve/main/a.gguf", Wish("org/repo", file="a.gguf")),
    ],
)
def test_reads_a_reference(ref: str, wish: Wish) -> None:
    assert parse(ref) == wish


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "repo",
        "org/",
        "../repo",
        "org/..",
        "-org/repo/x",
        "org/repo/x.bin",
        "a b/c",
        "/x/y",
        "https://example.com/org/repo",
        "https://huggingface.co/",
        "https://huggingface.co/org",
    ],
)
def test_another_notation_is_refused_with_the_right_one(ref: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(ref)
    assert "org/repo" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("Tiny-Q4_K_M", "Q4_K_M"),
        ("tiny.q4_0", "q4_0"),
        ("Tiny-UD-Q4_K_XL", "UD-Q4_K_XL"),
        ("gpt-oss-MXFP4", "MXFP4"),
        ("Qwen3-4B-bf16", "bf16"),
        ("Qwen3-4B", None),
    ],
)
def test_tells_the_quantisation_from_a_name(name: str, quant: str | None) -> None:
    assert quant_of(name) == quant


def test_takes_q4_k_m_unasked_and_what_was_asked_in_any_case() -> None:
    assert paths(Wish("o/r"), REPO) == ["Tiny-Q4_K_M.gguf"]
    assert paths(Wish("o/r", quant="iq2_xxs"), REPO) == ["Tiny-IQ2_XXS.gguf"]
    assert paths(Wish("o/r", quant="ud-q4_k_xl"), REPO) == ["Tiny-UD-Q4_K_XL.gguf"]
    assert paths(Wish("o/r"), ["b-Q8_0.gguf", "b-F16.gguf"]) == ["b-Q8_0.gguf"]
    assert paths(Wish("o/r"), ["b.gguf", "a.gguf"]) == ["a.gguf"]


def test_takes_all_shards_in_order_whichever_was_named() -> None:
    shards = ["Q5_K_M/Tiny-Q5_K_M-00001-of-00002.gguf", "Q5_K_M/Tiny-Q5_K_M-00002-of-00002.gguf"]
    assert paths(Wish("o/r", quant="Q5_K_M"), REPO) == shards
    assert paths(Wish("o/r", file=shards[1]), REPO) == shards


def test_takes_one_projector_along() -> None:
    names = [*REPO, "mmproj-F32.gguf", "mmproj-F16.gguf"]
    assert paths(Wish("o/r"), names) == ["Tiny-Q4_K_M.gguf", "mmproj-F16.gguf"]


def test_what_is_not_there_is_answered_with_what_is() -> None:
    with pytest.raises(NotFound) as caught:
        paths(Wish("o/r", quant="Q3_K"), REPO)
    assert "IQ2_XXS" in str(caught.value.hint)
    with pytest.raises(NotFound, match="holds no GGUF"):
        paths(Wish("o/r"), ["model.safetensors"])


def test_a_path_that_leads_out_is_not_even_looked_at() -> None:
    with pytest.raises(NotFound):
        paths(Wish("o/r"), ["../../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf"])
