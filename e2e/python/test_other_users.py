"""Where no token is asked for, only the server's own user, root and those who are named get anything at all."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import re
import signal
import socket
import subprocess
import unittest

from channel_stand_ins import post
from gateway_client import eventually
from hub_client import App
from patchboard_server import Server
from plugin_support import OPEN_LOOPBACK, Plugin
from raw_client import UPGRADE, frame
from stub_model import StubModel
from users_case import (
    CLOSE,
    HALF,
    OWNER,
    PACKAGES,
    RESET,
    STRANGER,
    TIMEOUT,
    Program,
    UsersServer,
    UsersTestCase,
    a_users_name,
    as_user,
    needs_root,
    number_of,
    operator_token,
    python_for,
    readable_binary,
    refused_start,
    request,
    split,
)

TOKEN = "0123456789abcdef0123456789abcdef"
SECRET = "webhook-secret-canary"
THIRD = 54323
ENVIRONMENT = {"TOKEN": TOKEN, "CHANNEL_SECRET": SECRET}
EVERYWHERE = {"gateway": "127.0.0.1:0", "runs": "127.0.0.1:0", "hub": "127.0.0.1:0", "bridge": "127.0.0.1:0"}
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
).encode()
PLUGIN = Plugin("webhook-json")
CHANNELS = (
    PLUGIN.config
    + '[channels.open]\nverify = "none"\nplugin = "webhook-json"\nreply = "sync"\n'
    + '[channels.signed]\nverify = "token"\nsecret = "env:CHANNEL_SECRET"\nplugin = "webhook-json"\nreply = "sync"\n'
)
# Calls one after the other, each without a message's content, and tells how they end.
CALLS = r"""
import json, sys
import grpc
address, token = sys.argv[1:]
METHODS = [
    "/snakepit.bridge.BridgeService/Ping", "/snakepit.bridge.BridgeService/InitializeSession",
    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/no.such.Service/Method",
]
same = lambda data: data
headers = [("authorization", "Bearer " + token)] if token else []
ends = {}
with grpc.insecure_channel(address) as channel:
    for method in METHODS:
        # A session's name, or the wish to have the services listed.
        data = b"\x0a\x02s1" if method.endswith("Session") else b"\x3a\x00" if method.endswith("Info") else b""
        call = channel.stream_stream(method, same, same)(iter([data]), metadata=headers, timeout=60)
        try:
            first = next(call, None)
            ends[method] = ["OK" if first is not None else str(call.code()), ""]
        except grpc.RpcError as error:
            ends[method] = [error.code().name, error.details()]
        call.cancel()
print(json.dumps(ends))
"""


def calls_of(user: int, server: Server, token: str = "") -> dict[str, list[str]]:
    """How calls of a program of this user end, by method."""
    python = python_for(user, ", grpc")
    done = subprocess.run(
        [*as_user(user), python, "-c", CALLS, server.address("bridge"), token],
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PACKAGES), "NO_PROXY": "*", "no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as plug:
            plug.bind(("::1", 0))
        return True
    except OSError:
        return False


@contextlib.contextmanager
def asleep(server: Server):
    """The server does nothing meanwhile; what connects waits in the kernel."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def with_plugin(server: Server) -> Server:
    """Puts the channels' plugin where the configuration says that it is."""
    (server.folder / "plugins").mkdir()
    (server.folder / "plugins" / "webhook-json.wasm").write_bytes(PLUGIN.content)
    return server


