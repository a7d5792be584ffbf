"""The bridge's listeners: health, reflection, the Unix socket, tokens, TLS, and where it refuses to listen at all."""

from __future__ import annotations

import json
import os
import stat
import unittest

from ahead_case import ahead, ahead_last
from bridge_case import BridgeTestCase, SharedBridgeCase
from bridge_certificates import Authority, write
from bridge_client import SIZES, Bridge, Code, Refused, grpc, together, wire
from gateway_client import eventually
from packages import load
from patchboard_server import NotReady

health_pb2 = load("grpc_health.v1.health_pb2")
health_pb2_grpc = load("grpc_health.v1.health_pb2_grpc")
reflection = load("grpc_reflection.v1alpha.proto_reflection_descriptor_database")
descriptor_pb2 = load("google.protobuf.descriptor_pb2")
SERVING = health_pb2.HealthCheckResponse.SERVING
TOKEN = "0123456789abcdef0123456789abcdef"
REFUSED = Code.UNAUTHENTICATED


def setUpModule() -> None:
    TokenTest.begin_ahead()


load_tests = ahead_last


class HealthTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def test_the_service_is_well(self) -> None:
        health = health_pb2_grpc.HealthStub(self.bridge.channel)
        for service in ("", wire.SERVICE):
            answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
            self.assertEqual(answer.status, SERVING)
            watching = health.Watch(health_pb2.HealthCheckRequest(service=service), timeout=30)
            self.assertEqual(next(watching).status, SERVING)
            watching.cancel()
        with self.assertRaises(grpc.RpcError) as unknown:
            health.Check(health_pb2.HealthCheckRequest(service="no.such.Service"), timeout=30)
        self.assertEqual(unknown.exception.code(), Code.NOT_FOUND)

    def test_it_describes_itself_as_the_contract_does(self) -> None:
        database = reflection.ProtoReflectionDescriptorDatabase(self.bridge.channel)
        self.assertIn(wire.SERVICE, database.get_services())
        told = database.FindFileContainingSymbol(wire.SERVICE)
        self.assertEqual((told.package, told.syntax), (wire.PACKAGE, "proto3"))
        self.assertEqual(len(told.enum_type), 0)
        ours = {message.name: message for message in wire.FILE.message_type}
        theirs = {message.name: message for message in told.message_type}
        self.assertEqual(set(theirs), set(ours))
        for name, message in ours.items():
            with self.subTest(name):
                self.assertEqual(shape(theirs[name]), shape(message))
        (service,) = told.service
        self.assertEqual(
            [method_shape(one) for one in service.method], [method_shape(one) for one in wire.FILE.service[0].method]
        )

    def test_what_is_not_there_is_unimplemented(self) -> None:
        for path in (f"/{wire.SERVICE}/NoSuchRpc", "/no.such.Service/Ping"):
            call = self.bridge.channel.unary_unary(path)
            with self.assertRaises(grpc.RpcError) as refused:
                call(b"", timeout=30)
            self.assertEqual(refused.exception.code(), Code.UNIMPLEMENTED)


def shape(message) -> list:
    fields = [
        (one.number, one.name, one.type, one.label, one.type_name, one.HasField("oneof_index"), one.proto3_optional)
        for one in message.field
    ]
    return sorted(fields) + [one.name for one in message.oneof_decl]


def method_shape(method) -> tuple:
    return method.name, method.input_type, method.output_type, method.client_streaming, method.server_streaming


