"""The stub model itself: what the drivers rely on must hold before they say anything about the server."""

from __future__ import annotations

import http.client
import json
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from stub_model import Call, Cut, Drop, Failure, Hold, Raw, Reply, StreamError, StubModel, Text

TIMEOUT = 60
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


class Client:
    def __init__(self, model: StubModel) -> None:
        self.connection = http.client.HTTPConnection(model.address, timeout=TIMEOUT)

    def post(self, api: str, text: str = "hi", **body) -> http.client.HTTPResponse:
        message = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True, **body}
        self.connection.request("POST", PATHS[api], json.dumps(message), {"Content-Type": "application/json"})
        return self.connection.getresponse()


def events(body: bytes) -> list[dict]:
    lines = [line[len("data: ") :] for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


class StubModelTest(unittest.TestCase):
    def setUp(self) -> None:
        self.model = StubModel()
        self.addCleanup(self.model.close)
        self.client = Client(self.model)
        self.addCleanup(self.client.connection.close)

    def test_openai_streams_text_and_usage(self) -> None:
        self.model.script(Reply(Text("Hel"), Text("lo"), input_tokens=7, output_tokens=2))
        body = self.client.post("openai", stream_options={"include_usage": True}).read()
        self.assertTrue(body.endswith(b"data: [DONE]\n\n"))
        seen = events(body)
        deltas = [choice["delta"].get("content", "") for one in seen for choice in one["choices"]]
        self.assertEqual("".join(deltas), "Hello")
        self.assertEqual(seen[-2]["choices"][0]["finish_reason"], "stop")
        self.assertEqual(seen[-1]["usage"], {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9})

    def test_openai_sends_usage_only_when_asked(self) -> None:
        self.model.script(Reply(Text("x")))
        self.assertNotIn(b"usage", self.client.post("openai").read())

    def test_openai_streams_parallel_calls_in_pieces(self) -> None:
        self.model.script(Reply(Call("ls", {"path": "."}, id="a"), Call("read", "{broken")))
        seen = events(self.client.post("openai").read())
        arguments: dict[int, str] = {}
        heads = []
        for call in (call for one in seen for call in one["choices"][0]["delta"].get("tool_calls", [])):
            arguments[call["index"]] = arguments.get(call["index"], "") + call["function"]["arguments"]
            if "id" in call:
                heads.append((call["index"], call["id"], call["function"]["name"]))
        self.assertEqual(heads, [(0, "a", "ls"), (1, "call_1", "read")])
        self.assertEqual(arguments, {0: '{"path": "."}', 1: "{broken"})
        self.assertEqual(seen[-1]["choices"][0]["finish_reason"], "tool_calls")

    def test_anthropic_streams_blocks_in_order(self) -> None:
        self.model.script(Reply(Text("I "), Text("look"), Call("ls", {"path": "."}), input_tokens=7, output_tokens=2))
        seen = events(self.client.post("anthropic").read())
        self.assertEqual(
            [one["type"] for one in seen],
            ["message_start", "ping"]
            + ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
            + ["content_block_start"] + ["content_block_delta"] * 3 + ["content_block_stop"]
            + ["message_delta", "message_stop"],
        )
        self.assertEqual(seen[0]["message"]["usage"]["input_tokens"], 7)
        self.assertEqual([one["index"] for one in seen if "index" in one], [0] * 4 + [1] * 5)
        partial = "".join(one["delta"].get("partial_json", "") for one in seen if one["type"] == "content_block_delta")
        self.assertEqual(json.loads(partial), {"path": "."})
        self.assertEqual((seen[-2]["delta"]["stop_reason"], seen[-2]["usage"]), ("tool_use", {"output_tokens": 2}))

    def test_whole_answers(self) -> None:
        self.model.script(Reply(Text("a"), Text("b"), Call("ls", {"x": 1})), Reply(Text("c"), Call("ls", {"x": 1})))
        openai = json.loads(self.client.post("openai", stream=False).read())
        message = openai["choices"][0]["message"]
        self.assertEqual(message["content"], "ab")
        self.assertEqual(message["tool_calls"][0]["function"], {"name": "ls", "arguments": '{"x": 1}'})
        anthropic = json.loads(self.client.post("anthropic", stream=False).read())
        self.assertEqual([part["type"] for part in anthropic["content"]], ["text", "tool_use"])
        self.assertEqual(anthropic["content"][1]["input"], {"x": 1})

    def test_failures_have_the_api_s_form_and_keep_the_connection(self) -> None:
        self.model.script(Failure(429, "slow down", {"Retry-After": "1"}), Failure(529))
        response = self.client.post("openai")
        self.assertEqual((response.status, response.headers["Retry-After"]), (429, "1"))
        self.assertEqual(json.loads(response.read())["error"]["message"], "slow down")
        response = self.client.post("anthropic")
        self.assertEqual((response.status, json.loads(response.read())["type"]), (529, "error"))
        self.assertEqual(self.client.post("openai").status, 200)

    def test_errors_in_the_stream(self) -> None:
        self.model.script(Reply(Text("a"), StreamError("too busy")), Reply(Text("a"), StreamError("too busy")))
        self.assertEqual(events(self.client.post("openai").read())[-1]["error"]["message"], "too busy")
        last = events(self.client.post("anthropic").read())[-1]
        self.assertEqual((last["type"], last["error"]["message"]), ("error", "too busy"))

    def test_a_cut_stream_breaks_off(self) -> None:
        self.model.script(Reply(Text("a"), Cut()))
        response = self.client.post("openai")
        with self.assertRaises(http.client.IncompleteRead) as caught:
            response.read()
        self.assertEqual(events(caught.exception.partial)[-1]["choices"][0]["delta"], {"content": "a"})

    def test_a_dropped_request_gets_no_answer(self) -> None:
        self.model.script(Drop())
        with self.assertRaises((http.client.RemoteDisconnected, ConnectionResetError)):
            self.client.post("openai")

    def test_raw_bytes_go_out_as_they_are(self) -> None:
        self.model.script(Reply(Raw(b": comment\n\nnot json\n\n")))
        self.assertIn(b": comment\n\nnot json\n\n", self.client.post("openai").read())

    def test_a_hold_waits_for_its_release(self) -> None:
        released = threading.Event()
        self.model.script(Reply(Text("before"), Hold(released), Text("after")))
        response = self.client.post("openai")
        seen = b""
        while b"before" not in seen:
            seen += response.readline()
        self.assertFalse(self.model.requests[0].finished.is_set())
        released.set()
        self.assertIn(b"after", response.read())
        self.assertTrue(self.model.requests[0].finished.wait(TIMEOUT))
        self.assertFalse(self.model.requests[0].gone.is_set())

    def test_a_client_that_hangs_up_during_a_hold_is_noticed(self) -> None:
        self.model.script(Reply(Text("before"), Hold(threading.Event())))
        response = self.client.post("openai")
        response.readline()
        response.close()
        self.client.connection.close()
        self.assertTrue(self.model.requests[0].gone.wait(TIMEOUT))

    def test_closing_breaks_off_what_is_held(self) -> None:
        self.model.script(Reply(Text("before"), Hold(threading.Event())))
        response = self.client.post("openai")
        self.model.close()
        with self.assertRaises((http.client.IncompleteRead, ConnectionResetError)):
            response.read()
        with self.assertRaises(ConnectionRefusedError):
            Client(self.model).post("openai")

    def test_requests_are_recorded(self) -> None:
        tools = [{"type": "function", "function": {"name": "ls"}}]
        messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
        self.client.post("openai", messages=messages, tools=tools).read()
        self.client.post("anthropic", system="Be brief.", tools=[{"name": "read"}]).read()
        first, second = self.model.wait_for_requests(2)
        self.assertEqual((first.api, first.system_text, first.last_user_text, first.tool_names), ("openai", "Be kind.", "hi", ["ls"]))
        self.assertEqual((second.api, second.system_text, second.tool_names), ("anthropic", "Be brief.", ["read"]))
        self.assertEqual(first.headers["content-type"], "application/json")
        with self.assertRaisesRegex(AssertionError, "2 of 3 requests"):
            self.model.wait_for_requests(3, timeout=0.05)

    def test_many_requests_at_once(self) -> None:
        def ask(number: int) -> str:
            client = Client(self.model)
            try:
                seen = events(client.post("openai", text=f"number {number}").read())
                return "".join(one["choices"][0]["delta"].get("content", "") for one in seen)
            finally:
                client.connection.close()

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, range(64)))
        self.assertEqual(answers, [f"echo: number {number}" for number in range(64)])
        self.assertEqual(len(self.model.requests), 64)

    def test_bad_requests_are_answered(self) -> None:
        connection = self.client.connection
        for path, body, status in [("/v1/other", "{}", 404), (PATHS["openai"], "not json", 400)]:
            connection.request("POST", path, body)
            response = connection.getresponse()
            self.assertEqual((response.status, "error" in json.loads(response.read())), (status, True))
        connection.request("GET", "/v1/models")
        self.assertEqual(json.loads(connection.getresponse().read())["data"][0]["id"], "stub-model")


if __name__ == "__main__":
    unittest.main()