class OwnersTestCase(UsersTestCase):
    """Servers that belong to neither root nor the stranger."""

    def serve(self, config: str = "", plugin: bool = False, **options) -> Server:
        needs_root()
        self.model = StubModel()
        self.addCleanup(self.model.close)
        options = {**EVERYWHERE, "env": ENVIRONMENT, **options}
        self.server = UsersServer(OWNER, config=config + self.model.provider_config("openai"), **options)
        self._own_servers.append(self.server)
        self.addCleanup(self.server.close)
        if plugin:
            with_plugin(self.server)
            with open(self.server.config_file, "a") as file:
                file.write(CHANNELS + OPEN_LOOPBACK)
        self.server.start()
        return self.server

    def posted(self, channel: str, words: str, **headers: str) -> str:
        """What the adapter's agent answers to root, once the adapter is there."""

        def is_loaded() -> bool:
            self.said = post(self.server, channel, {"content": words}, {**headers})
            return self.said.status != 503

        eventually(is_loaded, "the adapter is loaded", TIMEOUT)
        return self.said.text

    # What a program can ask of every listener.

    def doors(self, server: Server) -> list[tuple[str, str, bytes, bool]]:
        """Name, address, request and whether the answer is to be read to its end."""
        gateway, runs, hub = (server.address(surface) for surface in ("gateway", "runs", "hub"))
        doors = []

        def door(address: str, method: str, path: str, body: bytes = b"", **headers: str) -> None:
            whole = "Upgrade" not in headers
            shown = f"{method} {path} of {address}" + ("" if whole else ", a WebSocket")
            doors.append((shown, address, request(address, method, path, body, **headers), whole))

        for path in ("/", "/health", "/healthz", "/readyz", "/metrics", "/ws", "/no/such/page", "/webhook/unknown"):
            door(gateway, "GET", path)
        door(gateway, "HEAD", "/health")
        door(gateway, "POST", "/health", b"{}")
        door(gateway, "GET", "/ws", **UPGRADE)
        door(gateway, "POST", "/mcp", INITIALIZE, Accept="application/json")
        door(gateway, "GET", "/mcp")
        door(gateway, "DELETE", "/mcp")
        door(gateway, "POST", "/webhook/unknown", b"{}")
        door(gateway, "POST", "/webhook/open", b'{"content":"hi"}')
        door(gateway, "POST", "/webhook/op%65n", b'{"content":"hi"}')
        door(gateway, "POST", "/webhook/open/", b'{"content":"hi"}')
        door(gateway, "GET", "/webhook/open")
        door(runs, "GET", "/")
        door(runs, "GET", "/", **UPGRADE)
        door(runs, "GET", "/no/such/page")
        port = hub.rsplit(":", 1)[1]
        for hub in (hub, f"[::1]:{port}") if has_ipv6() else (hub,):
            door(hub, "GET", "/", **UPGRADE)
            door(hub, "GET", "/any/path", **UPGRADE)
            door(hub, "GET", "/")
            door(hub, "GET", "/v1/messages")
            door(hub, "POST", "/v1/messages", b'{"text":"buy milk"}')
            door(hub, "POST", "/v1/messages?wait=60", b'{"text":"buy milk"}')
            door(hub, "POST", "/v1/route", b'{"text":"buy milk"}')
            door(hub, "GET", "/v1/clients")
            door(hub, "POST", "/v1/clients/notebook/approve", b"{}")
            door(hub, "GET", "/v1/nothing")
        return doors

    def assert_shut(self, program: Program, server: Server) -> None:
        for name, address, data, whole in self.doors(server):
            with self.subTest(name):
                answer = program.send(address, data, whole=whole)
                self.assertEqual(answer.status, 403, answer)
                if not name.startswith("HEAD"):
                    self.assert_names_the_key(program.send(address, data).text)

    def assert_names_the_key(self, text: str) -> None:
        self.assertIn("trusted_users", text)
        # Of what is behind the door, nothing is told.
        self.assertNotIn("patchboard", text.lower())

    def assert_open(self, program: Program, server: Server) -> None:
        """This program gets what it asks for, on every listener."""
        gateway, runs, hub = (server.address(surface) for surface in ("gateway", "runs", "hub"))
        for path in ("/", "/health", "/healthz", "/readyz", "/metrics"):
            self.assertEqual(program.get(gateway, path).status, 200, path)
        self.assertEqual(program.upgrade(gateway, "/ws").status, 101)
        self.assertEqual(program.ask(gateway, "POST", "/mcp", INITIALIZE, Accept="application/json").status, 200)
        self.assertEqual(program.ask(gateway, "POST", "/webhook/unknown", b"{}").status, 404)
        self.assertEqual(program.upgrade(runs, "/").status, 101)
        port = hub.rsplit(":", 1)[1]
        for hub in (hub, f"[::1]:{port}") if has_ipv6() else (hub,):
            self.assertEqual(program.upgrade(hub, "/").status, 101)
            self.assertEqual(program.get(hub, "/v1/clients").status, 200)
            self.assertEqual(program.ask(hub, "POST", "/v1/route", b'{"text":"buy milk"}').status, 200)

    def assert_shut_for_calls(self, user: int, server: Server, token: str = "") -> None:
        for method, (code, text) in calls_of(user, server, token).items():
            with self.subTest(method):
                self.assertEqual(code, "PERMISSION_DENIED", text)
                self.assertIn("trusted_users", text)

    def assert_open_for_calls(self, user: int, server: Server, token: str = "") -> None:
        for method, (code, text) in calls_of(user, server, token).items():
            with self.subTest(method):
                self.assertEqual(code, "UNIMPLEMENTED" if "no.such" in method else "OK", text)