class SocketTest(BridgeTestCase):
    def near(self, path) -> Bridge:
        # Left to itself, grpcio says the path's name for an authority, which is none by the rules of HTTP.
        near = Bridge(f"unix:{path}", options=[*SIZES, ("grpc.default_authority", "localhost")])
        self.addCleanup(near.close)
        return near

    def test_it_listens_on_a_socket_too(self) -> None:
        self.serve('unix_socket = "bridge.sock"\n')
        path = self.server.data_dir / "bridge.sock"
        mode = path.stat().st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode) & 0o077, 0, "nobody else gets to it")
        near = self.near(path)
        near.open("mine", {"from": "the socket"})
        self.assertEqual(near.ping("x"), "pong: x")
        self.assertEqual(self.bridge.get("mine").metadata["from"], "the socket", "it is the same server")

    def test_a_socket_left_behind_is_no_obstacle_and_none_stays(self) -> None:
        self.serve('unix_socket = "bridge.sock"\n')
        path = self.server.data_dir / "bridge.sock"
        self.server.kill()
        self.assertTrue(path.exists())
        self.server.start()
        self.near(path).ping()
        self.assertEqual(self.server.terminate(), 0)
        self.assertFalse(path.exists())

    def test_a_file_in_its_place_is_not_removed(self) -> None:
        folder = self.notes.folder
        (folder / "precious").write_text("keep me")
        with self.assertRaises(NotReady) as refused:
            self.serve(f'unix_socket = "{folder / "precious"}"\n')
        self.assertIn("ended with 2", str(refused.exception))
        self.assertEqual((folder / "precious").read_text(), "keep me")

    def test_the_socket_works_without_a_tcp_listener(self) -> None:
        try:
            self.start_server(config='[bridge]\nunix_socket = "bridge.sock"\n', bridge="off")
        except NotReady as refused:
            self.assertIn("ended with 2", str(refused))


class TokenTest(BridgeTestCase):
    def serve_with_token(self, *pools, **options) -> None:
        self.server = self.start_server(
            config='[bridge]\ntoken = "env:E2E_BRIDGE_TOKEN"\n' + "".join(pool.config for pool in pools),
            bridge="127.0.0.1:0",
            env={"E2E_BRIDGE_TOKEN": TOKEN},
            **options,
        )

    @ahead
    def test_only_the_right_token_gets_in(self) -> None:
        self.serve_with_token()
        good = self.client(token=TOKEN)
        good.open()
        wrong = (
            [],
            [("authorization", f"Bearer {TOKEN}x")],
            [("authorization", f"Bearer {TOKEN[:-1]}")],
            [("authorization", TOKEN)],
            [("authorization", f"Basic {TOKEN}")],
            [("authorization", "Bearer ")],
            [("token", TOKEN)],
        )
        # At the same time, because every one of them is made to wait.
        answers = together(len(wrong), lambda at: self.answers_to(wrong[at]))
        for headers, refused in zip(wrong, answers):
            with self.subTest(headers):
                self.assertEqual({name: one.code for name, one in refused.items() if one.code != REFUSED}, {})
                self.assertEqual(len(refused), 8)
                self.assertFalse(any(TOKEN in one.text for one in refused.values()))
        self.assertFalse(good.is_there("x"))
        self.assertNotIn(TOKEN, self.server.log())

    def answers_to(self, headers: list) -> dict[str, Refused]:
        """How calls with these headers are refused, by name. Wrong tokens are answered one a second for all of loopback,
        and a connection that was not let in within twenty is closed, so each call has one of its own."""
        refused = {}
        for name, request in (
            ("Ping", wire.PingRequest()),
            ("InitializeSession", wire.InitializeSessionRequest(session_id="x")),
            ("GetSession", wire.GetSessionRequest(session_id="s1")),
            ("ExecuteTool", wire.ExecuteToolRequest(session_id="s1", tool_name="variable_list")),
            ("ExecuteStreamingTool", wire.ExecuteToolRequest(session_id="s1", tool_name="x")),
            ("GetExposedElixirTools", wire.GetExposedElixirToolsRequest(session_id="s1")),
            ("ExecuteElixirTool", wire.ExecuteElixirToolRequest(session_id="s1", tool_name="variable_list")),
        ):
            refused[name] = self.stranger(headers).refused(name, request)
        with self.assertRaises(grpc.RpcError) as ended:
            self.stranger(headers).stub.StreamTelemetry(iter(()), timeout=60, metadata=headers).next()
        refused["StreamTelemetry"] = Refused(ended.exception.code(), ended.exception.details())
        return refused

    def stranger(self, headers: list) -> Bridge:
        """A client on a connection of its own."""
        client = self.client()
        client.headers = headers
        return client

    @ahead
    def test_the_right_one_is_let_in_whatever_others_try(self) -> None:
        self.serve_with_token()
        good, bad = self.client(token=TOKEN), self.client(token="wrong")
        good.ping()
        guesses = [bad.stub.Ping.future(wire.PingRequest(), timeout=60, metadata=bad.headers) for _ in range(100)]
        for _ in range(20):
            self.assertEqual(good.ping(), "pong: hello")
        self.assertEqual(self.client(token=TOKEN).ping(), "pong: hello", "on a new connection too")
        for guess in guesses[:5]:
            # Those that are not kept waiting are reset; a connection that never showed a right one is closed at last.
            self.assertIn(guess.exception(60).code(), (Code.UNAUTHENTICATED, Code.INTERNAL, Code.UNAVAILABLE))
        for guess in guesses:
            guess.cancel()

    def test_workers_need_none(self) -> None:
        pool = self.pool()
        self.serve_with_token(pool)
        bridge = self.client(token=TOKEN)
        eventually(lambda: "add" in bridge.tools(), "the tools", 30)
        self.assertEqual(bridge.value("add", {"a": 1, "b": 2}), 3)
        self.assertEqual(
            bridge.value("call_host", {"name": "variable_list", "arguments": {}}), {"result": {"variables": []}}
        )
        self.assertNotIn(TOKEN, json.dumps(bridge.value("about")), "and see none")

    def test_a_token_that_is_not_there_is_a_start_error(self) -> None:
        with self.assertRaises(NotReady) as refused:
            self.start_server(config='[bridge]\ntoken = "env:E2E_NO_SUCH_TOKEN"\n', bridge="127.0.0.1:0")
        self.assertIn("ended with 2", str(refused.exception))
        self.assertIn("E2E_NO_SUCH_TOKEN", str(refused.exception))


