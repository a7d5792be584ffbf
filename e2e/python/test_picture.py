"""The picture in README.md shows what the binary prints now."""

from __future__ import annotations

import unittest

from picture import PICTURE, comparable, draw, take, text_of
from readme import WRITE
from patchboard_server import binary


class PictureTest(unittest.TestCase):
    def test_it_shows_what_is_printed_now(self) -> None:
        screen = take(binary())
        self.addCleanup(screen.close)
        shown = comparable(text_of(PICTURE.read_text(encoding="utf-8")))
        printed = comparable(screen.text())
        self.assertEqual(shown, printed, f"{PICTURE.name} is out of date: run `{WRITE}`")
        # What is read out of a picture is what was drawn into it.
        self.assertEqual(comparable(text_of(draw(screen))), printed)


if __name__ == "__main__":
    unittest.main()
