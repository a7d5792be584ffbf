"""Every command in README.md, in the SDKs' READMEs and in some pages of `docs` works when typed in order on a fresh machine, and prints what is
shown there; every sample of code runs.
"""

# begins early: makes environments and waits for workers
from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import readme
from documents import Command, Document, File, is_printed, merged
from patchboard_server import binary


class ReadmeTest(unittest.TestCase):
    """One test for each document."""

    def type(self, path: Path) -> None:
        document = Document.read(path)
        commands = [step for step in document.steps if isinstance(step, Command)]
        self.assertTrue(commands, "the document has no commands")
        outcome = readme.type_document(document, binary())
        problems = "\n\n".join(outcome.problems)
        self.assertFalse(problems, f"{problems}\n\nif this is how it should be, run `{readme.WRITE}`")


for _path in readme.documents():
    _name = "_".join(_path.relative_to(readme.ROOT).with_suffix("").parts).lower()
    setattr(ReadmeTest, f"test_{_name}", lambda self, path=_path: self.type(path))


DOCUMENT = """\
# A page

```python
# ~/board/tools.py
print(1)
```

1. In a list:

   ```console
   $ echo a \\
       b
   a b

   $ false &
   ```

```sh
# only a comment
echo one   # and a comment
```

```text
$ not typed
```
"""


class DocumentTest(unittest.TestCase):
    def read(self, text: str) -> Document:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "page.md"
        path.write_text(text, encoding="utf-8")
        return Document.read(path)

    def test_blocks_are_read(self) -> None:
        steps = self.read(DOCUMENT).steps
        self.assertEqual(
            [(step.name, step.text) for step in steps if isinstance(step, File)],
            [("~/board/tools.py", "# ~/board/tools.py\nprint(1)\n")],
        )
        commands = [step for step in steps if isinstance(step, Command)]
        self.assertEqual(
            [(step.text, step.shown, step.line, step.is_background) for step in commands],
            [
                ("echo a \\\n    b", ["a b"], 11, False),
                ("false &", [], 15, True),
                ("echo one   # and a comment", None, 20, False),
            ],
        )

    def test_dots_stand_for_anything_and_ids_for_each_other(self) -> None:
        one, other = "01a1f26a-02a0-76fa-8ce6-c2d4d8415796", "01a1f26c-8aa0-760a-a3ef-43e731e39f4c"
        for shown, printed, expected in (
            (["a"], ["a"], True),
            (["a"], ["b"], False),
            (["a"], ["a", "b"], False),
            (["a", "…"], ["a", "b", "c"], True),
            (["…", "c"], ["c"], True),
            (["a … c"], ["a b c"], True),
            (["a … c"], ["a b d"], False),
            ([f"msg-{one} sent"], [f"msg-{other} sent"], True),
            (["on 2026-01-02"], ["on 2027-03-04"], True),
            (["7 apps"], ["8 apps"], False),
        ):
            with self.subTest(shown=shown, printed=printed):
                self.assertEqual(is_printed(shown, printed), expected)

    def test_what_is_written_keeps_what_still_fits(self) -> None:
        self.assertEqual(merged(["on 2026-01-02"], ["on 2027-03-04"]), ["on 2026-01-02"])
        self.assertEqual(merged(["a …", "b"], ["a 1", "c"]), ["a …", "c"])
        self.assertEqual(merged(["a", "…", "y"], ["b", "c", "d", "z"]), ["b", "…", "z"])
        document = self.read(DOCUMENT)
        self.assertTrue(document.write({11: ["a c"], 15: []}))
        self.assertEqual(document.path.read_text(encoding="utf-8"), DOCUMENT.replace("a b\n\n", "a c\n\n"))


if __name__ == "__main__":
    unittest.main()
