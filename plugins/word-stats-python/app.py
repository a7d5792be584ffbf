"""A plugin in Python: one tool, `word_stats`, that counts what is in a text."""

import json
import re
from collections import Counter

from wit_world import exports
from wit_world.exports.tools import Output, Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The text to count in."},
        "top": {"type": "integer", "minimum": 1, "maximum": 50, "description": "How many frequent words to name; 3 if left out."},
    },
    "required": ["text"],
    "additionalProperties": False,
}


class Tools(exports.Tools):
    def describe(self) -> list[Tool]:
        return [
            Tool(
                name="word_stats",
                description="Counts the words, characters and lines of a text and names its most frequent words.",
                input_schema=json.dumps(SCHEMA),
                read_only=True,
            )
        ]

    def call(self, name: str, arguments: str) -> Output:
        asked = json.loads(arguments)
        text = asked["text"]
        words = re.findall(r"\w+", text.lower())
        frequent = sorted(Counter(words).items(), key=lambda word: (-word[1], word[0]))
        counts = {
            "words": len(words),
            "characters": len(text),
            "lines": len(text.splitlines()),
            "frequent": dict(frequent[: asked.get("top", 3)]),
        }
        return Output(content=json.dumps(counts, ensure_ascii=False), is_error=False)
