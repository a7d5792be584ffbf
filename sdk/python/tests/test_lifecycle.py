"""How workers start and end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest
from calling import error, execute, result
from parent import Parent
from running import TOOLS, environment, eventually, worker

from patchboard import _proto, _worker


def test_a_port_on_loopback_only() -> None:
    with worker(unix=False) as started:
        assert int(started.where) > 0
        assert result(started, "echo", {"value": 1}) == 1
        with pytest.raises(ConnectionRefusedError):
            # Another address of the same machine.
            socket.create_connection(("127.0.0.2", int(started.where)), timeout=60).close()


def test_it_leads_its_group() -> None:
    with worker() as started:
        pid, group, _ = result(started, "pids")
        assert pid == group == started.pid


def test_sigterm_lets_calls_finish(tmp_path: Path) -> None:
    mark = tmp_path / "stopped"
    tools = tmp_path / "slow.py"
    tools.write_text(
        "import threading, sys\nfrom patchboard import tool\n"
        "gate = threading.Event()\n"
        "@tool\ndef slow() -> str:\n    print('in', file=sys.stderr, flush=True)\n    gate.wait(1)\n    return 'done'\n"
    )
    with worker(tools) as started:
        listening = started.rpc("StreamTelemetry")(iter(threading.Event().wait, True), timeout=30)
        call = started.rpc("ExecuteTool").future(_proto.ExecuteToolRequest(tool_name="slow"))
        assert started.process.stderr is not None and started.process.stderr.readline() == "in\n"
        started.process.send_signal(signal.SIGTERM)
        assert json.loads(call.result(timeout=120).result.value) == "done"
        # Open telemetry streams do not hold it up.
        assert started.process.wait(4) == 0
        listening.cancel()
        assert not os.path.exists(started.where.removeprefix("unix:"))
    with worker(env={"TEST_STOP_FILE": str(mark)}) as started:
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(4) == 0
        assert mark.read_text() == "stopped"


def test_sigterm_does_not_wait_for_ever() -> None:
    assert _worker.GRACE_SECONDS + _worker._LAST_SECONDS < 8
    with worker() as started:
        call = started.rpc("ExecuteTool").future(_proto.ExecuteToolRequest(tool_name="wait_async"))
        eventually(lambda: "async began" in result(started, "news"))
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(8) == 0
        assert call.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize("with_session", [True, False])
def test_it_ends_when_its_server_is_gone(with_session: bool) -> None:
    parent = Parent()
    env = {"SNAKEPIT_HEARTBEAT_CONFIG": '{"interval_ms": 100}'} if with_session else {}
    with worker(parent=parent.address, env=env) as started:
        if with_session:
            started.rpc("InitializeSession")(_proto.InitializeSessionRequest(session_id="own"))
        parent.wait_for("Heartbeat" if with_session else "Ping")
        parent.close()
        assert started.process.wait(8) == 0


def test_heartbeat_settings() -> None:
    settings = {"intervalMs": 20, "timeout_ms": 500, "max_missed_heartbeats": 2, "dependent": False}
    parent = Parent()
    env = {"SNAKEPIT_HEARTBEAT_CONFIG": json.dumps(settings)}
    with worker(TOOLS, "--heartbeat-interval-ms", "60000", parent=parent.address, env=env) as started:
        eventually(lambda: len([one for one in parent.seen if one[0] == "Ping"]) >= 3)
        parent.close()
        # More than enough beats are missed for one that depends on its server; this one stays.
        assert error(started, "call_back", {"tool": "double", "arguments": {"x": 1}})["type"] == "Unavailable"
        assert result(started, "echo", {"value": 1}) == 1
        assert started.process.poll() is None


def test_without_a_server() -> None:
    with worker() as started:
        described = error(started, "call_back", {"tool": "double", "arguments": {"x": 1}})
        assert (described["type"], described["message"]) == (
            "Unavailable",
            "this worker runs on its own: there is no server to ask",
        )


def test_unknown_flags_are_left_alone() -> None:
    with worker(TOOLS, "--something-new", "5", "--snakepit-instance-name", "n", "--heartbeat-dependent") as started:
        assert result(started, "add", {"a": 1}) == 2


def test_capacity() -> None:
    with worker(TOOLS, "--capacity", "3") as started:
        request = _proto.InitializeSessionRequest(session_id="own")
        _, call = started.rpc("InitializeSession").with_call(request)
        assert dict(call.initial_metadata())["x-patchboard-capacity"] == "3"


def test_a_script_that_serves_itself(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from patchboard import serve, tool\n"
        "class Counter:\n"
        "    def __init__(self) -> None:\n        self.count = 0\n"
        "    @tool\n    def bump(self) -> int:\n        self.count += 1\n        return self.count\n"
        "serve(Counter(), capacity=2)\n"
    )
    for command in ([sys.executable, str(script)], [sys.executable, "-m", "patchboard.worker", str(script)]):
        with worker(command=command) as started:
            # One object for all calls.
            assert [result(started, "bump") for _ in range(3)] == [1, 2, 3]
            request = _proto.InitializeSessionRequest(session_id="own")
            _, call = started.rpc("InitializeSession").with_call(request)
            assert dict(call.initial_metadata())["x-patchboard-capacity"] == "2"


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "patchboard.worker", *arguments],
        env=environment(folder / "ready"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_health_check(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("from patchboard import tool\n@tool\ndef f() -> None: ...\n")
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "empty.py").write_text("")
    # A name that another module has already.
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "json.py").write_text(
        "import json\nfrom patchboard import tool\n@tool\ndef f() -> str:\n    return json.dumps(1)\n"
    )
    assert run("good.py", "--health-check", folder=tmp_path).returncode == 0
    assert run("good", "--health-check", folder=tmp_path).returncode == 0
    assert run("folder/json.py", "--health-check", folder=tmp_path).returncode == 0
    bad = run("bad.py", "--health-check", folder=tmp_path)
    assert bad.returncode == 1 and "No module named 'nothing_of_that_name'" in bad.stderr
    empty = run("empty.py", folder=tmp_path)
    assert (empty.returncode, empty.stderr) == (1, "patchboard: there are no tools: mark functions with @tool\n")
    assert run("missing.py", folder=tmp_path).returncode == 1


def test_a_socket_left_behind_is_replaced() -> None:
    path = f"/tmp/pb-left-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(path)
    with worker(unix=False, env={"PATCHBOARD_WORKER_SOCKET": path}) as started:
        assert started.where == f"unix:{path}"
        assert execute(started, "echo", {"value": 1}).success
        started.process.send_signal(signal.SIGTERM)
        started.process.wait(8)
    assert not os.path.exists(path)


def test_too_long_a_socket_path(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("from patchboard import tool\n@tool\ndef f() -> None: ...\n")
    long = run("good.py", "--socket", str(tmp_path / ("x" * 120)), folder=tmp_path)
    assert long.returncode == 1 and "more than 107 bytes" in long.stderr
