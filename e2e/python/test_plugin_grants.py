"""What a plugin may do is what the operator wrote down, and nothing else: hosts, stores, the server's own tools,
settings it reads and secrets it never sees."""

from __future__ import annotations

import json
import socket
import subprocess
import unittest

from bridge_case import ALLOW
from channel_stand_ins import Page, Redirect, StandIn, Telegram, post, update
from gateway_client import Gateway
from patchboard_server import binary
from plugin_support import OPEN_LOOPBACK, Plugin, PluginTestCase, component, wait_for_log
from stub_model import StubModel

PAGE = Page(b"<html><head><title>The right page</title></head></html>")
SECRET = "key-canary-0123456789"


class HttpTest(PluginTestCase):
    def setUp(self) -> None:
        self.place = StandIn()
        self.addCleanup(self.place.close)

    def title(self, *grants: str, url: str, more: str = OPEN_LOOPBACK) -> tuple[str, bool]:
        gateway = self.serve(Plugin("http-get", grants=grants), more=more + ALLOW)
        return self.call("page_title", gateway, url=url)

    def refused(self, *grants: str, url: str, more: str = OPEN_LOOPBACK) -> str:
        content, is_error = self.title(*grants, url=url, more=more)
        self.assertTrue(is_error, content)
        return content

    def test_a_granted_host(self) -> None:
        port = self.place.port
        for grant in ("http:127.0.0.1", f"http:127.0.0.1:{port}"):
            with self.subTest(grant):
                self.place.next(PAGE)
                self.assertIn("The right page", self.title(grant, url=f"{self.place.url}/x")[0])

    def test_names_are_compared_without_regard_to_case(self) -> None:
        self.place.next(PAGE)
        content, is_error = self.title("http:LOCALHOST", url=f"http://LocalHost:{self.place.port}/x")
        self.assertFalse(is_error, content)
        self.assertIn("The right page", content)

    def test_what_is_not_granted_is_denied_and_both_sides_know_why(self) -> None:
        port = self.place.port
        for grants, url in (
            ((), f"{self.place.url}/x"),
            (("http:example.com",), f"{self.place.url}/x"),
            (("http:127.0.0.1:1",), f"{self.place.url}/x"),
            (("http:localhost",), f"{self.place.url}/x"),
            (("http:127.0.0.1",), f"http://localhost:{port}/x"),
            (("http:127.0.0.1",), f"http://127.0.0.1.example.com:{port}/x"),
            (("http:7.0.0.1",), f"{self.place.url}/x"),
        ):
            with self.subTest(grants=grants, url=url):
                content = self.refused(*grants, url=url)
                self.assertRegex(content, "(?i)grant|denied")
                wait_for_log(self.server, "http-get", "http:")
        self.assertEqual(self.place.requests, [])

    def test_a_private_address_needs_more_than_a_grant(self) -> None:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            with self.subTest(host):
                content = self.refused(f"http:{host}", url=f"http://{host}:{self.place.port}/x", more="")
                self.assertRegex(content, "(?i)private|loopback|denied|fetch_private_hosts")
        self.assertEqual(self.place.requests, [])

    def test_a_redirect_is_followed_within_the_grants_and_not_beyond(self) -> None:
        other = StandIn()
        self.addCleanup(other.close)
        self.place.next(Redirect("/there"), PAGE)
        content, is_error = self.title(self.place.grant, url=f"{self.place.url}/here")
        self.assertIn("The right page", content)
        self.assertFalse(is_error)
        self.place.next(Redirect(f"{other.url}/there"))
        self.assertRegex(self.refused(self.place.grant, url=f"{self.place.url}/here"), "(?i)grant|denied")
        self.assertEqual(other.requests, [])
        self.assertEqual([one.path for one in self.place.requests], ["/here", "/there", "/here"])

    def test_only_plain_addresses_of_http(self) -> None:
        for url in (f"http://x@127.0.0.1:{self.place.port}/", "file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "javascript:1", "127.0.0.1", ""):
            with self.subTest(url):
                self.assertNotIn("root:", self.refused("http:127.0.0.1", url=url))
        self.assertEqual(self.place.requests, [])


class StoreTest(PluginTestCase):
    NOTES = Plugin("notes", grants=("store:notes",))

    def test_values_are_kept_between_calls_restarts_and_kills(self) -> None:
        gateway = self.serve(self.NOTES)
        self.good("note_add", gateway=gateway, title="milk", text="buy some ü☃")
        self.assertIn("buy some ü☃", self.good("note_get", gateway=gateway, title="milk"))
        self.server.kill()
        self.server.restart()
        gateway = self.another()
        self.settled(gateway, "notes", "ready")
        self.assertIn("buy some ü☃", self.good("note_get", gateway=gateway, title="milk"))
        self.assertIn("milk", self.good("note_list", gateway=gateway))
        self.good("note_delete", gateway=gateway, title="milk")
        self.assertNotIn("milk", self.good("note_list", gateway=gateway))

    def test_without_the_grant_it_is_denied_and_the_log_says_so(self) -> None:
        for grants in ((), ("store:other",), ("store:note",), ("store:notes2",)):
            with self.subTest(grants):
                gateway = self.serve(Plugin("notes", grants=grants))
                content, is_error = self.call("note_add", gateway, title="a", text="b")
                self.assertTrue(is_error, content)
                self.assertIn("store:notes", content)
                wait_for_log(self.server, "notes", "store:notes")

    def test_plugins_with_the_same_grant_share_a_store(self) -> None:
        other = Plugin("other", grants=("store:notes",), data=component("notes"))
        gateway = self.serve(self.NOTES, other)
        tools = self.tools(gateway)
        (second,) = [name for name in tools if name.endswith(".note_get")]
        self.good("note_add", gateway=gateway, title="milk", text="shared")
        self.assertIn("shared", self.good(second, gateway=gateway, title="milk"))

    def test_bounds_are_told(self) -> None:
        gateway = self.serve(Plugin("hostile", grants=("store:notes",)))
        fits = {"what": "store", "key": "k" * 256, "value": "x" * (256 << 10)}
        # Of a long answer a chat is shown the beginning.
        self.assertTrue(self.good("hostile", gateway=gateway, **fits).startswith("x" * 1000))
        for more in ({"key": "k" * 257}, {"value": "x" * ((256 << 10) + 1)}):
            content = self.bad("hostile", gateway=gateway, **{**fits, **more})
            self.assertTrue(content.startswith("full: "), content[:200])

    def test_names_that_are_not_the_granted_one(self) -> None:
        gateway = self.serve(Plugin("hostile", grants=("store:notes",)))
        for name in ("Notes", "notes ", "notes/x", "../notes", "", "*", "plugins/pins/hostile"):
            with self.subTest(name):
                content = self.bad("hostile", gateway=gateway, what="store", name=name, key="k", value="v")
                self.assertTrue(content.startswith("denied: "), content)
        self.assertEqual(self.good("hostile", gateway=gateway, what="store", key="k"), "nothing")


class HostFunctionTest(PluginTestCase):
    def ask(self, gateway: Gateway, name: str, arguments: dict) -> tuple[str, bool]:
        return self.call("hostile", gateway, what="host_function", name=name, arguments=json.dumps(arguments))

    def test_a_granted_tool_is_called(self) -> None:
        gateway = self.serve(Plugin("hostile", grants=("host-function:ls", "host-function:shout")), Plugin("echo"))
        content, is_error = self.ask(gateway, "ls", {})
        self.assertFalse(is_error, content)
        self.assertIn("patchboard.toml", content)
        self.assertIn("LOUD", self.ask(gateway, "shout", {"text": "loud"})[0], "another plugin's")

    def test_another_is_denied_and_the_log_says_so(self) -> None:
        gateway = self.serve(Plugin("hostile", grants=("host-function:ls",)))
        for name in ("read", "bash", "LS", "ls ", "", "*"):
            with self.subTest(name):
                content, is_error = self.ask(gateway, name, {"path": "patchboard.toml"})
                self.assertTrue(is_error, content)
                self.assertNotIn("[agents", content)
        wait_for_log(self.server, "hostile", "host-function:read")

    def test_the_same_policy_holds_as_for_everybody(self) -> None:
        gateway = self.serve(
            Plugin("hostile", grants=("host-function:write_file",)),
            more='[tools.approval]\n"*" = "allow"\n"write_file" = "deny"\n',
        )
        content, is_error = self.ask(gateway, "write_file", {"path": "made.txt", "content": "x"})
        self.assertTrue(is_error, content)
        self.assertFalse((self.server.folder / "made.txt").exists())

    def test_what_has_to_be_approved_is_approved_by_whoever_called(self) -> None:
        gateway = self.serve(
            Plugin("hostile", grants=("host-function:write_file",)),
            more='[tools.approval]\n"hostile" = "allow"\n"write_file" = "ask"\n',
        )
        call = {"what": "host_function", "name": "write_file"}
        arguments = json.dumps({"path": "made.txt", "content": "x"})
        request = self.begin(gateway, "hostile", **call, arguments=arguments)
        asked = gateway.until(request, "approval")[-1]["data"]
        self.assertEqual(asked["name"], "write_file")
        gateway.result("approval.answer", approval_id=asked["approval_id"], approve=True)
        content, is_error = self.answer_of(gateway, request)
        self.assertFalse(is_error, content)
        self.assertEqual((self.server.folder / "made.txt").read_text(), "x")

    def test_a_tool_that_fails_is_a_failure_to_the_plugin(self) -> None:
        gateway = self.serve(Plugin("hostile", grants=("host-function:read", "host-function:nosuch")))
        content, is_error = self.ask(gateway, "read", {"path": "nothing.txt"})
        self.assertTrue(is_error, content)
        self.assertIn("nothing.txt", content)
        content, is_error = self.ask(gateway, "nosuch", {})
        self.assertTrue(is_error, content)

    def test_calling_itself_has_an_end(self) -> None:
        gateway = self.serve(Plugin("hostile", grants=("host-function:hostile",)), Plugin("echo"))
        arguments: dict = {"what": "count"}
        for _ in range(12):
            arguments = {"what": "host_function", "name": "hostile", "arguments": json.dumps(arguments)}
        content, is_error = self.call("hostile", gateway, **arguments)
        self.assertTrue(is_error, content)
        self.assertIn("deep", content)
        self.assertEqual(self.good("echo", gateway=gateway, text="x"), "x")
        shallow = {"what": "host_function", "name": "hostile", "arguments": json.dumps({"what": "count"})}
        content, is_error = self.call("hostile", gateway, **shallow)
        self.assertFalse(is_error, content)

    def test_calling_itself_without_end(self) -> None:
        gateway = self.serve(Plugin("hostile", grants=("host-function:hostile",)), Plugin("echo"))
        content = self.bad("hostile", gateway=gateway, what="call_itself")
        self.assertIn("deep", content)
        requests = [self.begin(gateway, "hostile", account=f"a{at}", what="call_itself") for at in range(40)]
        for request in requests:
            self.assertTrue(self.answer_of(gateway, request)[1])
        self.assertEqual(self.good("echo", gateway=gateway, text="x"), "x", "no place is taken for good")

    def test_a_fact_is_remembered_for_the_caller(self) -> None:
        gateway = self.serve(Plugin("hostile", grants=("host-function:remember",)))
        arguments = json.dumps({"key": "colour", "value": "green"})
        call = {"what": "host_function", "name": "remember", "arguments": arguments}
        content, is_error = self.call("hostile", gateway, account="ada", **call)
        self.assertFalse(is_error, content)
        self.assertIn("green", self.call("recall", gateway, account="ada", key="colour")[0])
        self.assertNotIn("green", self.call("recall", gateway, account="bob", key="colour")[0])


class SecretTest(PluginTestCase):
    def with_secret(self, grant: str) -> Gateway:
        plugin = Plugin("hostile", grants=(grant,), secrets={"key": "env:PLUGIN_KEY"})
        return self.serve(plugin, more=OPEN_LOOPBACK + ALLOW, env={"PLUGIN_KEY": SECRET})

    def test_it_is_put_in_on_the_way_out_and_seen_by_nobody_else(self) -> None:
        with StandIn() as place:
            gateway = self.with_secret(place.grant)
            url = f"{place.url}/in/{{{{secret:key}}}}/path?and={{{{secret:key}}}}"
            content, is_error = self.call("hostile", gateway, what="http", url=url)
            self.assertFalse(is_error, content)
            self.assertEqual(place.requests[0].path, f"/in/{SECRET}/path?and={SECRET}")
            named = {"what": "http", "url": f"{place.url}/x", "headers": {"X-Key": "Bearer {{secret:key}}"}}
            self.good("hostile", gateway=gateway, **named)
            self.assertEqual(place.requests[1].headers["x-key"], f"Bearer {SECRET}")
            self.good("hostile", gateway=gateway, what="http", url=place.url, method="POST", body="{{secret:key}}")
            self.assertEqual(place.requests[2].body, b"{{secret:key}}", "not in bodies")
            self.assertEqual(json.loads(self.good("hostile", gateway=gateway, what="secrets")), ["key"])
            self.bad("hostile", gateway=gateway, what="setting", name="key")
            shown = self.command("config", "show", "--config", str(self.server.config_file), data=False).stdout
            listed = json.dumps(gateway.result("plugin.list")) + self.command("plugins", "list").stdout
            for where in (content, shown, listed, self.server.log(), json.dumps(gateway.seen)):
                self.assertNotIn(SECRET, where)

    def test_it_does_not_choose_the_host(self) -> None:
        with StandIn() as place:
            gateway = self.with_secret(place.grant)
            for url in (
                f"http://{{{{secret:key}}}}@127.0.0.1:{place.port}/",
                "http://{{secret:key}}.example.com/",
                f"http://127.0.0.1:{place.port}/{{{{secret:other}}}}",
            ):
                with self.subTest(url):
                    content, is_error = self.call("hostile", gateway, what="http", url=url)
                    self.assertTrue(is_error, content)
                    self.assertNotIn(SECRET, content)
            self.assertEqual([one.path for one in place.requests if SECRET in one.path], [])

    def test_it_does_not_follow_a_redirect(self) -> None:
        """The place redirected to is named by the other side, with words it may have got from the secret."""
        with StandIn() as place, StandIn() as other:
            gateway = self.with_secret(place.grant)
            place.next(Redirect(f"{other.url}/x"))
            content, is_error = self.call("hostile", gateway, what="http", url=f"{place.url}/{{{{secret:key}}}}")
            self.assertTrue(is_error, content)
            self.assertNotIn(SECRET, content)
            self.assertEqual(other.requests, [])
            self.assertNotIn(SECRET, self.server.log())

    def test_an_error_does_not_show_it(self) -> None:
        # A port that nobody listens on, and that nobody else can take meanwhile.
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            gateway = self.with_secret(f"http:{address}")
            content, is_error = self.call("hostile", gateway, what="http", url=f"http://{address}/{{{{secret:key}}}}")
            self.assertTrue(is_error, content)
            self.assertNotIn(SECRET, content)
            self.assertNotIn(SECRET, self.server.log())

    def test_a_secret_that_is_not_there_is_an_error_at_the_start(self) -> None:
        plugin = Plugin("echo", secrets={"key": "env:NO_SUCH_VARIABLE"})
        server = self.prepare(plugin.config, plugin)
        done = subprocess.run(
            server.command(), cwd=server.folder, env=server.environment(), capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("NO_SUCH_VARIABLE", done.stderr)


class ConfigTest(PluginTestCase):
    def problems(self, plugin: str) -> str:
        self.serve()
        file = self.server.folder / "other.toml"
        file.write_text(f'[[plugins]]\nname = "p"\npath = "p.wasm"\n{plugin}\n')
        done = subprocess.run(
            [binary(), "config", "check", "--config", str(file)],
            env=self.server.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 2, f"{plugin}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def test_what_is_wrong_with_a_plugin_is_found_before_the_start(self) -> None:
        for keys, where in (
            ('grants = ["ftp:example.com"]', "grants[0]"),
            ('grants = ["http:"]', "grants[0]"),
            ('grants = ["http:a.example", "http:*"]', "grants[1]"),
            ('grants = ["http:a.example:99999"]', "grants[0]"),
            ('grants = ["http:a.example/path"]', "grants[0]"),
            ('grants = ["store:"]', "grants[0]"),
            ('grants = ["host-function:"]', "grants[0]"),
            ('grants = ["everything"]', "grants[0]"),
            ('sha256 = "abc"', "sha256"),
            ('secrets = { key = "in the open" }', "secrets.key"),
            ("bogus = 1", "bogus"),
        ):
            with self.subTest(keys):
                self.assertIn(f"plugins[0].{where}", self.problems(keys))

    def test_two_with_the_same_name(self) -> None:
        self.assertIn("plugins[1]", self.problems('[[plugins]]\nname = "p"\npath = "q.wasm"'))

    def test_an_unknown_wasm_key_has_a_hint(self) -> None:
        self.assertIn("wasm.wacth", self.problems("[wasm]\nwacth = true"))


class SettingsTest(PluginTestCase):
    def test_a_plugin_reads_its_own_and_no_other_s(self) -> None:
        gateway = self.serve(
            Plugin("hostile", settings={"colour": "green ü"}), Plugin("echo", settings={"secretive": "x"})
        )
        self.assertEqual(self.good("hostile", gateway=gateway, what="setting", name="colour"), "green ü")
        for name in ("secretive", "nothing", "", "path", "grants"):
            self.bad("hostile", gateway=gateway, what="setting", name=name)

    def test_settings_reach_the_adapter(self) -> None:
        api = Telegram("t")
        self.addCleanup(api.close)
        model = StubModel()
        self.addCleanup(model.close)
        plugin = Plugin(
            "telegram",
            grants=(api.grant,),
            settings={"api_root": api.url, "reply_to": "false"},
            secrets={"bot_token": "env:T"},
        )
        self.serve(
            plugin,
            agent=model.provider_config("openai"),
            more='[channels.telegram]\nverify = "none"\n' + OPEN_LOOPBACK,
            env={"T": "t"},
        )
        self.assertEqual(post(self.server, "telegram", update(1)).status, 202)
        (sent,) = api.wait_for(1)
        self.assertNotIn("reply_parameters", sent.json)


if __name__ == "__main__":
    unittest.main()
