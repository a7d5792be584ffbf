"""A reader of the runs protocol with closed types: an unknown type of frame or event, a field nobody named, a field
that is missing and a null where none is allowed are errors, as they are for clients whose types were made by a compiler.

Written from the protocol's document, not from the server.
"""

from __future__ import annotations

from typing import Callable

Check = Callable[[object, str], None]


def of(kind: type) -> Check:
    def check(value: object, where: str) -> None:
        assert type(value) is kind, f"{where}: {value!r} is no {kind.__name__}"

    return check


TEXT, FLAG, OBJECT, ANYTHING = of(str), of(bool), of(dict), lambda value, where: None


def whole(value: object, where: str) -> None:
    assert type(value) is int and value >= 0, f"{where}: {value!r} is no whole number"


def number(value: object, where: str) -> None:
    assert type(value) in (int, float), f"{where}: {value!r} is no number"


def nullable(check: Check) -> Check:
    return lambda value, where: None if value is None else check(value, where)


def optional(check: Check) -> tuple[Check]:
    """May be left out, and is not null."""
    return (check,)


def several(check: Check) -> Check:
    def check_all(value: object, where: str) -> None:
        of(list)(value, where)
        for at, one in enumerate(value):
            check(one, f"{where}[{at}]")

    return check_all


def one_of(*allowed: object) -> Check:
    def check(value: object, where: str) -> None:
        assert value in allowed, f"{where}: {value!r} is none of {allowed}"

    return check


def closed(**fields: Check | tuple[Check]) -> Check:
    def check(value: object, where: str) -> None:
        of(dict)(value, where)
        strange = set(value) - set(fields)
        assert not strange, f"{where}: nobody named {sorted(strange)}"
        for name, field in fields.items():
            if isinstance(field, tuple):
                if name in value:
                    field[0](value[name], f"{where}.{name}")
            else:
                assert name in value, f"{where}: `{name}` is missing"
                field(value[name], f"{where}.{name}")

    return check


def result(value: object, where: str) -> None:
    if value != "Ok":
        closed(Err=TEXT)(value, where)


def variants(kinds: dict[str, dict], **common: Check) -> Check:
    def check(value: object, where: str) -> None:
        of(dict)(value, where)
        kind = value.get("type")
        assert kind in kinds, f"{where}: unknown variant {kind!r}"
        closed(type=TEXT, **common, **kinds[kind])(value, f"{where} {kind}")

    return check


CALL = {"call_id": TEXT, "name": TEXT}
COUNTS = {"prompt_tokens": whole, "completion_tokens": whole, "total_tokens": whole}
EVENT = variants(
    {
        "node_enter": {"id": TEXT},
        "node_exit": {"id": TEXT, "result": result},
        "message_chunk": {"content": TEXT, "id": TEXT},
        "usage": COUNTS,
        "values": {"state": OBJECT},
        "updates": {"id": TEXT, "state": OBJECT},
        "custom": {"value": ANYTHING},
        "checkpoint": {
            "checkpoint_id": TEXT,
            "timestamp": TEXT,
            "step": whole,
            "state": OBJECT,
            "thread_id": nullable(TEXT),
            "checkpoint_ns": nullable(TEXT),
        },
        "tot_expand": {"candidates": several(TEXT)},
        "tot_evaluate": {"chosen": whole, "scores": several(number)},
        "tot_backtrack": {"reason": TEXT, "to_depth": whole},
        "got_plan": {"node_count": whole, "edge_count": whole, "node_ids": several(TEXT)},
        "got_node_start": {"id": TEXT},
        "got_node_complete": {"id": TEXT, "result_summary": TEXT},
        "got_node_failed": {"id": TEXT, "error": TEXT},
        "tool_call_chunk": {**CALL, "arguments_delta": TEXT},
        "tool_call": {**CALL, "arguments": ANYTHING},
        "tool_start": CALL,
        "tool_output": {**CALL, "content": TEXT},
        "tool_end": {**CALL, "result": TEXT, "is_error": FLAG},
        "tool_approval": {**CALL, "arguments": ANYTHING},
    },
    session_id=TEXT,
    node_id=TEXT,
    event_id=whole,
)
TOOL = closed(name=TEXT, description=optional(TEXT), input_schema=OBJECT)
WORKSPACE = closed(id=TEXT, name=TEXT, created_at_ms=whole)
FRAME = variants(
    {
        "run_stream_event": {"id": TEXT, "event": EVENT},
        "run_end": {
            "id": TEXT,
            "reply": TEXT,
            "usage": optional(closed(**COUNTS)),
            "total_usage": optional(closed(**COUNTS)),
            "session_id": TEXT,
            "node_id": TEXT,
            "event_id": whole,
        },
        "error": {"id": optional(TEXT), "error": TEXT},
        "pong": {"id": TEXT},
        "tools_list": {"id": TEXT, "tools": several(TOOL)},
        "tool_show": {"id": TEXT, "tool": optional(TOOL), "tool_yaml": optional(TEXT)},
        "user_messages": {
            "id": TEXT,
            "thread_id": TEXT,
            "messages": several(closed(role=one_of("user", "assistant"), content=TEXT, seq=whole)),
            "has_more": FLAG,
        },
        "agent_list": {
            "id": TEXT,
            "agents": several(
                closed(name=TEXT, description=optional(TEXT), source=one_of("builtin", "project", "user"))
            ),
        },
        "list_models": {
            "id": TEXT,
            "models": several(
                closed(id=TEXT, name=TEXT, provider=TEXT, family=optional(TEXT), capabilities=optional(several(TEXT)))
            ),
        },
        "set_model": {"id": TEXT, "success": FLAG, "error": optional(TEXT)},
        "cancel_run": {"id": TEXT, "run_id": TEXT},
        "workspace_list": {"id": TEXT, "workspaces": several(WORKSPACE)},
        "workspace_create": {"id": TEXT, "workspace_id": TEXT, "workspace": WORKSPACE},
        "workspace_thread_list": {
            "id": TEXT,
            "workspace_id": TEXT,
            "threads": several(closed(thread_id=TEXT, created_at_ms=whole)),
        },
        "workspace_thread_add": {"id": TEXT, "workspace_id": TEXT, "thread_id": TEXT},
        "workspace_thread_remove": {"id": TEXT, "workspace_id": TEXT, "thread_id": TEXT},
    }
)


def read(frame: dict) -> dict:
    FRAME(frame, "frame")
    return frame
