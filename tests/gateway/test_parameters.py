"""What a model's settings add to its requests."""

from typing import Any

import pytest

from cerberus_core.testing import ScriptedServer
from tests.conftest import StartBox, endpoint

ASK: dict[str, Any] = {"model": "up/m", "messages": [{"role": "user", "content": "hi"}]}
SETTINGS = """
[models."up/m"]
defaults = { temperature = 0.2, stop = ["END"], chat_template_kwargs = { enable_thinking = false } }
forced = { top_p = 0.5, seed = 7 }
"""


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [True, False])
async def test_defaults_stand_where_nothing_was_said_and_forced_ones_always(
    start_box: StartBox, upstream: ScriptedServer, stream: bool
) -> None:
    async with start_box(endpoint(upstream) + SETTINGS) as box:
        asked = {**ASK, "temperature": 1, "top_p": 1.0, "stream": stream}
        assert (await box.http.post("/v1/chat/completions", json=asked)).status_code == 200
    sent = upstream.requests[0].json()
    assert (sent["temperature"], sent["top_p"], sent["seed"]) == (1, 0.5, 7)
    assert (sent["stop"], sent["chat_template_kwargs"]) == (["END"], {"enable_thinking": False})
    assert sent["messages"] == ASK["messages"]
