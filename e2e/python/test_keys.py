"""Keys of clients: created and revoked while the server runs, those of the configuration, what each may do, who pays."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from bridge_client import Bridge, grpc, wire
from gateway_client import Gateway, eventually, exceptions
from patchboard_server import Server, ServerTestCase, binary
from stub_model import Hold, Reply, StubModel, Text

TOKEN = "a-token-of-the-gateway-itself"
HEAD = '[gateway]\ntoken = "env:GATEWAY_TOKEN"\n'
AGENTS = '\n[agents.planner]\ndescription = "plans"\ntools = []\n'
CI_SECRET = "secret-of-ci-that-is-long-enough"
EYE_SECRET = "secret-of-eye-that-is-long-enough"


class KeysTestCase(ServerTestCase):
    def serve(self, *behaviours, more: str = "", **options) -> Server:
        self.model = StubModel(*behaviours)
        self.addCleanup(self.model.close)
        environment = {"GATEWAY_TOKEN": TOKEN, "CI_SECRET": CI_SECRET, "EYE_SECRET": EYE_SECRET}
        config = HEAD + self.model.provider_config("openai") + AGENTS + more
        return self.start_server(config=config, env=environment, **options)

    def command(self, server: Server, *words: str) -> subprocess.CompletedProcess:
        place = ["--data-dir", str(server.data_dir), "--config", str(server.config_file)]
        return subprocess.run(
            [binary(), *words, *place],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=server.folder,
            env=server.environment(),
        )

    def create(self, server: Server, *words: str) -> str:
        """Creates a key; gives its secret."""
        done = self.command(server, "keys", "create", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^pbk-[0-9a-f]{64}\n$", "the secret alone")
        self.assertNotIn("pbk-", done.stderr)
        return done.stdout.strip()

    def signed_in(self, server: Server, secret: str) -> Gateway:
        gateway = Gateway(server, additional_headers={"Authorization": f"Bearer {secret}"})
        self.addCleanup(gateway.close)
        return gateway

    def mcp(self, server: Server, secret: str) -> int:
        """The status of an `initialize` over MCP."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{server.http_url}/mcp", json.dumps(message).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status
        except urllib.error.HTTPError as refused:
            return refused.code

    def status_of_upgrade(self, url: str, secret: str) -> int:
        try:
            Gateway(url, greet=False, additional_headers={"Authorization": f"Bearer {secret}"}).close()
        except exceptions.InvalidStatus as refused:
            return refused.response.status_code
        return 101


