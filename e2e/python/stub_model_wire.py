"""How the two APIs write what a stub model says: bytes of server-sent events, and whole bodies."""

from __future__ import annotations

import json
from typing import Iterator


def plain_text(content: object) -> str:
    """The text of a message's content, given as a string or as a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return ""


def pieces(text: str) -> list[str]:
    """The text in up to three parts, so that a reader must put them together."""
    size = max(1, -(-len(text) // 3))
    return [text[at : at + size] for at in range(0, len(text), size)]


class OpenAiStream:
    def __init__(self, request: dict, reply) -> None:
        self.request = request
        self.reply = reply
        self.calls = 0

    def opening(self) -> bytes:
        return self.chunk({"role": "assistant", "content": ""})

    def text(self, text: str) -> bytes:
        return self.chunk({"content": text})

    def call(self, call_id: str, name: str, arguments: str) -> Iterator[bytes]:
        index = self.calls
        self.calls += 1
        head = {"index": index, "id": call_id or f"call_{index}", "type": "function"}
        yield self.chunk({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
        for piece in pieces(arguments):
            yield self.chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def error(self, kind: str, message: str) -> bytes:
        return data({"error": {"message": message, "type": kind, "code": None}})

    def ending(self) -> bytes:
        last = self.chunk({}, self.reply.finish_reason)
        if (self.request.get("stream_options") or {}).get("include_usage"):
            last += data({**self.head(), "choices": [], "usage": openai_usage(self.reply)})
        return last + b"data: [DONE]\n\n"

    def chunk(self, delta: dict, finish_reason: str | None = None) -> bytes:
        return data({**self.head(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    def head(self) -> dict:
        model = self.request.get("model", "stub-model")
        return {"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 1, "model": model}


class AnthropicStream:
    def __init__(self, request: dict, reply) -> None:
        self.request = request
        self.reply = reply
        self.blocks = 0
        self.in_text = False

    def opening(self) -> bytes:
        message = {
            "id": "msg_stub",
            "type": "message",
            "role": "assistant",
            "model": self.request.get("model", "stub-model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self.reply.input_tokens, "output_tokens": 1},
        }
        return event({"type": "message_start", "message": message}) + event({"type": "ping"})

    def text(self, text: str) -> bytes:
        start = b""
        if not self.in_text:
            start = self.block_start({"type": "text", "text": ""})
            self.in_text = True
        return start + self.delta({"type": "text_delta", "text": text})

    def call(self, call_id: str, name: str, arguments: str) -> Iterator[bytes]:
        yield self.end_text()
        block = {"type": "tool_use", "id": call_id or f"toolu_{self.blocks}", "name": name, "input": {}}
        yield self.block_start(block)
        for piece in pieces(arguments):
            yield self.delta({"type": "input_json_delta", "partial_json": piece})
        yield self.block_stop()

    def error(self, kind: str, message: str) -> bytes:
        return event({"type": "error", "error": {"type": kind, "message": message}})

    def ending(self) -> bytes:
        delta = {"stop_reason": anthropic_stop(self.reply), "stop_sequence": None}
        usage = {"output_tokens": self.reply.output_tokens}
        last = event({"type": "message_delta", "delta": delta, "usage": usage})
        return self.end_text() + last + event({"type": "message_stop"})

    def end_text(self) -> bytes:
        if not self.in_text:
            return b""
        self.in_text = False
        return self.block_stop()

    def block_start(self, block: dict) -> bytes:
        return event({"type": "content_block_start", "index": self.blocks, "content_block": block})

    def delta(self, delta: dict) -> bytes:
        return event({"type": "content_block_delta", "index": self.blocks, "delta": delta})

    def block_stop(self) -> bytes:
        stop = event({"type": "content_block_stop", "index": self.blocks})
        self.blocks += 1
        return stop


def openai_whole(request: dict, reply, text: str, calls: list) -> dict:
    message: dict = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_{at}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_text},
            }
            for at, call in enumerate(calls)
        ]
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": 1,
        "model": request.get("model", "stub-model"),
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": openai_usage(reply),
    }


def anthropic_whole(request: dict, reply, text: str, calls: list) -> dict:
    content: list[dict] = [{"type": "text", "text": text}] if text else []
    for at, call in enumerate(calls):
        arguments = json.loads(call.arguments_text)
        content.append({"type": "tool_use", "id": call.id or f"toolu_{at}", "name": call.name, "input": arguments})
    return {
        "id": "msg_stub",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "stub-model"),
        "content": content,
        "stop_reason": anthropic_stop(reply),
        "stop_sequence": None,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens},
    }


def openai_usage(reply) -> dict:
    total = reply.input_tokens + reply.output_tokens
    return {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens, "total_tokens": total}


def anthropic_stop(reply) -> str:
    return {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}[reply.finish_reason]


def error_body(api: str, status: int, message: str) -> dict:
    known = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = known.get(status, "api_error")
    if api == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def data(value: dict) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def event(value: dict) -> bytes:
    return b"event: " + value["type"].encode() + b"\n" + data(value)


STREAMS = {"openai": OpenAiStream, "anthropic": AnthropicStream}
WHOLE = {"openai": openai_whole, "anthropic": anthropic_whole}