class WithoutATokenTest(OwnersTestCase):
    def test_another_user_gets_nothing_and_the_own_one_and_root_all(self) -> None:
        self.serve(plugin=True)
        self.assert_shut(self.program_of(STRANGER), self.server)
        for user in (OWNER, 0):
            with self.subTest(user=user):
                self.assert_open(self.program_of(user), self.server)
        self.assertIn("echo: from root", self.posted("open", "from root"))
        own = self.program_of(OWNER).ask(self.server.gateway, "POST", "/webhook/open", b'{"content":"from me"}')
        self.assertEqual(own.status, 200, own)
        # Who has the channel's secret has shown more than who forwards it.
        stranger = self.program_of(STRANGER)
        words = b'{"content":"signed"}'
        taken = stranger.ask(self.server.gateway, "POST", "/webhook/signed", words, X_Webhook_Token=SECRET)
        self.assertEqual(taken.status, 200, taken)
        self.assertIn("echo: signed", taken.text)
        wrong = stranger.ask(self.server.gateway, "POST", "/webhook/signed", words, X_Webhook_Token="wrong")
        self.assertEqual(wrong.status, 401, wrong)

    def test_nor_on_the_bridge_with_health_and_reflection(self) -> None:
        self.serve()
        self.assert_shut_for_calls(STRANGER, self.server)
        for user in (OWNER, 0):
            with self.subTest(user=user):
                self.assert_open_for_calls(user, self.server)

    def test_the_user_counts_whatever_the_address(self) -> None:
        if not has_ipv6():
            self.skipTest("this system has no IPv6")
        self.serve(gateway="[::1]:0", runs="[::1]:0", hub="[::1]:0", bridge="[::1]:0")
        gateway, runs = self.server.gateway, self.server.address("runs")
        port = self.server.address("hub").rsplit(":", 1)[1]
        for user, status, upgraded in ((STRANGER, 403, 403), (OWNER, 200, 101), (0, 200, 101)):
            program = self.program_of(user)
            with self.subTest(user=user):
                self.assertEqual(program.get(gateway, "/health").status, status)
                self.assertEqual(program.upgrade(runs, "/").status, upgraded)
                for hub in (f"[::1]:{port}", f"127.0.0.1:{port}"):
                    self.assertEqual(program.get(hub, "/v1/clients").status, status, hub)
        self.assert_shut_for_calls(STRANGER, self.server)
        self.assert_open_for_calls(OWNER, self.server)

    def test_and_whatever_the_socket(self) -> None:
        self.serve()
        address = self.server.gateway
        port = address.rsplit(":", 1)[1]
        for user, status in ((STRANGER, 403), (OWNER, 200), (0, 200)):
            program = self.program_of(user)
            plain = request(address, "GET", "/health")
            with self.subTest(user=user, of="another loopback address"):
                self.assertEqual(program.send(address, plain, source="127.0.0.9").status, status)
            if has_ipv6():
                with self.subTest(user=user, of="a socket of version 6"):
                    self.assertEqual(program.send(f"[::ffff:127.0.0.1]:{port}", plain).status, status)

    def test_who_is_root_in_a_namespace_only_is_nobody_here(self) -> None:
        needs_root()
        trial = subprocess.run([*as_user(STRANGER), "unshare", "-r", "true"], capture_output=True)
        if trial.returncode != 0:
            self.skipTest("another user may not make user namespaces here")
        self.serve()
        seeming_root = self.program_of(STRANGER, "unshare", "-r")
        self.assertEqual(seeming_root.tell("who"), 0)
        self.assertEqual(seeming_root.get(self.server.gateway, "/health").status, 403)
        self.assertEqual(seeming_root.get(self.server.address("hub"), "/v1/messages").status, 403)

    def test_where_users_of_the_machine_all_look_the_same_none_of_them_is_the_own_one(self) -> None:
        """In a user namespace, all users that it does not know have the number 65534, which may be the server's own."""
        needs_root()
        trial = subprocess.run([*as_user(OWNER), "unshare", "-U", "true"], capture_output=True)
        if trial.returncode != 0:
            self.skipTest("another user may not make user namespaces here")
        for config, apart in (("", ["unshare", "-U"]), ("trusted_users = [65534]\n", ["unshare", "-r"])):
            with self.subTest(apart, config=config):
                server = UsersServer(OWNER, config=config)
                self._own_servers.append(server)
                self.addCleanup(server.close)
                usual, prefix = server.command, len(as_user(OWNER))
                server.command = lambda usual=usual, apart=apart: [*usual()[:prefix], *apart, *usual()[prefix:]]
                server.start()
                answer = self.program_of(STRANGER).get(server.gateway, "/health")
                self.assertEqual(answer.status, 403, "another user was let in")

    def test_a_token_that_nobody_asked_for_changes_nothing(self) -> None:
        self.serve()
        stranger = self.program_of(STRANGER)
        for path in ("/metrics", "/health"):
            self.assertEqual(stranger.get(self.server.gateway, path, Authorization="Bearer wrong").status, 403)
        self.assertEqual(stranger.upgrade(self.server.address("runs"), Authorization="Bearer wrong").status, 403)


