"""The Anthropic and OpenAI dialects through the whole server, and what happens when a provider misbehaves."""

from __future__ import annotations

import json
import socket
import threading
import unittest

from gateway_client import Gateway, Turn
from patchboard_server import ServerTestCase
from stub_model import Call, Cut, Drop, Failure, Hold, Raw, Reply, Request, StreamError, StubModel, Text

KINDS = ("openai", "anthropic")
# The first provider of several is asked once more before the next, the last one three times more.
MOST_AT_THE_FIRST, MOST_AT_THE_LAST = 2, 4
# Less than the 45 s that a provider has for its answer unless the configuration says otherwise.
BEFORE_THE_USUAL_TIMEOUT = 40.0


class LastChunk(bytes):
    """The stub writes it as a chunk of no bytes, which is the end of a body; otherwise it leaves out empty ones."""

    def __bool__(self) -> bool:
        return True


def failed(turn: Turn) -> list[bool]:
    """Whether each call failed, in the order of the calls; results come as the tools finish."""
    outcomes = {one["tool_use_id"]: one["is_error"] for one in turn.data("tool_result")}
    return [outcomes[use["id"]] for use in turn.data("tool_use")]


# The body ends properly; only the API's own last words are missing.
END_OF_BODY = (Raw(LastChunk()), Cut())


class ProviderTestCase(ServerTestCase):
    def stub(self, *behaviours) -> StubModel:
        model = StubModel(*behaviours)
        self.addCleanup(model.close)
        return model

    def connect(self, config: str) -> Gateway:
        self.server = self.start_server(config=config)
        (self.server.folder / "a.txt").write_text("alpha")
        (self.server.folder / "b.txt").write_text("beta")
        gateway = Gateway(self.server)
        self.addCleanup(gateway.close)
        return gateway

    def talk(self, kind: str, *behaviours, more: str = "") -> tuple[Gateway, StubModel]:
        model = self.stub(*behaviours)
        return self.connect(model.provider_config(kind) + more), model


class OpenAiDialectTest(ProviderTestCase):
    def test_a_request_is_what_the_api_takes(self) -> None:
        gateway, model = self.talk("openai", more='system_prompt = "Be brief."\nmax_tokens = 321\n')
        gateway.chat("hi")
        (request,) = model.requests
        self.assertEqual(request.path, "/v1/chat/completions")
        self.assertEqual(request.headers["authorization"], "Bearer stub-key")
        self.assertEqual(request.headers["content-type"], "application/json")
        body = request.body
        self.assertEqual((body["model"], body["stream"]), ("stub-model", True))
        self.assertEqual(body["stream_options"], {"include_usage": True})
        self.assertEqual(body.get("max_completion_tokens", body.get("max_tokens")), 321)
        self.assertEqual([one["role"] for one in body["messages"]], ["system", "user"])
        self.assertIn("Be brief.", body["messages"][0]["content"])
        self.assertEqual(body["messages"][1], {"role": "user", "content": "hi"})
        for tool in body["tools"]:
            self.assertEqual((set(tool), tool["type"]), ({"type", "function"}, "function"))
            self.assertLessEqual({"name", "description", "parameters"}, set(tool["function"]))

    def test_tool_rounds_are_tool_calls_and_tool_messages(self) -> None:
        calls = (
            Call("read", {"path": "a.txt"}, id="c1"),
            Call("read", {"path": "absent"}, id="c2"),
            Call("ls", {}, id="c3"),
        )
        gateway, model = self.talk("openai", Reply(Text("I look"), *calls), Reply(Text("fine")))
        turn = gateway.chat("look")
        self.assertEqual(failed(turn), [False, True, False])
        user, assistant, *results = model.requests[1].messages
        self.assertEqual(user, {"role": "user", "content": "look"})
        self.assertEqual((assistant["role"], assistant["content"]), ("assistant", "I look"))
        made = assistant["tool_calls"]
        self.assertEqual([one["type"] for one in made], ["function"] * 3)
        self.assertEqual([one["function"]["name"] for one in made], ["read", "read", "ls"])
        arguments = [json.loads(one["function"]["arguments"]) for one in made]
        self.assertEqual(arguments, [{"path": "a.txt"}, {"path": "absent"}, {}])
        self.assertEqual([one["role"] for one in results], ["tool"] * 3)
        self.assertEqual([one["tool_call_id"] for one in results], [one["id"] for one in made])
        self.assertEqual(len({one["id"] for one in made}), 3)
        self.assertIn("alpha", results[0]["content"])
        self.assertTrue(all(isinstance(one["content"], str) for one in results))

    def test_the_address_may_end_with_v1_or_not(self) -> None:
        for ending in ("/v1", "/v1/", "", "/"):
            with self.subTest(ending):
                model = self.stub()
                gateway = self.connect(
                    model.provider_config("openai").replace(model.base_url, f"http://{model.address}{ending}")
                )
                self.assertEqual(gateway.chat("hi").text, "echo: hi")

    def test_a_server_that_reports_no_usage_is_metered_by_estimate(self) -> None:
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        said = {**chunk, "choices": [{"index": 0, "delta": {"content": "many words " * 20}, "finish_reason": None}]}
        end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        lines = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in (said, end)) + b"data: [DONE]\n\n"
        gateway, _ = self.talk("openai", Reply(Raw(lines), Cut()))
        turn = gateway.chat("hi")
        self.assertEqual(turn.outline, ["text", "usage", "done"])
        self.assertTrue(turn.usage[0] > 0 and turn.usage[1] > 10, turn.usage)
        (row,) = gateway.result("usage.report")["items"]
        self.assertEqual((row["calls"], row["estimated_calls"]), (1, 1))