class TlsTest(BridgeTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.authority = Authority()
        certificate, key = self.authority.issue("server")
        folder = self.notes.folder
        self.files = {"cert": write(folder, "cert.pem", certificate), "key": write(folder, "key.pem", key)}

    def tls(self, **more: str) -> str:
        entries = ", ".join(f"{name} = {json.dumps(path)}" for name, path in {**self.files, **more}.items())
        return f"tls = {{ {entries} }}\n"

    def secure(self, **identity: bytes) -> Bridge:
        credentials = grpc.ssl_channel_credentials(self.authority.pem(), **identity)
        return self.client(credentials=credentials)

    def start(self, bridge: str, *pools, address: str = "127.0.0.1:0", **options) -> None:
        config = f"[bridge]\n{bridge}\n" + "".join(pool.config for pool in pools)
        self.server = self.start_server(config=config, bridge=address, **options)

    def refuses(self, client: Bridge) -> None:
        refused = client.refused("Ping", wire.PingRequest(), timeout=5)
        self.assertIn(refused.code, (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED))

    def test_encrypted_and_only_so(self) -> None:
        self.start(self.tls())
        self.assertEqual(self.secure().ping(), "pong: hello")
        self.refuses(self.client())
        stranger = grpc.ssl_channel_credentials(Authority("somebody else").pem())
        self.refuses(self.client(credentials=stranger))
        self.assertEqual(self.secure().ping(), "pong: hello")

    def test_client_certificates(self) -> None:
        authority = Authority("clients")
        client_ca = write(self.notes.folder, "ca.pem", authority.pem())
        self.start(self.tls(client_ca=client_ca))
        certificate, key = authority.issue("client")
        known = {"private_key": key, "certificate_chain": certificate}
        self.assertEqual(self.secure(**known).ping(), "pong: hello")
        self.refuses(self.secure())
        certificate, key = Authority("clients").issue("client")
        self.refuses(self.secure(private_key=key, certificate_chain=certificate))
        self.assertEqual(self.secure(**known).ping(), "pong: hello")

    def test_workers_are_not_locked_out(self) -> None:
        pool = self.pool()
        self.start(self.tls(), pool)
        bridge = self.secure()
        eventually(lambda: "add" in bridge.tools(), "the tools", 30)
        self.assertEqual(bridge.value("add", {"a": 1, "b": 2}), 3)

    def test_bad_files_are_start_errors(self) -> None:
        other_key = write(self.notes.folder, "other.pem", Authority().issue("x")[1])
        rubbish = write(self.notes.folder, "rubbish.pem", b"not a certificate")
        for more in (
            {"cert": "no-such.pem"},
            {"key": "no-such.pem"},
            {"cert": rubbish},
            {"key": rubbish},
            {"key": other_key},
            {"client_ca": rubbish},
            {"client_ca": "no-such.pem"},
        ):
            with self.subTest(more), self.assertRaises(NotReady) as refused:
                self.start(self.tls(**more))
            self.assertIn("ended with 2", str(refused.exception))

    def test_off_loopback_only_with_tls_and_a_token_or_certificates(self) -> None:
        token = 'token = "env:E2E_BRIDGE_TOKEN"\n'
        client_ca = write(self.notes.folder, "ca.pem", self.authority.pem())
        env = {"E2E_BRIDGE_TOKEN": TOKEN}
        for bridge in ("", token, self.tls()):
            with self.subTest(bridge), self.assertRaises(NotReady) as refused:
                self.start(bridge, address="0.0.0.0:0", env=env)
            self.assertIn("ended with 2", str(refused.exception))
            self.assertIn("bridge", str(refused.exception))
        for bridge in (token + self.tls(), self.tls(client_ca=client_ca)):
            with self.subTest(bridge):
                self.start(bridge, address="0.0.0.0:0", env=env)
        self.assertEqual(self.server.terminate(), 0)

    def test_off_loopback_in_the_clear_has_to_be_asked_for(self) -> None:
        env = {"E2E_BRIDGE_TOKEN": TOKEN}
        self.start('insecure = true\ntoken = "env:E2E_BRIDGE_TOKEN"\n', address="0.0.0.0:0", env=env)
        port = self.server.ready["bridge"].rsplit(":", 1)[1]
        bridge = Bridge(f"127.0.0.1:{port}", token=TOKEN)
        self.addCleanup(bridge.close)
        self.assertEqual(bridge.ping(), "pong: hello")


class ConnectionTest(BridgeTestCase):
    def test_how_many_there_may_be_is_a_setting(self) -> None:
        self.serve("max_connections = 3\n")
        crowd = [self.bridge] + [self.client() for _ in range(2)]
        for client in crowd:
            client.ping()
        late = self.client(options=[*SIZES, ("grpc.initial_reconnect_backoff_ms", 100)])
        refused = late.refused("Ping", wire.PingRequest(), timeout=2)
        self.assertIn(refused.code, (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED))
        self.bridge.ping()
        crowd[1].close()

        def is_let_in() -> bool:
            with Bridge(self.server.address("bridge")) as again:
                try:
                    return again.ping(timeout=10) == "pong: hello"
                except grpc.RpcError:
                    return False

        eventually(is_let_in, "there is room again", 60)

    def test_a_port_in_use_is_a_start_error(self) -> None:
        self.serve()
        with self.assertRaises(NotReady) as refused:
            self.start_server(bridge=self.server.address("bridge"))
        self.assertIn("ended with 2", str(refused.exception))
        self.assertIn("in use", str(refused.exception))

    def test_off_is_off(self) -> None:
        server = self.start_server(bridge="off")
        self.assertIsNone(server.ready["bridge"])

    def test_ending_drains_and_removes_nothing_of_others(self) -> None:
        self.serve()
        self.bridge.open()
        self.assertEqual(self.server.terminate(), 0)
        self.assertFalse(os.path.exists(f"/proc/{self.server.pid}"))


if __name__ == "__main__":
    unittest.main()
