"""`patchboard onboard` at a terminal: the key is typed without echo and kept apart from the configuration."""

from __future__ import annotations

import os
import pty
import select
import shutil
import tempfile
import termios
import time
import unittest
from pathlib import Path

from gateway_client import eventually
from patchboard_server import FOREIGN_SETTINGS, binary

TIMEOUT = 60
KEY = "canary-key-0123456789"
ENTER = ""


def echoes(terminal: int) -> bool:
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


class OnboardTest(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="patchboard-e2e-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.config = self.home / "patchboard.toml"

    def onboard(self, *answers: tuple[str, str], arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        """Answers each prompt that ends with the given text; gives the exit code and what was on the screen."""
        child, terminal = pty.fork()
        if child == 0:
            environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_SETTINGS}
            environment |= {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config"), "NO_COLOR": "1"}
            os.execve(binary(), ["patchboard", "onboard", "--config", str(self.config), *arguments], environment)
        screen, answered, waiting = "", 0, list(answers)
        deadline = time.monotonic() + TIMEOUT
        while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break  # The other side is gone.
            screen += piece.decode()
            if waiting and waiting[0][0] in screen[answered:] and screen.endswith(": "):
                answered = len(screen)
                prompt, answer = waiting.pop(0)
                if prompt == "key":
                    eventually(lambda: not echoes(terminal), "the terminal stops echoing")
                os.write(terminal, answer.encode() + b"\n")
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            self.fail(f"it asks for something unexpected: {screen!r}")
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), screen

    def files(self) -> list[Path]:
        return [file for file in self.home.rglob("*") if file.is_file()]

    def test_the_key_is_not_echoed_and_only_its_owner_can_read_it(self) -> None:
        code, screen = self.onboard(("Provider", "anthropic"), ("key", KEY), ("Model", "some-model"))
        self.assertEqual(code, 0, screen)
        self.assertNotIn(KEY, screen)
        holders = [file for file in self.files() if KEY in file.read_text()]
        self.assertEqual(len(holders), 1, holders)
        self.assertEqual(holders[0].name, "anthropic.key")
        self.assertEqual(holders[0].stat().st_mode & 0o777, 0o600)
        self.assertEqual(holders[0].parent.stat().st_mode & 0o777, 0o700)
        self.assertIn("some-model", self.config.read_text())

    def test_enter_takes_what_stands_in_brackets(self) -> None:
        code, screen = self.onboard(("Provider", ENTER), ("key", KEY), ("Model", ENTER))
        self.assertEqual(code, 0, screen)
        self.assertIn("anthropic", self.config.read_text())

    def test_an_empty_key_is_refused_before_any_file_is_written(self) -> None:
        code, screen = self.onboard(("Provider", "openai"), ("key", ENTER))
        self.assertNotEqual(code, 0)
        self.assertIn("empty", screen)
        self.assertEqual(self.files(), [])

    def test_an_unknown_provider_is_refused_before_any_file_is_written(self) -> None:
        code, screen = self.onboard(("Provider", "../../etc/passwd"))
        self.assertNotEqual(code, 0)
        self.assertEqual(self.files(), [])

    def test_a_second_time_it_changes_the_model_and_keeps_everything_else(self) -> None:
        kept = '# my own words\n[budgets]\ndaily = 12345 # enough\n\n[[bindings]]\nagent = "default"\nchannel = "t"\n'
        self.config.write_text(kept)
        for model in ("model-one", "model-two"):
            code, screen = self.onboard(("key", KEY), ("Model", model), arguments=("--provider", "anthropic"))
            self.assertEqual(code, 0, screen)
            text = self.config.read_text()
            self.assertIn(model, text)
            for line in kept.splitlines():
                self.assertIn(line, text)
        self.assertNotIn("model-one", text)


if __name__ == "__main__":
    unittest.main()
