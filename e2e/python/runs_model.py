"""A stub model that plays the part of a good model in every strategy: it sees by the form it is asked to answer in
what a call is for, and answers in that form.

    runs = self.connect(fallback=Thinker(tasks={"a": "first result"}))

Its methods are there to be overridden: by subclasses, or by functions given by name.
"""

from __future__ import annotations

import json
import re
from typing import Callable

from stub_model import Behaviour, Reply, Request, Text
from stub_model_wire import plain_text

UNDERSTAND, EXPAND, EVALUATE, PLAN, GROW, TASK, OTHER = (
    "understand",
    "expand",
    "evaluate",
    "plan",
    "grow",
    "task",
    "other",
)


def part_of(request: Request) -> str:
    """What the model is asked for, told by the form of answer that the prompt describes."""
    # All of the conversation: a plan that is refused is asked for again in a further message.
    text = "\n".join(plain_text(message["content"]) for message in request.messages if message["role"] == "user")
    if "core_goal" in text:
        return UNDERSTAND
    if "CANDIDATE 1" in text:
        return EXPAND
    if '"scores"' in text:
        return EVALUATE
    if '"edges"' in text:
        return GROW if "<result" in text else PLAN
    return TASK if task_of(request) else OTHER


def task_of(request: Request) -> str | None:
    """The id of the task that the model works on; results of earlier tasks come before it."""
    named = re.findall(r'<task name="([^"]+)">', request.last_user_text)
    return named[-1] if named else None


def plan(tasks: dict[str, str], *edges: tuple[str, str]) -> str:
    nodes = [{"id": name, "description": description} for name, description in tasks.items()]
    return json.dumps({"nodes": nodes, "edges": [list(edge) for edge in edges]})


def candidate(number: int, thought: str, calls: list[dict] | None = None, word: str = "THOUGHT") -> str:
    return f"CANDIDATE {number}: {word}: {thought} | TOOL_CALLS: {json.dumps(calls or [])}"


def said(text: str) -> Reply:
    return Reply(Text(text))


class Thinker:
    """Each part is a function from the request to a behaviour."""

    def __init__(self, **parts: Callable[[Request], Behaviour]) -> None:
        self.parts = parts

    def __call__(self, request: Request) -> Behaviour:
        part = part_of(request)
        return self.parts.get(part, getattr(self, part))(request)

    def understand(self, request: Request) -> Behaviour:
        goal = {"core_goal": "the goal", "key_constraints": ["one", "two"], "relevant_context": "the context"}
        return said(json.dumps(goal))

    def expand(self, request: Request) -> Behaviour:
        lines = [
            candidate(1, "a middling way"),
            candidate(2, "the way to the end", word="FINAL"),
            candidate(3, "nowhere"),
        ]
        return said("\n".join(lines))

    def evaluate(self, request: Request) -> Behaviour:
        count = len(re.findall(r"<candidate ", request.last_user_text))
        return said(json.dumps({"scores": [0.2, 0.9, 0.1, 0.1, 0.1, 0.1][:count]}))

    def plan(self, request: Request) -> Behaviour:
        return said(
            plan({"a": "the first thing", "b": "the second thing", "c": "the third thing"}, ("a", "c"), ("b", "c"))
        )

    def grow(self, request: Request) -> Behaviour:
        return said('{"nodes": []}')

    def task(self, request: Request) -> Behaviour:
        return said(f"result of {task_of(request)}")

    def other(self, request: Request) -> Behaviour:
        return said("the answer")