class DashTest(OwnersTestCase):
    """Connects, asks for something and is gone before anybody looks."""

    TRIES = 200
    # More would not find a place in the kernel's queue of connections that are not accepted yet.
    AT_ONCE = 100

    def setUp(self) -> None:
        self.serve(plugin=True)
        gateway, runs, hub = (self.server.address(surface) for surface in ("gateway", "runs", "hub"))
        said = {"id": "1", "method": "chat.send"}
        said["params"] = {"channel": "web", "account": "alice", "content": "dash NUMBER"}
        # Names of runs are as long as the number that takes their place.
        run = {"type": "run", "id": "NUMBER", "message": "dash NUMBER", "agent": "react", "detach": True}

        def upgrade(address: str, path: str, message: dict) -> bytes:
            # Six digits take the place of six letters, so the frame keeps its length.
            return request(address, "GET", path, **UPGRADE) + frame(json.dumps(message).encode())

        registration = {"type": "registration", "payload": {"name": "thiefNUMBER", "description": "Takes everything."}}
        self.requests = {
            "a message to the hub": (hub, request(hub, "POST", "/v1/messages", b'{"text":"dash NUMBER"}')),
            "an app's registration": (hub, upgrade(hub, "/", registration)),
            "a chat": (gateway, upgrade(gateway, "/ws", said)),
            "a run": (runs, upgrade(runs, "/", run)),
            "a webhook": (gateway, request(gateway, "POST", "/webhook/open", b'{"content":"dash NUMBER"}')),
        }

    def effects(self) -> dict[str, list]:
        """What the operator finds that somebody has said or brought."""
        operator = self.operator_of(self.server)
        hub = http.client.HTTPConnection(self.server.address("hub"), timeout=TIMEOUT)
        self.addCleanup(hub.close)
        found = {}
        for what in ("messages", "clients"):
            hub.request("GET", f"/v1/{what}", headers={"Authorization": f"Bearer {operator_token(self.server)}"})
            found[what] = json.loads(hub.getresponse().read())["items"]
        found["sessions"] = operator.result("session.list")["items"]
        found["prompts"] = [one.last_user_text for one in self.model.requests]
        return found

    def test_who_is_gone_at_once_has_done_nothing(self) -> None:
        stranger = self.program_of(STRANGER)
        # So that the webhook's adapter is there to take what it must not be given.
        self.assertIn("echo: ready", self.posted("open", "ready"))
        before = self.effects()
        for how in (RESET, CLOSE, HALF):
            for address, data in self.requests.values():
                stranger.dash(address, data, how, self.TRIES)
        for how in (RESET, CLOSE):
            for address, data in self.requests.values():
                # The server finds all of them when they are gone: to the kernel, nobody holds the other end any more.
                with asleep(self.server):
                    stranger.dash(address, data, how, self.AT_ONCE)
                # Once this is answered, the queue is empty again.
                self.assertEqual(stranger.get(address, "/").status, 403)
        # Whatever was taken has been worked on when the server has gone down in good order.
        self.server.restart()
        after = self.effects()
        self.assertEqual({name: len(found) for name, found in after.items()}, {n: len(f) for n, f in before.items()})

    def test_the_same_from_root_who_stays_is_heard(self) -> None:
        """Or the test before would show nothing."""
        self.assertIn("echo: ready", self.posted("open", "ready"))
        for address, data in self.requests.values():
            host, port = split(address)
            plug = socket.create_connection((host, port), TIMEOUT)
            self.addCleanup(plug.close)
            plug.sendall(data.replace(b"NUMBER", b"000001"))

        # One of the webhooks was the first.
        expected = {"messages": 1, "clients": 1, "sessions": 3, "prompts": 4}
        found: dict[str, int] = {}

        def is_there() -> bool:
            found.update({name: len(one) for name, one in self.effects().items()})
            return found == expected

        with contextlib.suppress(AssertionError):
            eventually(is_there, "everything has happened", TIMEOUT)
        self.assertEqual(found, expected)


