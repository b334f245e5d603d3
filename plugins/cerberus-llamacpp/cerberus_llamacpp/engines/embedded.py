"""The engine that comes along: the `xllamacpp` wheel in a child process."""

import asyncio
import json
import os
import sys

from cerberus_core.platform import spawn
from cerberus_llamacpp.engine import KEY

from .launch import Launch, Started


class Embedded:
    label = "embedded engine"
    # The kernel picks its port: there is no race to lose.
    attempts = 1

    async def start(self, launch: Launch, key: str) -> Started:
        wish = {
            "model": str(launch.model),
            "projector": str(launch.projector) if launch.projector else None,
            "alias": launch.alias,
            "context": launch.context,
            "parallel": launch.parallel,
            "threads": launch.threads,
            "gpu_layers": launch.gpu_layers,
            "cache_type_k": launch.cache_type_k,
            "cache_type_v": launch.cache_type_v,
            "tensor_split": list(launch.tensor_split),
            "main_gpu": launch.main_gpu,
            "draft": str(launch.draft) if launch.draft else None,
            "draft_tokens": launch.draft_tokens,
            "chat_template": str(launch.chat_template) if launch.chat_template else None,
            "pooling": launch.pooling,
        }
        # -P: a folder that the daemon happens to stand in holds no code of ours.
        argv = [sys.executable, "-P", "-m", "cerberus_llamacpp.engine", json.dumps(wish)]
        child = await spawn(argv, log=launch.log, env={**os.environ, KEY: key}, relay=True)

        async def where() -> str:
            while (line := await child.line()) is not None:
                word, _, url = line.partition(" ")
                if word == "listening":
                    return url
            return await asyncio.Future()  # it has ended: the waiting side sees that itself

        return Started(child, where)