class AnthropicDialectTest(ProviderTestCase):
    def test_a_request_is_what_the_api_takes(self) -> None:
        gateway, model = self.talk("anthropic", more='system_prompt = "Be brief."\nmax_tokens = 321\n')
        gateway.chat("My name is Ada.")
        gateway.chat("What is my name?")
        request = model.requests[1]
        self.assertEqual(request.path, "/v1/messages")
        self.assertEqual(request.headers["x-api-key"], "stub-key")
        self.assertIn("anthropic-version", request.headers)
        self.assertNotIn("authorization", request.headers)
        body = request.body
        self.assertEqual((body["model"], body["stream"], body["max_tokens"]), ("stub-model", True, 321))
        self.assertIn("Be brief.", request.system_text)
        self.assertIn("Ada", request.system_text)
        self.assertEqual([one["role"] for one in body["messages"]], ["user", "assistant", "user"])
        for tool in body["tools"]:
            self.assertLessEqual({"name", "description", "input_schema"}, set(tool))

    def test_tool_rounds_are_blocks_with_all_results_in_the_next_user_message(self) -> None:
        calls = (Call("read", {"path": "a.txt"}), Call("read", {"path": "absent"}), Call("ls", {}))
        gateway, model = self.talk("anthropic", Reply(Text("I look"), *calls), Reply(Text("fine")))
        turn = gateway.chat("look")
        self.assertEqual(failed(turn), [False, True, False])
        user, assistant, results = model.requests[1].messages
        self.assertEqual([one["role"] for one in (user, assistant, results)], ["user", "assistant", "user"])
        text, *uses = assistant["content"]
        self.assertEqual((text["type"], text["text"]), ("text", "I look"))
        self.assertEqual([one["type"] for one in uses], ["tool_use"] * 3)
        self.assertEqual([one["input"] for one in uses], [{"path": "a.txt"}, {"path": "absent"}, {}])
        blocks = results["content"]
        self.assertEqual([one["type"] for one in blocks], ["tool_result"] * 3)
        self.assertEqual([one["tool_use_id"] for one in blocks], [one["id"] for one in uses])
        self.assertEqual([bool(one.get("is_error")) for one in blocks], [False, True, False])
        self.assertIn("alpha", json.dumps(blocks[0]["content"]))