class TrustedUsersTest(OwnersTestCase):
    def test_named_users_get_in_by_number_and_by_name_and_no_others(self) -> None:
        name = a_users_name()
        self.serve(f'trusted_users = [{STRANGER}, "{name}"]\n')
        for user in (STRANGER, number_of(name), OWNER, 0):
            with self.subTest(user=user):
                self.assert_open(self.program_of(user), self.server)
        self.assert_open_for_calls(STRANGER, self.server)
        third = self.program_of(THIRD)
        self.assertEqual(third.get(self.server.gateway, "/health").status, 403)
        self.assertEqual(third.upgrade(self.server.address("runs")).status, 403)
        self.assertEqual(third.get(self.server.address("hub"), "/v1/messages").status, 403)
        self.assert_shut_for_calls(THIRD, self.server)

    def test_a_named_user_is_let_in_and_is_not_the_operator(self) -> None:
        self.serve(f'trusted_users = ["{STRANGER}"]\n')
        stranger = self.program_of(STRANGER)
        hub = self.server.address("hub")
        self.assertEqual(stranger.ask(hub, "POST", "/v1/messages", b'{"text":"buy milk"}').status, 202)
        approved = stranger.ask(hub, "POST", "/v1/clients/notebook/approve", b"{}")
        self.assertIn(approved.status, (401, 403), approved)

    def test_a_name_that_nobody_has_keeps_the_server_from_starting(self) -> None:
        server = Server(config='trusted_users = ["no-such-user-here"]\n')
        self.addCleanup(server.close)
        said = refused_start(server)
        self.assertIn("no-such-user-here", said)
        self.assertIn("id -u", said)

    def test_what_can_be_no_user_is_an_error_in_the_configuration(self) -> None:
        for value in ('[""]', "[-1]", "[4294967296]", '["root:x"]', "[true]", '"root"'):
            with self.subTest(value):
                server = Server(config=f"trusted_users = {value}\n")
                self.addCleanup(server.close)
                self.assertIn("trusted_users", refused_start(server))


