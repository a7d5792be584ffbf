"""Values over the bridge: both conventions of the document for every wrapper, and what a tool of either kind gets."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import unittest

from bridge_case import Pool, SharedBridgeCase
from bridge_client import (
    JSON_URL,
    WRAPPER_URL,
    Code,
    json_any,
    packed,
    packed_text,
    raw_any,
    value_of,
    wrappers,
)
from packages import load

struct_pb2 = load("google.protobuf.struct_pb2")
WRAPPERS = (
    "DoubleValue",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "UInt32Value",
    "UInt64Value",
    "BoolValue",
    "StringValue",
)
PACKED = [
    (wrappers.DoubleValue(value=0.7), 0.7),
    (wrappers.DoubleValue(value=-1e300), -1e300),
    (wrappers.DoubleValue(value=3), 3),
    (wrappers.FloatValue(value=0.5), 0.5),
    (wrappers.Int32Value(value=5), 5),
    (wrappers.Int32Value(value=-(2**31)), -(2**31)),
    (wrappers.Int64Value(value=2**53 + 1), 2**53 + 1),
    (wrappers.Int64Value(value=-(2**63)), -(2**63)),
    (wrappers.UInt32Value(value=2**32 - 1), 2**32 - 1),
    (wrappers.UInt64Value(value=2**64 - 1), 2**64 - 1),
    (wrappers.BoolValue(value=True), True),
    (wrappers.StringValue(value="text"), "text"),
    (wrappers.StringValue(value='ü☃ " \\ \n'), 'ü☃ " \\ \n'),
    # Numbers and words inside of a text stay text.
    (wrappers.StringValue(value="5"), "5"),
    (wrappers.StringValue(value="true"), "true"),
    (wrappers.StringValue(value="null"), "null"),
    (wrappers.StringValue(value='"quoted"'), '"quoted"'),
    (wrappers.StringValue(value="{not json"), "{not json"),
]
# Empty messages have no bytes at all.
DEFAULTS = [
    (wrappers.DoubleValue(), 0),
    (wrappers.FloatValue(), 0),
    (wrappers.Int32Value(), 0),
    (wrappers.Int64Value(), 0),
    (wrappers.UInt32Value(), 0),
    (wrappers.UInt64Value(), 0),
    (wrappers.BoolValue(), False),
    (wrappers.StringValue(), ""),
    (struct_pb2.Struct(), {}),
    (struct_pb2.ListValue(), []),
]
PLAIN = (None, True, False, 0, 5, -7, 88, 12, 1.5, 1e300, 2**53 + 1, 2**64 - 1, "", "text", "ü☃", [], {}, [1, [None]])
URLS = (
    JSON_URL,
    "",
    "json",
    "type.googleapis.com/snakepit.map",
    "type.googleapis.com/google.protobuf.StringValue",
    "type.googleapis.com/google.protobuf.Value",
    "https://example.com/whatever.Thing",
)


class InTest(SharedBridgeCase):
    """Into a host tool that gives back exactly what it got."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all()

    def through(self, value):
        """The value as the server took it, by both ways of calling."""
        kept = []
        for call, get in (
            (self.bridge.call, self.bridge.value),
            (self.bridge.host_call, self.bridge.host_value),
        ):
            answer = call("variable_set", {"name": packed_text("x"), "value": value})
            self.assertTrue(answer.success, f"{value}: {answer.error_message}")
            kept.append(get("variable_get", {"name": "x"})["value"])
        self.assert_same(kept[0], kept[1])
        return kept[0]

    def refused(self, value) -> str:
        before = self.bridge.host_value("variable_set", {"name": "kept", "value": "kept"})["version"]
        texts = []
        for call in (self.bridge.call, self.bridge.host_call):
            answer = call("variable_set", {"name": "kept", "value": value})
            self.assertFalse(answer.success, value)
            self.assertFalse(answer.HasField("result"))
            texts.append(answer.error_message)
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(self.bridge.host_value("variable_get", {"name": "kept"})["version"], before, "it ran")
        return texts[0]

    def assert_same(self, got, expected) -> None:
        self.assertEqual(got, expected)
        if isinstance(expected, float) or isinstance(got, float):
            # A whole number may be written either way where it came as a floating one.
            self.assertNotIsInstance(got, bool)
        else:
            self.assertIs(type(got), type(expected))

    def test_packed_wrappers(self) -> None:
        for message, expected in PACKED + DEFAULTS:
            with self.subTest(f"{message.DESCRIPTOR.name} {expected}"):
                got = self.through(packed(message))
                self.assertEqual(got, expected)
                if message.DESCRIPTOR.name.startswith(("Int", "UInt")):
                    self.assertIs(type(got), int)
                if isinstance(expected, bool):
                    self.assertIs(type(got), bool)

    def test_json_bytes_under_any_type_url(self) -> None:
        for url in URLS:
            for value in PLAIN:
                with self.subTest(f"{url} {value}"):
                    self.assert_same(self.through(json_any(value, url)), value)

    def test_json_bytes_under_the_name_of_every_wrapper(self) -> None:
        """Some of these bytes could be read as messages with unknown fields, which they are not."""
        for name in (*WRAPPERS, "BytesValue", "Struct", "ListValue", "Value"):
            for value in (5, 12, 88, 1.5, True, "text", {"a": 1}, [1, 2], None):
                with self.subTest(f"{name} {value}"):
                    self.assert_same(self.through(json_any(value, WRAPPER_URL + name)), value)

    def test_packed_structures(self) -> None:
        struct = struct_pb2.Struct()
        struct.update({"a": 1, "b": [True, None, "x"], "c": {"d": 1.5}})
        self.assertEqual(self.through(packed(struct)), {"a": 1, "b": [True, None, "x"], "c": {"d": 1.5}})
        items = struct_pb2.ListValue()
        items.extend([1, "two", None, [3.5]])
        self.assertEqual(self.through(packed(items)), [1, "two", None, [3.5]])
        for value, expected in (
            (struct_pb2.Value(null_value=0), None),
            (struct_pb2.Value(number_value=5), 5),
            (struct_pb2.Value(string_value="5"), "5"),
            (struct_pb2.Value(bool_value=False), False),
            (struct_pb2.Value(struct_value=struct), {"a": 1, "b": [True, None, "x"], "c": {"d": 1.5}}),
            (struct_pb2.Value(list_value=items), [1, "two", None, [3.5]]),
        ):
            with self.subTest(expected):
                got = self.through(packed(value))
                self.assertEqual(got, expected)
                self.assertEqual(type(got) is bool, type(expected) is bool)

    def test_a_packed_text_that_holds_json_is_that_value(self) -> None:
        """The document's way for lists and dicts."""
        for value in ({"choices": ["A", "B"], "weights": [0.3, 0.7]}, [1, 2**60, None], {}, [], [[]]):
            with self.subTest(value):
                self.assert_same(self.through(packed_text(json.dumps(value))), value)

    def test_unless_the_tool_takes_a_text(self) -> None:
        for text in ('{"a": 1}', "[1, 2]", "[]"):
            with self.subTest(text):
                self.bridge.host_value("remember", {"key": packed_text("k"), "value": packed_text(text)})
                self.assertIn(json.dumps(text)[1:-1], json.dumps(self.bridge.host_value("recall", {"key": "k"})))

    def test_bytes_that_are_both_a_packed_text_and_json_are_the_text(self) -> None:
        """A length that is white space in JSON: tab, newline, return, blank."""
        for length in (9, 10, 13, 32):
            digits = "1" * length
            value = packed_text(digits)
            self.assertEqual(json.loads(value.value), int(digits), "it is JSON too")
            self.assertEqual(self.through(value), digits)
            quoted = json.dumps("q" * (length - 2))
            self.assertEqual(self.through(packed_text(quoted)), quoted)
            self.assertEqual(self.through(packed_text("[" + " " * (length - 2) + "]")), [])

    def test_raw_json_under_a_text_s_name(self) -> None:
        url = WRAPPER_URL + "StringValue"
        for data, expected in (
            (b'"text"', "text"),
            (b"\n 5", 5),
            (b'\n{"a": 1}', {"a": 1}),
            (b" 5 ", 5),
            (b"\n\n\n[]", []),
        ):
            with self.subTest(data):
                self.assert_same(self.through(raw_any(data, url)), expected)

    def test_what_is_neither_is_refused_and_nothing_runs(self) -> None:
        for value in (
            raw_any(b"{oops"),
            raw_any(b""),
            raw_any(b"NaN"),
            raw_any(b"Infinity"),
            raw_any(b"'single'"),
            raw_any(b"\xff\xfe"),
            raw_any(b'"\xff"'),
            raw_any(b"5 5"),
            raw_any(b"", "https://example.com/whatever.Thing"),
            raw_any(b"\x08", WRAPPER_URL + "Int32Value"),
            raw_any(b"\x0a\x05abc", WRAPPER_URL + "StringValue"),
            raw_any(b"\x0a\x02\xff\xfe", WRAPPER_URL + "StringValue"),
            raw_any(b"\x12\x00", "type.googleapis.com/google.protobuf.Duration"),
            raw_any(b"[" * 100_000),
            raw_any(b"[" * 100_000 + b"]" * 100_000),
            raw_any(b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
        ):
            with self.subTest(f"{value.type_url} {value.value[:20]}"):
                text = self.refused(value)
                self.assertTrue(text.startswith("Invalid parameter value: "), text[:500])
                self.assertLess(len(text), 1000)

    def test_what_json_cannot_say_is_refused_or_said_as_protobuf_says_it(self) -> None:
        for number, name in ((math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")):
            for value in (packed(wrappers.DoubleValue(value=number)), packed(struct_pb2.Value(number_value=number))):
                with self.subTest(value):
                    answer = self.bridge.call("variable_set", {"name": "x", "value": value})
                    if answer.success:
                        self.assertEqual(self.bridge.value("variable_get", {"name": "x"})["value"], name)
                    else:
                        self.assertTrue(answer.error_message.startswith("Invalid parameter value: "))

    def test_the_bad_one_is_named(self) -> None:
        answer = self.bridge.call("variable_set", {"name": "x", "value": 1, "colour": raw_any(b"{")})
        self.assertFalse(answer.success)
        self.assertTrue(answer.error_message.startswith("Invalid parameter colour: "), answer.error_message)

    def test_a_name_out_of_all_reason_does_no_harm(self) -> None:
        answer = self.bridge.call("variable_list", {"x" * 1_000_000: raw_any(b"{")})
        self.assertFalse(answer.success)
        self.assertLess(len(answer.error_message), 10_000)

    def test_results_are_json_and_say_so(self) -> None:
        self.bridge.host_value("variable_set", {"name": "x", "value": [2**63, None, 1.5, {"a": {}}]})
        for answer in (
            self.bridge.call("variable_get", {"name": "x"}),
            self.bridge.host_call("variable_get", {"name": "x"}),
        ):
            self.assertEqual(answer.result.type_url, JSON_URL)
            self.assertEqual(value_of(answer.result)["value"], [2**63, None, 1.5, {"a": {}}])
            self.assertIn(b"9223372036854775808", answer.result.value)
            self.assertEqual(answer.binary_result, b"")


class WorkerTest(SharedBridgeCase):
    """Into and out of an unmodified worker, which understands JSON only."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all("", Pool(cls.make_notes()))

    def seen(self, value, tool: str = "describe", name: str = "value") -> tuple[str, str]:
        shown = self.bridge.value(tool, {name: value})[name]
        return shown["type"], shown["repr"]

    def test_every_wrapper_gets_there(self) -> None:
        for message, expected in PACKED + DEFAULTS:
            with self.subTest(f"{message.DESCRIPTOR.name} {expected}"):
                kind, shown = self.seen(packed(message))
                if message.DESCRIPTOR.name in ("DoubleValue", "FloatValue"):
                    self.assertIn(kind, ("int", "float"))
                    self.assertEqual(float(shown), expected)
                else:
                    self.assertEqual((kind, shown), (type(expected).__name__, repr(expected)))

    def test_json_gets_there(self) -> None:
        for value in PLAIN:
            with self.subTest(value):
                self.assertEqual(self.seen(value), (type(value).__name__, repr(value)))

    def test_a_packed_text_that_holds_json(self) -> None:
        self.assertEqual(self.seen(packed_text('{"a": [1]}')), ("dict", "{'a': [1]}"))
        # This tool says that it takes a text, by Python's name for it.
        self.assertEqual(self.seen(packed_text('{"a": [1]}'), "text", "text"), ("str", repr('{"a": [1]}')))

    def test_packed_bytes_get_there_as_bytes_or_as_protobuf_writes_them_in_json(self) -> None:
        shown = self.seen(packed(wrappers.BytesValue(value=b"\x00\xff")))
        self.assertIn(shown, [("bytes", repr(b"\x00\xff")), ("str", repr("AP8="))])

    def test_not_a_number_is_refused_or_gets_there_but_never_changes(self) -> None:
        for number in (math.nan, math.inf, -math.inf):
            answer = self.bridge.call("describe", {"value": packed(wrappers.DoubleValue(value=number))})
            if answer.success:
                shown = value_of(answer.result)["value"]
                self.assertEqual((shown["type"], shown["repr"]), ("float", repr(number)))
            else:
                self.assertTrue(answer.error_message.startswith("Invalid parameter value: "), answer.error_message)

    def test_a_bad_one_never_gets_there(self) -> None:
        before = len(self.notes.lines("describe"))
        text = self.bridge.failure("describe", {"fine": 1, "value": raw_any(b"{oops")})
        self.assertTrue(text.startswith("Invalid parameter value: "), text)
        self.assertEqual(len(self.notes.lines("describe")), before)

    def test_any_arguments_for_a_tool_that_takes_any(self) -> None:
        shown = self.bridge.value("describe", {"a": 1, "kwargs": "mine", "b-c d": None, "ü": []})
        self.assertEqual(
            {name: one["type"] for name, one in shown.items()},
            {"a": "int", "kwargs": "str", "b-c d": "NoneType", "ü": "list"},
        )
        self.assertEqual(self.bridge.value("describe"), {})

    def test_its_own_losses_are_passed_on(self) -> None:
        for kind, expected in (
            ("none", "None"),
            ("int", 5.0),
            ("big", 2.0**53),
            ("nan", "NaN"),
            ("bytes", "b'raw'"),
            ("tuple", "(1, 2)"),
            ("true", True),
            ("list", [1, "two", None]),
        ):
            with self.subTest(kind):
                got = self.bridge.value("make", {"kind": kind})
                self.assertEqual((got, type(got)), (expected, type(expected)))

    def test_whole_numbers_inside_stay_whole(self) -> None:
        made = self.bridge.value("make", {"kind": "map"})
        self.assertEqual((made["int"], made["big"], made["null"], made["nan"]), (5, 2**53 + 1, None, None))
        self.assertIs(type(made["big"]), int)

    def test_a_result_of_16_mebibytes(self) -> None:
        self.assertEqual(self.bridge.value("make", {"kind": "string", "size": 16 << 20}), "x" * (16 << 20))

    def test_a_deep_result_does_no_harm(self) -> None:
        answer = self.bridge.outcome("make", {"kind": "nested", "size": 500})
        self.assertEqual(self.bridge.value("add", {"a": 1, "b": 2}), 3, answer)

    def test_binary_parameters_of_16_mebibytes(self) -> None:
        data = os.urandom(16 << 20)
        measured = self.bridge.value("measure", binary={"data": data}, timeout=120)
        self.assertEqual(measured, {"type": "bytes", "length": len(data), "sha256": hashlib.sha256(data).hexdigest()})

    def test_binary_parameters_take_the_place_of_others_and_may_be_empty(self) -> None:
        shown = self.bridge.value("describe", {"a": "text", "b": 1}, binary={"a": b"\x01", "c": b""})
        self.assertEqual({name: one["repr"] for name, one in shown.items()}, {"a": "b'\\x01'", "b": "1", "c": "b''"})

    def test_the_document_s_reserved_fields_are_just_passed_on(self) -> None:
        arguments = {"protocol_version": "1.0.0", "call_type": "sync", "session_id": "another"}
        shown = self.bridge.value("describe", arguments)
        self.assertEqual(
            {name: one["repr"] for name, one in shown.items()}, {name: repr(one) for name, one in arguments.items()}
        )
        self.assertEqual(self.bridge.value("about", arguments)["session"], self.bridge.session)


class PickleTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all("", Pool(cls.make_notes()))

    def test_it_is_not_forwarded(self) -> None:
        before = len(self.notes.lines("describe"))
        for metadata in (
            {"binary_format:data": "pickle"},
            {"binary_format:data": "PICKLE"},
            {"binary_format:data": " pickle "},
            {"binary_format:other": "pickle"},
        ):
            with self.subTest(metadata):
                refused = self.bridge.refused_call("describe", binary={"data": b"cos\n"}, metadata=metadata)
                self.assertEqual(refused.code, Code.INVALID_ARGUMENT)
                self.assertIn("pickle", refused.text.lower())
        refused = self.bridge.refused_stream("flood", binary={"size": b"x"}, metadata={"binary_format:size": "pickle"})
        self.assertEqual(refused.code, Code.INVALID_ARGUMENT)
        self.assertEqual(len(self.notes.lines("describe")), before)
        self.assertEqual(self.notes.lines("flood"), [])

    def test_other_formats_are(self) -> None:
        shown = self.bridge.value("about", binary={"data": b"x"}, metadata={"binary_format:data": "npy"})
        self.assertEqual(shown["metadata"]["binary_format:data"], "npy")


class AllowedPickleTest(SharedBridgeCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.serve_all("allow_pickle = true\n", Pool(cls.make_notes()))

    def test_the_worker_gets_the_object(self) -> None:
        shown = self.bridge.value(
            "describe", binary={"data": pickle.dumps({"a": (1, 2)})}, metadata={"binary_format:data": "pickle"}
        )
        self.assertEqual((shown["data"]["type"], shown["data"]["repr"]), ("dict", "{'a': (1, 2)}"))

    def test_without_the_word_it_is_bytes(self) -> None:
        data = pickle.dumps([1])
        shown = self.bridge.value("describe", binary={"data": data})
        self.assertEqual((shown["data"]["type"], shown["data"]["repr"]), ("bytes", repr(data)))


if __name__ == "__main__":
    unittest.main()