class CreatedKeyTest(KeysTestCase):
    def test_it_starts_its_agents_pays_for_them_and_is_gone_when_revoked(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)
        server = self.serve(Reply(Text("a plan"), input_tokens=30, output_tokens=12))
        secret = self.create(server, "ci", "--agents", "planner", "--monthly", "100000")
        ci = self.signed_in(server, secret)
        self.assertEqual(ci.chat("plan it", agent="planner").text, "a plan")
        refusal = "the key `ci` may not start the agent `default`: name one of planner"
        self.assertEqual(ci.error("chat.send", channel="websocket", account="bob", content="hi"), refusal)
        self.assertEqual([agent["name"] for agent in ci.result("agent.list")["items"]], ["planner"])
        self.assertIn("needs the operate grant", ci.error("key.list"))
        line = {"used": 42, "reserved": 0, "limit": 100000}
        self.assertEqual(ci.result("budget.status")["keys"][0]["monthly"], line)
        shown = json.loads(self.command(server, "status", "--json").stdout)
        self.assertEqual([(key["key"], key["monthly"]) for key in shown["budget"]["keys"]], [("ci", line)])
        self.assertIn("ci: today 42 tokens used", self.command(server, "status").stdout)
        usage = self.command(server, "usage").stdout
        self.assertIn("key ci: 42 tokens today, 42 of 100,000 tokens this month", usage)
        other = Gateway(server, token=TOKEN)
        self.addCleanup(other.close)
        self.assertNotIn("keys", other.result("budget.status"), "other clients see no keys")
        # A run that would go on for ever.
        self.model.fallback = lambda request: Reply(Text("x"), Hold(release), Text("y"))
        request = ci.start("wait", agent="planner", account="carol")
        ci.until(request, "text")
        before = time.monotonic()
        self.assertEqual(self.command(server, "keys", "revoke", "ci").stdout, "revoked\n")
        self.assertEqual(ci.closed_with(), 1008)
        self.assertLess(time.monotonic() - before, 30, "neither the run nor a timeout of the connection was waited for")
        self.assertEqual(self.status_of_upgrade(server.ws_url, secret), 401)
        self.assertEqual(self.mcp(server, secret), 401)
        self.ended(server)
        self.nowhere(server, secret)
        server.restart()
        self.assertEqual(self.status_of_upgrade(server.ws_url, secret), 401)

    def ended(self, server: Server) -> None:
        with Gateway(server, additional_headers={"Authorization": f"Bearer {self.operator(server)}"}) as operator:
            eventually(lambda: operator.result("server.status")["runs"] == 0, "its run is cancelled")

    def operator(self, server: Server) -> str:
        return (server.data_dir / "operator.token").read_text().strip()

    def nowhere(self, server: Server, secret: str) -> None:
        """The secret is in no file of the data directory, no line of the log and no command line."""
        files = [path for path in Path(server.data_dir).rglob("*") if path.is_file()]
        self.assertGreater(len(files), 3)
        places = {str(path): path.read_bytes() for path in files}
        places["the log"] = server.log().encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                places[str(path)] = path.read_bytes()
            except OSError:
                continue
        for place, content in places.items():
            self.assertNotIn(secret.encode(), content, place)

    def test_it_survives_a_kill_and_works_on_its_surfaces_only(self) -> None:
        server = self.serve(Reply(Text("yes")), runs="127.0.0.1:0")
        only_runs = self.create(server, "runner", "--surfaces", "runs")
        only_mcp = self.create(server, "tools", "--surfaces", "mcp")
        server.kill()
        server.start()
        runs = f"ws://{server.address('runs')}"
        statuses = {
            name: [self.status_of_upgrade(url, secret) for url in (server.ws_url, runs)] + [self.mcp(server, secret)]
            for name, secret in (("runner", only_runs), ("tools", only_mcp), ("none", "pbk-" + 64 * "0"))
        }
        expected = {"runner": [403, 101, 403], "tools": [403, 403, 200], "none": [401, 401, 401]}
        self.assertEqual(statuses, expected)
        listed = self.command(server, "keys", "list", "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["surfaces"] for line in listed], [["runs"], ["mcp"]])

    def test_an_open_call_over_mcp_and_a_stream_of_the_bridge_end_with_it(self) -> None:
        server = self.serve(more='\n[tools.approval]\n"bash" = "ask"\n', bridge="127.0.0.1:0")
        secret = self.create(server, "ci")
        bridge = Bridge(server.address("bridge"), token=secret)
        self.addCleanup(bridge.close)
        bridge.open()
        listener = bridge.listen()
        self.addCleanup(listener.close)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
        call["params"] = {"name": "bash", "arguments": {"command": "true"}}
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        headers["Accept"] = "application/json, text/event-stream"
        initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
        post = lambda message: urllib.request.Request(f"{server.http_url}/mcp", json.dumps(message).encode(), headers)
        with urllib.request.urlopen(post(initialize), timeout=60) as begun:
            headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
        # It waits for an approval, up to two minutes.
        with urllib.request.urlopen(post(call), timeout=60) as open_call:
            before = time.monotonic()
            self.assertEqual(self.command(server, "keys", "revoke", "ci").stdout, "revoked\n")
            self.assertNotIn(b"data:", open_call.read())
        eventually(lambda: listener.ending is not None, "the stream ends")
        self.assertLess(time.monotonic() - before, 60, "not the expiry of the approval")
        refused = bridge.refused("Ping", wire.PingRequest(message="x"))
        self.assertEqual(refused.code, grpc.StatusCode.UNAUTHENTICATED)

    def test_mistakes_are_told(self) -> None:
        server = self.serve()
        self.create(server, "ci")
        for words, expected in [
            (("create", "ci"), "there is a key named `ci`: take another name"),
            (("create", "a b"), "a key's name has 1 to 64 letters"),
            (("create", "x", "--agents", "planer"), "did you mean `planner`?"),
            (("create", "x", "--surfaces", "cli"), "`surfaces` are of gateway, runs, mcp, hub, bridge; not cli"),
            (("create", "x", "--daily", "0"), "0 is not in 1.."),
            (("revoke", "cj"), "no key is named `cj`"),
        ]:
            done = self.command(server, "keys", *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertEqual(done.stdout, "", words)
            self.assertIn(expected, done.stderr, words)


CI = '\n[[keys]]\nname = "ci"\nsecret = "env:CI_SECRET"\nbudget = { daily = 40 }\n'
EYE = '\n[[keys]]\nname = "eye"\nsecret = "env:EYE_SECRET"\noversee = true\n'


class FileKeyTest(KeysTestCase):
    def test_the_hub_over_http(self) -> None:
        server = self.serve(more='\n[hub]\npairing = "token"\n' + CI, hub="127.0.0.1:0")

        def status(secret: str) -> int:
            headers = {"Authorization": f"Bearer {secret}"}
            request = urllib.request.Request(f"http://{server.address('hub')}/v1/clients", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    return response.status
            except urllib.error.HTTPError as refused:
                return refused.code

        self.assertEqual((status(CI_SECRET), status("wrong")), (200, 401))

    def test_a_budget_is_the_keys_alone(self) -> None:
        server = self.serve(more=CI)
        self.model.fallback = lambda request: Reply(Text("yes"), input_tokens=30, output_tokens=10)
        ci = self.signed_in(server, CI_SECRET)
        self.assertEqual(ci.chat("hi", agent="planner").text, "yes")
        refusal = ci.error("chat.send", channel="websocket", account="bob", content="hi", agent="planner")
        self.assertTrue(refusal.startswith("token budget exceeded (daily of the key `ci`: 40/40): "), refusal)
        with Gateway(server, token=TOKEN) as other:
            self.assertEqual(other.chat("hi", agent="planner", account="dora").text, "yes")

    def test_a_reload_adds_and_removes_them(self) -> None:
        server = self.serve(more=CI + EYE)
        self.assertIn("remove its entry", self.command(server, "keys", "revoke", "ci").stderr)
        ci, eye = self.signed_in(server, CI_SECRET), self.signed_in(server, EYE_SECRET)
        config = server.config_file
        config.write_text(config.read_text().replace(CI, ""))
        done = self.command(server, "reload")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(ci.closed_with(), 1008)
        self.assertEqual(self.status_of_upgrade(server.ws_url, CI_SECRET), 401)
        self.assertEqual(eye.result("ping"), "pong", "the other key stays")
        self.create(server, "ci")
        config.write_text(config.read_text() + CI)
        self.assertIn("PB0207", self.command(server, "reload").stderr)
        self.assertEqual(self.status_of_upgrade(server.ws_url, CI_SECRET), 401, "nothing was applied")
        server.terminate()
        with self.assertRaises(Exception) as failed:
            server.start()
        self.assertIn("PB0207", str(failed.exception) + server.log())

    def test_an_overseer_steers_runs_and_changes_nothing(self) -> None:
        server = self.serve(more=EYE)
        release = threading.Event()
        self.addCleanup(release.set)
        self.model.fallback = lambda request: Reply(Text("x"), Hold(release), Text("y"))
        client = Gateway(server, token=TOKEN)
        self.addCleanup(client.close)
        request = client.start("wait", agent="planner")
        client.until(request, "text")
        eye = self.signed_in(server, EYE_SECRET)
        sessions = eye.result("session.list")["items"]
        self.assertEqual([item["account"] for item in sessions], ["alice"])
        session = sessions[0]["session"]
        frames = eye.ask("chat.attach", session=session)
        eye.until(frames, "text")
        release.set()
        self.assertEqual(client.turn(request).text, "y")
        self.assertEqual(len(eye.result("chat.history", session=session)["items"]), 2)
        self.assertIn("belongs to another caller", eye.error("session.clear", session=session))
        for method in ("server.status", "server.reload", "key.list"):
            self.assertIn("needs the operate grant", eye.error(method), method)


if __name__ == "__main__":
    unittest.main()
