"""Streaming tools."""

from __future__ import annotations

import json
from typing import Any

import grpc
import numpy
import pytest
from calling import error, execute, result, stream
from running import Worker, eventually

from patchboard import _binary, _calls


@pytest.mark.parametrize("tool", ["count", "count_async"])
def test_pieces_in_order_and_an_end(tools: Worker, tool: str) -> None:
    pieces = list(stream(tools, tool, {"to": 300}))
    assert [piece.chunk_id for piece in pieces] == [f"{tool}-{number}" for number in range(1, 302)]
    assert [json.loads(piece.data) for piece in pieces[:-1]] == [{"n": number} for number in range(300)]
    assert all(piece.metadata["content_type"] == "application/json" for piece in pieces[:-1])
    assert (pieces[-1].is_final, pieces[-1].data) == (True, b"")
    assert not any(piece.is_final for piece in pieces[:-1])


def test_what_pieces_can_be(tools: Worker) -> None:
    nothing, text, data, array, progress, last = stream(tools, "mixed")
    assert (nothing.data, dict(nothing.metadata)) == (b"", {})
    assert (text.data, dict(text.metadata)) == (b"text", {"content_type": "text/plain"})
    assert (data.data, dict(data.metadata)) == (b"\x00\xff", {"content_type": "application/octet-stream"})
    assert numpy.array_equal(_binary.npy_to_array(array.data), [0, 1, 2])
    assert (progress.data, dict(progress.metadata)) == (b"", {"progress": "0.5", "message": "half"})
    assert (json.loads(last.data), last.is_final, last.metadata["mood"]) == ({"last": True}, True, "good")


def broken(pieces: Any) -> tuple[list[Any], grpc.StatusCode, dict[str, Any]]:
    got = []
    with pytest.raises(grpc.RpcError) as caught:
        for piece in pieces:
            got.append(piece)
    return got, caught.value.code(), json.loads(caught.value.details())


def test_errors(tools: Worker) -> None:
    got, code, described = broken(stream(tools, "breaks"))
    assert (len(got), code) == (1, grpc.StatusCode.INTERNAL)
    assert (described["type"], described["message"]) == ("RuntimeError", "half way")
    assert described["traceback"].endswith("RuntimeError: half way\n")
    _, code, described = broken(stream(tools, "count", {"to": "x"}))
    assert (code, described["type"]) == (grpc.StatusCode.INVALID_ARGUMENT, "InvalidArgument")
    with pytest.raises(grpc.RpcError) as caught:
        list(stream(tools, "nothing_here"))
    assert (caught.value.code(), caught.value.details()) == (
        grpc.StatusCode.NOT_FOUND,
        "Tool nothing_here not found for session s1",
    )


@pytest.mark.parametrize("tool", ["count", "count_async"])
def test_a_piece_that_cannot_travel_ends_the_stream(tools: Worker, tool: str) -> None:
    got, code, described = broken(stream(tools, tool, {"to": 5, "bad_at": 2}))
    assert (len(got), code) == (2, grpc.StatusCode.INTERNAL)
    assert described["type"] == "SerializationError" and "_thread.lock" in described["message"]


def test_a_long_error_still_fits_a_status(tools: Worker) -> None:
    got, code, described = broken(stream(tools, "fail", {"kind": "long"}))
    assert (got, code, described["type"]) == ([], grpc.StatusCode.INTERNAL, "ValueError")
    assert described["message"].startswith("ää") and len(described["message"]) <= 500


@pytest.mark.parametrize("tool", ["count", "count_async"])
def test_leaving_closes_the_generator(tools: Worker, tool: str) -> None:
    before = result(tools, "news").count(f"{tool} ended")
    pieces = stream(tools, tool, {"to": 10**9})
    assert json.loads(next(pieces).data) == {"n": 0}
    pieces.cancel()
    eventually(lambda: result(tools, "news").count(f"{tool} ended") > before)


def test_a_slow_reader_slows_the_generator(tools: Worker) -> None:
    pieces = stream(tools, "heavy", {"pieces": 2000})
    assert len(next(pieces).data) == 200_000
    eventually(lambda: result(tools, "made_so_far") > _calls.AHEAD)
    # In the time these take, it could have made them all. Beyond what the worker keeps, gRPC has its own buffers, whose
    # size it chooses itself: some dozens of pieces.
    for _ in range(200):
        result(tools, "echo", {"value": 1})
    assert result(tools, "made_so_far") < 1000
    assert sum(1 for _ in pieces) == 2000
    assert result(tools, "made_so_far") == 2000


def test_a_time_limit(tools: Worker) -> None:
    pieces = stream(tools, "too_slow_stream")
    assert next(pieces).data == b"1"
    with pytest.raises(grpc.RpcError) as caught:
        next(pieces)
    assert (caught.value.code(), caught.value.details()) == (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        "the tool `too_slow_stream` took longer than 0.05 s",
    )


def test_each_kind_through_the_other_door(tools: Worker) -> None:
    only, end = stream(tools, "echo_inline", {"text": "x"})
    assert (only.data, only.is_final, end.data, end.is_final) == (b"x", False, b"", True)
    assert result(tools, "count", {"to": 3}) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert result(tools, "count_async", {"to": 2}) == [{"n": 0}, {"n": 1}]
    assert error(tools, "breaks")["message"] == "half way"
    assert "call it as a streaming tool" in error(tools, "count", {"to": 10_001})["message"]
    assert execute(tools, "echo_inline", {"text": "still here"}).success