class RoundTripTest(ProviderTestCase):
    def test_several_rounds_keep_their_order(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                rounds = [
                    Reply(Text(f"step {n} "), Call("read", {"path": name})) for n, name in enumerate(("a.txt", "b.txt"))
                ]
                gateway, model = self.talk(kind, *rounds, Reply(Text("both read")))
                turn = gateway.chat("read both")
                self.assertEqual(turn.text, "step 0 step 1 both read")
                self.assertEqual(turn.events.count("usage"), 3)
                last = json.dumps(model.requests[2].messages)
                order = [last.index(part) for part in ("read both", "step 0", "alpha", "step 1", "beta")]
                self.assertEqual(order, sorted(order))

    def test_a_later_turn_still_has_the_tool_round_in_the_api_s_form(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                gateway, model = self.talk(
                    kind, Reply(Call("read", {"path": "a.txt"})), Reply(Text("read it")), Reply(Text("sure"))
                )
                gateway.chat("read a")
                gateway.chat("what did it say?")
                roles = [one["role"] for one in model.requests[2].messages]
                results = "tool" if kind == "openai" else "user"
                self.assertEqual(roles, ["user", "assistant", results, "assistant", "user"])
                self.assertIn("alpha", json.dumps(model.requests[2].messages))


class StreamBytesTest(ProviderTestCase):
    def test_characters_and_lines_may_be_split_anywhere(self) -> None:
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        text = "naïve 😀 — 山田"
        said = {**chunk, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        for newline in (b"\n", b"\r\n"):
            data = b"".join(
                b": comment" + newline + b"data: " + json.dumps(one, ensure_ascii=False).encode() + newline * 2
                for one in (said, end)
            )
            data += b"data: [DONE]" + newline * 2
            with self.subTest(newline=newline):
                gateway, _ = self.talk("openai", Reply(*[Raw(data[at : at + 1]) for at in range(len(data))], Cut()))
                turn = gateway.chat("hi")
                self.assertEqual((turn.text, turn.errors), (text, []))

    def test_a_stream_without_its_proper_ending_is_an_error(self) -> None:
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        said = {**chunk, "choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": None}]}
        openai = b"data: " + json.dumps(said).encode() + b"\n\n"
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}}
        start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        anthropic = b"".join(
            b"event: " + one["type"].encode() + b"\ndata: " + json.dumps(one).encode() + b"\n\n"
            for one in (start, delta)
        )
        for kind, data in (("openai", openai), ("anthropic", anthropic)):
            with self.subTest(kind):
                gateway, _ = self.talk(kind, Reply(Raw(data), *END_OF_BODY))
                turn = gateway.chat("hi")
                self.assertEqual(turn.text, "half")
                self.assertEqual(turn.events[-2:], ["error", "done"])

    def test_an_answer_that_is_no_stream_of_events_is_an_error(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                gateway, model = self.talk(kind)
                model.fallback = lambda request: Reply(Raw(b"<html>welcome to the proxy canary</html>"), *END_OF_BODY)
                turn = gateway.chat("hi")
                self.assertEqual(turn.events[-2:], ["error", "done"])
                self.assertNotIn("canary", str(turn.frames))

    def test_a_line_without_an_end_does_not_fill_the_memory(self) -> None:
        gateway, model = self.talk("openai")
        model.fallback = lambda request: Reply(*[Raw(b"data: " + b"x" * 1_000_000)] * 200)
        turn = gateway.chat("hi")
        self.assertEqual(turn.events[-2:], ["error", "done"])
        with open(f"/proc/{self.server.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        self.assertLess(peak, 150_000, "kB at most")


class TroubleTest(ProviderTestCase):
    def test_too_many_requests_and_server_errors_are_tried_again_before_the_first_token(self) -> None:
        for kind in KINDS:
            for trouble in (
                Failure(429, headers={"Retry-After": "0"}),
                Failure(429),
                Failure(500),
                Failure(503),
                Failure(529),
                Drop(),
            ):
                with self.subTest(kind=kind, trouble=trouble):
                    gateway, model = self.talk(kind, trouble, Reply(Text("after all")))
                    turn = gateway.chat("hi")
                    self.assertEqual((turn.text, turn.outline), ("after all", ["text", "usage", "done"]))
                    self.assertEqual(len(model.requests), 2)

    def test_what_the_provider_will_never_take_is_not_tried_again(self) -> None:
        for status in (400, 401, 403, 404, 413):
            with self.subTest(status):
                gateway, model = self.talk("openai", Failure(status))
                self.assertEqual(gateway.chat("hi").events, ["error", "done"])
                self.assertEqual(len(model.requests), 1)

    def test_waiting_as_long_as_the_provider_wants_ends_after_8_s(self) -> None:
        gateway, model = self.talk("openai", *[Failure(429, headers={"Retry-After": "3600"})] * 20)
        self.assertEqual(gateway.chat("hi").events, ["error", "done"])
        self.assertEqual(len(model.requests), 1, "a wait that is too long is not begun")

    def test_a_silent_stream_ends_at_the_idle_timeout(self) -> None:
        never = threading.Event()
        self.addCleanup(never.set)
        for kind in KINDS:
            with self.subTest(kind):
                model = self.stub(Reply(Text("so far"), Hold(never)))
                config = model.provider_config(kind).replace("\n\n[agents", '\nidle_timeout = "300ms"\n\n[agents')
                turn = self.connect(config).chat("hi")
                self.assertEqual([event for event in turn.events if event != "usage"], ["text", "error", "done"])

    def test_a_provider_that_never_answers_ends_at_the_response_timeout(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            config = (
                f'[providers.main]\nkind = "openai"\nbase_url = "http://127.0.0.1:{deaf.getsockname()[1]}/v1"\n'
                'response_timeout = "300ms"\nmodel = "m"\n'
            )
            gateway = self.connect(config)
            turn = gateway.turn(gateway.start("hi"), BEFORE_THE_USUAL_TIMEOUT)
            self.assertEqual(turn.events, ["error", "done"])


class FallbackTest(ProviderTestCase):
    def pair(self, first_kind: str, first: StubModel, second_kind: str, second: StubModel) -> Gateway:
        config = second.provider_config(second_kind, name="second").split("[agents", 1)[0] + 'model = "second-model"\n'
        return self.connect(
            config + first.provider_config(first_kind, name="first", model="first-model") + 'fallback = ["second"]\n'
        )

    def broken(self) -> StubModel:
        model = self.stub()
        model.fallback = lambda request: Failure(500, "upstream-canary")
        return model

    def test_the_second_provider_answers_in_its_own_dialect_and_with_its_own_model(self) -> None:
        for first_kind, second_kind in (("openai", "anthropic"), ("anthropic", "openai")):
            with self.subTest(first_kind):
                first, second = self.broken(), self.stub()
                gateway = self.pair(first_kind, first, second_kind, second)
                turn = gateway.chat("hi")
                self.assertLessEqual(len(first.requests), MOST_AT_THE_FIRST)
                self.assertEqual((turn.text, turn.errors), ("echo: hi", []))
                self.assertEqual(
                    (second.requests[0].api, second.requests[0].body["model"]), (second_kind, "second-model")
                )
                rows = gateway.result("usage.report", group_by="provider")["items"]
                self.assertIn(("second", 10), [(row["key"], row["input_tokens"]) for row in rows])

    def test_after_the_first_token_nobody_else_is_asked(self) -> None:
        second = self.stub()
        gateway = self.pair("openai", self.stub(Reply(Text("half"), StreamError("canary"))), "openai", second)
        turn = gateway.chat("hi")
        self.assertEqual((turn.text, turn.events[-2:]), ("half", ["error", "done"]))
        self.assertEqual(second.requests, [])

    def test_when_all_fail_it_is_one_error_within_8_s(self) -> None:
        first, second = self.broken(), self.broken()
        gateway = self.pair("openai", first, "openai", second)
        turn = gateway.chat("hi")
        self.assertLessEqual(len(first.requests), MOST_AT_THE_FIRST)
        self.assertLessEqual(len(second.requests), MOST_AT_THE_LAST)
        self.assertEqual(turn.events, ["error", "done"])
        self.assertNotIn("canary", turn.errors[0])

    def test_a_tool_round_can_go_on_with_the_other_provider(self) -> None:
        # The first provider asks for a tool and then breaks down.
        first = self.stub(Reply(Text("I look"), Call("read", {"path": "a.txt"})))
        first.fallback = lambda request: Failure(500)
        second = self.stub(Reply(Text("it says alpha")))
        turn = self.pair("openai", first, "anthropic", second).chat("look")
        self.assertEqual(turn.text, "I lookit says alpha")
        request: Request = second.requests[0]
        self.assertEqual([one["role"] for one in request.messages], ["user", "assistant", "user"])
        self.assertEqual(request.messages[2]["content"][0]["type"], "tool_result")


if __name__ == "__main__":
    unittest.main()
