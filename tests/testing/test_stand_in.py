"""The base of stand-ins for model servers."""

import asyncio

import httpx
import pytest

from cerberus_core.testing import Answer, Asked, StandIn

pytestmark = pytest.mark.anyio


class Fake(StandIn):
    def __init__(self) -> None:
        super().__init__()
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def answer(self, asked: Asked, out: Answer) -> None:
        match asked.what:
            case "POST /echo":
                await out.json({"told": asked.body, "key": asked.headers.get("x-key")}, 201)
            case "GET /stream":
                await out.stream("text/plain", ["a", "bc"])
            case _:
                self.begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.ended.set()


async def test_it_answers_notes_what_it_is_asked_and_says_what_a_test_wants() -> None:
    async with Fake() as fake, httpx.AsyncClient(base_url=fake.url) as client:
        answer = await client.post("/echo", json={"a": "ü"}, headers={"X-Key": "k"})
        assert (answer.status_code, answer.json()) == (201, {"told": {"a": "ü"}, "key": "k"})
        assert (await client.get("/stream")).text == "abc"
        fake.answers["/echo"] = (503, b"no")
        assert (await client.post("/echo", json=1)).text == "no"
        assert fake.bodies("POST /echo") == [{"a": "ü"}, 1]
        assert [what for what, _ in fake.asked] == ["POST /echo", "GET /stream", "POST /echo"]


@pytest.mark.parametrize("cancels", [True, False])
async def test_what_it_does_ends_with_its_client_where_it_is_told_to(cancels: bool) -> None:
    fake = Fake()
    fake.cancels = cancels
    async with fake:
        _, writer = await asyncio.open_connection("127.0.0.1", int(fake.url.rpartition(":")[2]))
        writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
        await fake.begun.wait()
        writer.close()
        await writer.wait_closed()
        if cancels:
            await fake.ended.wait()
        else:
            await asyncio.sleep(0.01)
            assert not fake.ended.is_set()
    assert fake.ended.is_set(), "the server's end is everybody's"