class WithATokenTest(OwnersTestCase):
    KEYS = (
        '[gateway]\ntoken = "env:TOKEN"\n[runs]\ntoken = "env:TOKEN"\n[bridge]\ntoken = "env:TOKEN"\n'
        '[hub]\npairing = "token"\n'
    )

    def test_listeners_that_ask_for_one_do_not_ask_who_it_is(self) -> None:
        self.serve(self.KEYS)
        gateway, runs, hub = (self.server.address(surface) for surface in ("gateway", "runs", "hub"))
        stranger = self.program_of(STRANGER)
        right, wrong = {"Authorization": f"Bearer {TOKEN}"}, {"Authorization": "Bearer wrong"}
        self.assertEqual(stranger.get(gateway, "/health").status, 200)
        self.assertEqual(stranger.get(gateway, "/metrics", **right).status, 200)
        self.assertEqual(stranger.upgrade(gateway, "/ws", **right).status, 101)
        self.assertEqual(stranger.upgrade(runs, "/", **right).status, 101)
        self.assertEqual(stranger.ask(gateway, "POST", "/mcp", INITIALIZE, **right).status, 200)
        for how, headers in (("none", {}), ("a wrong one", wrong)):
            with self.subTest(how):
                self.assertEqual(stranger.get(gateway, "/metrics", **headers).status, 401)
                self.assertEqual(stranger.upgrade(runs, "/", **headers).status, 401)
                self.assertEqual(stranger.ask(gateway, "POST", "/mcp", INITIALIZE, **headers).status, 401)
                self.assertEqual(stranger.get(hub, "/v1/messages", **headers).status, 401)
        # Apps come with tokens of their own, so whoever has one may connect.
        self.assertEqual(stranger.upgrade(hub, "/").status, 101)
        operators = {"Authorization": f"Bearer {operator_token(self.server)}"}
        self.assertEqual(stranger.get(hub, "/v1/messages", **operators).status, 200)
        paired = stranger.ask(hub, "POST", "/v1/clients/notebook/pair", b"{}", **operators)
        self.assertIn(paired.status, (200, 202), paired)
        token = json.loads(paired.text)["token"]
        with App(self.server) as app:
            self.assertTrue(app.register("notebook", "Keeps notes and lists.", token=token)["success"])
        ends = calls_of(STRANGER, self.server, TOKEN)
        self.assertEqual({code for method, (code, _) in ends.items() if "no.such" not in method}, {"OK"}, ends)
        ends = calls_of(STRANGER, self.server)
        self.assertEqual(ends.pop("/grpc.health.v1.Health/Check")[0], "OK", "who watches needs no token")
        self.assertEqual({code for code, _ in ends.values()}, {"UNAUTHENTICATED"}, ends)

    def test_each_listener_asks_for_itself(self) -> None:
        self.serve('[runs]\ntoken = "env:TOKEN"\n[hub]\npairing = "approve"\n')
        stranger = self.program_of(STRANGER)
        right = {"Authorization": f"Bearer {TOKEN}"}
        self.assertEqual(stranger.upgrade(self.server.address("runs"), "/", **right).status, 101)
        for address, path in ((self.server.gateway, "/health"), (self.server.address("hub"), "/v1/messages")):
            self.assertEqual(stranger.get(address, path, **right).status, 403)
        self.assertEqual(stranger.upgrade(self.server.address("hub"), "/").status, 403)

    def test_a_channel_without_a_proof_asks_all_the_same(self) -> None:
        self.serve(self.KEYS, plugin=True)
        stranger = self.program_of(STRANGER)
        words = b'{"content":"hi"}'
        for more in ({}, {"Authorization": f"Bearer {TOKEN}"}):
            refused = stranger.ask(self.server.gateway, "POST", "/webhook/open", words, **more)
            self.assertEqual(refused.status, 403, refused)
            self.assertIn("trusted_users", refused.text)
        self.assertIn("echo: from root", self.posted("open", "from root"))
        self.assertEqual(stranger.get(self.server.gateway, "/health").status, 200)


