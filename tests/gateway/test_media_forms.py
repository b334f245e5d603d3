"""Forms taken apart. Pure."""

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerberus_core.errors import BadRequest
from cerberus_core.gateway.media import Form, parse_form, usage_of
from cerberus_core.gateway.request import Parsed

PATH = "/v1/audio/transcriptions"


def form_of(model: str, file: bytes, **more: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    request = httpx.Request(
        "POST", "http://x", data={**more, "model": model}, files={"file": ("a.wav", file)}
    )
    return [(b"content-type", request.headers["content-type"].encode())], request.read()


def parsed(headers: list[tuple[bytes, bytes]], body: bytes) -> Form:
    form = parse_form(PATH, headers, body)
    assert isinstance(form, Parsed)
    return form


@settings(max_examples=60)
@given(
    model=st.text(min_size=1, max_size=30).filter(str.strip),
    file=st.binary(max_size=300) | st.builds(lambda b: b"\r\n--" + b, st.binary(max_size=20)),
    prompt=st.text(max_size=30),
    stream=st.sampled_from(["true", "false", "True"]),
)
def test_the_models_name_is_another_and_every_other_byte_stays(
    model: str, file: bytes, prompt: str, stream: str
) -> None:
    headers, body = form_of(model, file, prompt=prompt, stream=stream)
    form = parsed(headers, body)
    assert (form.model, form.stream) == (model, stream.lower() == "true")
    out = form.body_for("far", stream=False)
    start, end = form.model_at
    assert out == body[:start] + b"far" + body[end:]
    assert body[start:end] == model.encode()
    again = parsed([(b"content-type", form.content_type.encode())], out)
    assert (again.model, again.fields.keys()) == ("far", form.fields.keys())
    assert form.body_for(model, stream=False) == body


@settings(max_examples=150)
@given(
    pieces=st.lists(
        st.sampled_from(
            [b"--x", b"\r\n", b"--x--", b"\r\n--x", b'content-disposition: form-data; name="model"',
             b'content-disposition: form-data; name="file"; filename="f"', b"\r\n\r\n", b"m", b"-"]
        ) | st.binary(max_size=4),
        max_size=14,
    ),
    kind=st.sampled_from(
        [b"multipart/form-data; boundary=x", b'multipart/form-data; a=b; boundary="x"']
    ),
)  # fmt: skip
def test_no_body_raises_anything_but_its_typed_error(pieces: list[bytes], kind: bytes) -> None:
    body = b"".join(pieces)
    try:
        form = parse_form(PATH, [(b"content-type", kind)], body)
    except BadRequest:
        return
    start, end = form.model_at
    assert body[start:end].decode() == form.model


@pytest.mark.parametrize(
    "kind",
    [b"", b"application/json", b"multipart/form-data", b"multipart/form-data; boundary=",
     b"multipart/form-data; boundary=" + b"x" * 71, b'multipart/form-data; boundary="a\tb"'],
)  # fmt: skip
def test_what_is_no_form_is_refused(kind: bytes) -> None:
    with pytest.raises(BadRequest, match="takes a form"):
        parse_form(PATH, [(b"content-type", kind)], b"--x\r\n")


def test_a_field_named_model_in_a_files_name_is_none() -> None:
    body = (
        b'--x\r\ncontent-disposition: form-data; filename="a; name=model"; name="file"\r\n\r\nevil'
        b'\r\n--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ngood\r\n--x--\r\n'
    )
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    assert parsed(headers, body).model == "good"


@pytest.mark.parametrize(
    "second", [b'name="model"', b'name=model; filename="x"', b'filename=x; NAME="model"']
)
def test_a_second_model_that_a_key_might_not_allow_is_refused(second: bytes) -> None:
    body = (
        b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\na'
        b"\r\n--x\r\ncontent-disposition: form-data; " + second + b"\r\n\r\nb"
        b'\r\n--x\r\ncontent-disposition: form-data; name="file"\r\n\r\nf\r\n--x--\r\n'
    )
    with pytest.raises(BadRequest, match="`model` must be one text"):
        parse_form(PATH, [(b"content-type", b"multipart/form-data; boundary=x")], body)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"usage": {"input_tokens": 3, "output_tokens": 4}}', (3, 4)),
        (b'{"usage": {"type": "duration", "seconds": 2}}', (None, None)),
        (b'{"usage": 3}', None),
        (b"[]", None),
        (b"\xff", None),
    ],
)
def test_the_tokens_that_an_answer_tells(
    data: bytes, told: tuple[int | None, int | None] | None
) -> None:
    usage = usage_of(data)
    assert (None if usage is None else tuple(usage.values())) == told
