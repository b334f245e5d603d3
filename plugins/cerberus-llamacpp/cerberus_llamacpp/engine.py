"""The embedded engine: llama.cpp's HTTP server in a process of its own.

`python -P -m cerberus_llamacpp.engine JSON`, started by `engines/embedded.py`.
It listens on a port that the kernel picks, says on its standard output where
(`listening http://127.0.0.1:PORT`), and serves until it is killed. SIGTERM
keeps its default action on purpose: the load holds the interpreter's lock, so
a Python handler would run too late. The key comes in the environment.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

KEY = "CERBERUS_ENGINE_KEY"


def main() -> None:
    said = os.dup(1)
    # Whatever a library prints belongs to the log.
    os.dup2(2, 1)
    from xllamacpp import Server  # type: ignore[import-untyped]

    try:
        server = Server(_params(json.loads(sys.argv[1]), os.environ.pop(KEY)))
    except RuntimeError as error:
        # llama.cpp logs from a thread of its own; its words say why, ours don't.
        time.sleep(0.5)
        raise SystemExit(f"the engine did not start: {error}") from error
    os.write(said, f"listening {server.listening_address}\n".encode())
    threading.Event().wait()


def _params(wish: dict[str, Any], key: str) -> Any:
    from xllamacpp import CommonParams, common_speculative_type, ggml_type, llama_pooling_type

    params = CommonParams()
    params.model.path = wish["model"]
    if wish["projector"]:
        params.mmproj.path = wish["projector"]
    params.model_alias = {wish["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    # No page in a browser has business with an engine.
    params.cors_origins = ""
    params.cors_credentials = False
    params.ui = False
    # Writing is how it notices, in a long prefill, that the client has left.
    params.sse_ping_interval = 1
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.n_ctx = wish["context"] * wish["parallel"]
    params.n_parallel = wish["parallel"]
    params.cpuparams.n_threads = wish["threads"]
    params.cpuparams_batch.n_threads = wish["threads"]
    if wish["gpu_layers"] is not None:
        params.n_gpu_layers = wish["gpu_layers"]
    for name in ("cache_type_k", "cache_type_v"):
        if wish[name] is not None:
            setattr(params, name, ggml_type[f"GGML_TYPE_{wish[name].upper()}"])
    if wish["tensor_split"]:
        shares = wish["tensor_split"]
        params.tensor_split = shares + [0.0] * (len(params.tensor_split) - len(shares))
    if wish["main_gpu"] is not None:
        params.main_gpu = wish["main_gpu"]
    if wish["draft"]:
        params.speculative.draft.mparams.path = wish["draft"]
        params.speculative.types = [common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        if wish["draft_tokens"] is not None:
            params.speculative.draft.n_max = wish["draft_tokens"]
    if wish["chat_template"]:
        params.chat_template = Path(wish["chat_template"]).read_text(encoding="utf-8")
    if wish["pooling"]:
        params.embedding = True
        params.pooling_type = llama_pooling_type[f"LLAMA_POOLING_TYPE_{wish['pooling'].upper()}"]
        # A text is summed up in one piece, so one batch must hold it.
        params.n_batch = params.n_ubatch = wish["context"]
    return params


if __name__ == "__main__":
    main()