class LogTest(OwnersTestCase):
    def lines(self) -> list[str]:
        # The answer to who is refused is no line of the log, and neither is what the server says of itself at start.
        return [one for one in self.server.log().splitlines() if re.search(r"another user", one)]

    def test_a_hundred_connections_cause_one_line(self) -> None:
        self.serve()
        stranger = self.program_of(STRANGER)
        for surface in ("gateway", "runs", "hub"):
            self.assertEqual(stranger.hold(self.server.address(surface), 34), 34)
        eventually(self.lines, "a line of the log", TIMEOUT)
        self.assertEqual(len(self.lines()), 1, self.server.log())
        (line,) = self.lines()
        self.assertIn(str(STRANGER), line)
        self.assertIn("trusted_users", line)

    def test_who_is_gone_at_once_does_not_keep_it_from_being_written(self) -> None:
        self.serve()
        stranger = self.program_of(STRANGER)
        gateway = self.server.gateway
        with asleep(self.server):
            stranger.dash(gateway, request(gateway, "GET", "/health"), RESET, 5)
        self.assertEqual(stranger.get(gateway, "/health").status, 403)
        # Written down when the server has ended, if it ever is.
        self.server.terminate()
        self.assertEqual(len(self.lines()), 1, self.server.log())


LISTEN = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    listener.settimeout(60)
    connection, _ = listener.accept()
    connection.settimeout(10)
    print(connection.recv(65536), flush=True)
"""


class PortOfAnotherTest(OwnersTestCase):
    """Somebody listens where the record of a server says that it does, as after the server has let go of its port."""

    def names(self, user: int) -> tuple[subprocess.Popen, str]:
        """What a command says when that user listens at the port of the record."""
        self.serve()
        place = as_user(user)
        listener = subprocess.Popen([*place, "/usr/bin/python3", "-c", LISTEN], stdout=subprocess.PIPE, text=True)
        self.addCleanup(listener.wait)
        self.addCleanup(listener.kill)
        self.addCleanup(listener.stdout.close)
        record = self.server.data_dir / "server.json"
        told = json.loads(record.read_text())
        told["gateway"] = f"127.0.0.1:{listener.stdout.readline().strip()}"
        record.write_text(json.dumps(told))
        done = subprocess.run(
            [*as_user(OWNER), readable_binary(), "sessions", "list", "--data-dir", str(self.server.data_dir)],
            cwd=self.server.folder,
            env=self.server.environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertNotEqual(done.returncode, 0)
        return listener, done.stdout + done.stderr

    def test_a_command_does_not_show_the_token_to_another_user(self) -> None:
        listener, _ = self.names(STRANGER)
        self.assertIsNone(listener.poll(), "nobody connected")
        self.assertEqual(select.select([listener.stdout], [], [], 0)[0], [], "nothing was sent")

    def test_it_would_show_it_to_its_own_user(self) -> None:
        """Which shows that the test above can fail."""
        listener, _ = self.names(OWNER)
        self.assertIn(operator_token(self.server), listener.stdout.readline())


class AbsoluteTargetTest(UsersTestCase):
    """A proxy goes by the target's authority, so that is the one that counts."""

    def ask(self, address: str, target: str, headers: dict[str, str]) -> int:
        host, port = address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), TIMEOUT)
        with connection:
            lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            return int(connection.makefile("rb").readline().split()[1])

    def test_another_authority_is_refused_whatever_host_says(self) -> None:
        server = self.start_server(**EVERYWHERE)
        ports = {surface: server.address(surface).rsplit(":", 1)[1] for surface in ("gateway", "runs", "hub")}
        for surface, path, more in (
            ("gateway", "/health", {}),
            ("gateway", "/metrics", {}),
            ("gateway", "/mcp", {}),
            ("gateway", "/webhook/unknown", {}),
            ("gateway", "/ws", UPGRADE),
            ("runs", "/", UPGRADE),
            ("hub", "/v1/messages", {}),
            ("hub", "/", UPGRADE),
        ):
            address, port = server.address(surface), ports[surface]
            others = ("evil.example", f"evil.example:{port}", f"localhost:{port}@evil.example", "127.0.0.1.nip.io")
            for authority in others:
                for host in (f"localhost:{port}", address):
                    with self.subTest(surface=surface, path=path, authority=authority, host=host):
                        status = self.ask(address, f"http://{authority}{path}", {"Host": host, **more})
                        self.assertIn(status, (400, 403) if "@" in authority else (403,))
            with self.subTest(surface=surface, path=path, authority="its own"):
                status = self.ask(address, f"http://{address}{path}", {"Host": address, **more})
                self.assertNotEqual(status, 403)


if __name__ == "__main__":
    unittest.main()
