"""Runs one llama.cpp server on loopback for the process that started this one.

Standard input: one line of JSON with the settings, then nothing; the end of
the stream means that the parent is gone and ends this process too.
Standard output: one line of JSON once the server answers. Everything else,
whatever the native code prints, goes to standard error.
"""

import http.client
import json
import os
import resource
import select
import signal
import sys

LOOPBACK = "127.0.0.1"


def main():
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # A core dump would hold conversations.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0
    settings = json.loads(line)
    end_with_parent_while_loading()

    import xllamacpp

    server = xllamacpp.Server(parameters(xllamacpp, settings))
    port = int(server.listening_address.rsplit(":", 1)[1])
    answer.write(json.dumps({"port": port, **describe(port, settings["api_key"])}) + "\n")
    answer.flush()

    while sys.stdin.buffer.read(4096):
        pass
    return 0


def parameters(xllamacpp, settings):
    chosen = xllamacpp.CommonParams()
    chosen.model.path = settings["weights"]
    chosen.model_alias = {settings["model_name"]}
    chosen.api_keys = [settings["api_key"]]
    chosen.hostnames = [LOOPBACK]
    chosen.port = 0
    chosen.offline = True
    # Nothing for browsers: no page, no listing of slots, no foreign origin.
    chosen.ui = False
    chosen.endpoint_slots = False
    chosen.cors_origins = ""
    chosen.use_jinja = True
    # The window is divided among the slots, so each gets what was asked for.
    chosen.n_parallel = settings["parallel"]
    chosen.n_ctx = settings["context_tokens"] * settings["parallel"]
    chosen.cache_ram_mib = settings["prompt_cache_mib"]
    if settings["threads"] is not None:
        chosen.cpuparams.n_threads = settings["threads"]
        chosen.cpuparams_batch.n_threads = settings["threads"]
    # Warnings and errors only; higher levels would print conversations.
    chosen.verbosity = 2
    return chosen


def describe(port, api_key):
    """Asks the server about itself, which also proves that it answers."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    connection.request("GET", "/props", headers={"Authorization": f"Bearer {api_key}"})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"the server answers {response.status} to a question about itself")
    properties = json.loads(body)
    return {
        "context_tokens": properties["default_generation_settings"]["n_ctx"],
        "tools": bool(properties.get("chat_template_caps", {}).get("supports_tools", False)),
    }


def end_with_parent_while_loading():
    """Loading holds the interpreter lock, so no Python code can watch the pipe
    meanwhile. Where a pipe can raise SIGIO the kernel watches it: nothing more
    is ever written, so the signal means the end, and its default action ends
    this process."""
    if sys.platform == "linux":
        import fcntl

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    # The stream may have ended before the signal was asked for.
    if select.select([0], [], [], 0)[0]:
        os._exit(0)


if __name__ == "__main__":
    try:
        code = main()
    except Exception as problem:
        print(f"the model server does not start: {type(problem).__name__}: {problem}", file=sys.stderr)
        code = 1
    sys.stderr.flush()
    # Skips the teardown of native threads, which may wait for a generation.
    os._exit(code)
