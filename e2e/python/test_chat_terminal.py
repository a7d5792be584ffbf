"""`patchboard chat` with a person at the terminal: editing, history, pastes, commands, Ctrl-C, questions, a lost server."""

from __future__ import annotations

import stat
import subprocess
import threading
import unittest

from patchboard_server import Server, binary
from stub_model import Call, Hold, Reply, StubModel, Text
from terminal import CTRL_C, CTRL_D, ENTER, LEFT, TAB, TIMEOUT, UP, Terminal, pasted

PROMPT = "\n> "
TABLE = "# Sizes\n\n| file | size |\n|---|---:|\n| a.txt | 12 |\n| b.txt | 7 |\n\nThat is **all**.\n"


class ChatCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.model = StubModel()
        cls.addClassCleanup(cls.model.close)
        cls.model.listing = ["stub-model", "other-model"]
        config = cls.model.provider_config("openai") + '[agents.coder]\nprovider = "main"\nmodel = "stub-model"\n'
        config += '[tools.approval]\nls = "ask"\n'
        cls.server = Server(config=config)
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.data = ("--data-dir", str(cls.server.data_dir))

    def environment(self) -> dict[str, str]:
        # A person's terminal shows colour.
        return {**self.server.environment(), "HOME": str(self.server.folder / "home"), "NO_COLOR": ""}

    def open(self, *arguments: str, **env: str) -> Terminal:
        command = [binary(), "chat", *arguments, *self.data]
        terminal = Terminal(command, {**self.environment(), **env}, self.server.folder)
        self.addCleanup(terminal.close)
        return terminal

    def said(self) -> str:
        return self.model.requests[-1].last_user_text

    def answered(self, terminal: Terminal, keys: str, answer: str) -> None:
        terminal.type(keys)
        terminal.wait_for(answer)
        terminal.wait_for(PROMPT, "the next prompt")


class EditTest(ChatCase):
    def test_a_line_is_edited_and_the_history_outlives_the_chat(self) -> None:
        chat = self.open()
        chat.wait_for(PROMPT)
        self.answered(chat, "helo" + LEFT + "l" + ENTER, "echo: hello")
        self.assertEqual(self.said(), "hello")
        self.answered(chat, "second" + ENTER, "echo: second")
        self.answered(chat, UP + UP + " again" + ENTER, "echo: hello again")
        self.assertEqual(self.said(), "hello again")
        chat.type(" not to be kept" + ENTER)
        chat.wait_for("echo: ")
        chat.wait_for(PROMPT)
        chat.type(CTRL_D)
        self.assertEqual(chat.wait_for_end(), 0)
        history = self.server.data_dir / "chat_history"
        self.assertEqual(stat.S_IMODE(history.stat().st_mode), 0o600)
        self.assertNotIn("not to be kept", history.read_text())
        chat = self.open()
        chat.wait_for(PROMPT)
        self.answered(chat, UP + ENTER, "echo: hello again")

    def test_pasted_lines_are_one_message(self) -> None:
        chat = self.open()
        chat.wait_for(PROMPT)
        self.answered(chat, pasted("one\r\ntwo\nthree") + ENTER, "three")
        self.assertEqual(self.said(), "one\ntwo\nthree")
        self.answered(chat, "begun\\" + ENTER + "and ended" + ENTER, "ended")
        self.assertEqual(self.said(), "begun\nand ended")

    def test_a_model_is_completed_and_chosen(self) -> None:
        chat = self.open("--peer", "models")
        chat.wait_for(PROMPT)
        self.answered(chat, "/model" + ENTER, "* main/stub-model")
        self.answered(chat, "/mod" + TAB + "oth" + TAB + ENTER, "main/other-model answers from now on")
        self.answered(chat, "hi" + ENTER, "echo: hi")
        self.assertEqual(self.model.requests[-1].body["model"], "other-model")
        self.answered(chat, "/modle x" + ENTER, "did you mean /model?")
        self.answered(chat, "/model other-modle" + ENTER, "there is no model other-modle")
        self.answered(chat, "/agent cod" + TAB + ENTER, "coder answers from now on")
        self.answered(chat, "hi" + ENTER, "echo: hi")
        self.answered(chat, "/sessions" + ENTER, "* models")
        self.answered(chat, "/new elsewhere" + ENTER, "a new conversation, elsewhere")
        self.answered(chat, "fresh" + ENTER, "echo: fresh")
        self.assertEqual(len([one for one in self.model.requests[-1].messages if one["role"] == "user"]), 1)
        self.answered(chat, "/sessions models" + ENTER, "on with models")
        self.answered(chat, "/usage" + ENTER, "tokens, $")
        self.answered(chat, "/tools ls" + ENTER, "folder")
        chat.type("/quit" + ENTER)
        self.assertEqual(chat.wait_for_end(), 0)


class TurnTest(ChatCase):
    def test_ctrl_c_stops_the_answer_and_then_leaves(self) -> None:
        count = len(self.model.requests)
        self.model.script(Reply(Text("one moment "), Hold(threading.Event())))
        chat = self.open()
        chat.wait_for(PROMPT)
        chat.type("go" + ENTER)
        chat.wait_for("one")
        request = self.model.wait_for_requests(count + 1)[-1]
        chat.type(CTRL_C)
        chat.wait_for("(stopped")
        chat.wait_for(PROMPT)
        self.assertTrue(request.gone.wait(TIMEOUT), "the model was not let go")
        self.answered(chat, "and now" + ENTER, "echo: and now")
        chat.type("half a line" + CTRL_C)
        chat.wait_for(PROMPT)
        chat.type(CTRL_C)
        chat.wait_for("Ctrl-D or /quit leaves")
        chat.wait_for(PROMPT)
        chat.type(CTRL_C)
        self.assertEqual(chat.wait_for_end(), 130)

    def test_markdown_is_laid_out_and_what_happens_is_seen(self) -> None:
        released = threading.Event()
        self.model.script(Reply(Hold(released), Text(TABLE[:20]), Text(TABLE[20:])))
        chat = self.open()
        chat.wait_for(PROMPT)
        chat.type("how large?" + ENTER)
        chat.wait_for("waiting for the answer · 0 s")
        released.set()
        chat.wait_for("file  │ size")
        chat.wait_for("a.txt │   12")
        chat.wait_for("That is all.")
        chat.wait_for(PROMPT)
        self.assertIn("\x1b[1mall", chat.raw)
        # Laid out, and without anything that only colours.
        self.model.script(Reply(Text(TABLE)))
        plain = self.open("how", "large?", NO_COLOR="1")
        plain.wait_for("That is **all**.")
        self.assertEqual(plain.wait_for_end(), 0)
        self.assertNotRegex(plain.raw, r"\x1b\[[0-9;]*m")

    def test_a_tool_is_asked_about_in_place(self) -> None:
        (self.server.folder / "seen.txt").write_text("x")
        for answer, seen in (("y", True), ("n", False)):
            with self.subTest(answer):
                self.model.script(Reply(Call("ls", {})), Reply(Text("done with it")))
                chat = self.open("look", "--peer", f"asked-{answer}")
                chat.wait_for("Allow ls {}? [y/N] ")
                chat.type(answer + ENTER)
                chat.wait_for("done with it")
                self.assertEqual(chat.wait_for_end(), 0)
                self.assertEqual("seen.txt" in str(self.model.requests[-1].messages), seen)

    def test_nothing_of_an_answer_acts_on_the_terminal(self) -> None:
        evil = "\x1b]0;evil\x07\x1b[2J\x1b[31m`\x1b[5m`\n```\n\x1b]52;c;x\x07\n```\n| \x1b[1A |\n|---|\n| \u202e |\n"
        self.model.script(Reply(Text(evil)))
        chat = self.open("hi")
        self.assertEqual(chat.wait_for_end(), 0)
        self.assertIn("evil", chat.text)
        for sequence in ("\x1b]", "\x07", "\x1b[2J", "\x1b[31m", "\x1b[5m", "\u202e"):
            self.assertNotIn(sequence, chat.raw)

    def test_without_a_terminal_text_is_plain(self) -> None:
        self.model.script(Reply(Text(TABLE)))
        done = subprocess.run(
            [binary(), "chat", *self.data, "how", "large?"],
            env={**self.environment(), "TERM": "xterm"},
            cwd=self.server.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, TABLE, ""))


class LostServerTest(ChatCase):
    def test_a_lost_server_is_said_and_found_again(self) -> None:
        chat = self.open()
        chat.wait_for(PROMPT)
        self.answered(chat, "before" + ENTER, "echo: before")
        self.server.kill()
        chat.type("anybody?" + ENTER)
        chat.wait_for("patchboard serve")
        chat.wait_for(PROMPT)
        self.server.start()
        self.answered(chat, UP + ENTER, "echo: anybody?")
        self.assertIn("before", str(self.model.requests[-1].messages))
        chat.type(CTRL_D)
        self.assertEqual(chat.wait_for_end(), 0)


if __name__ == "__main__":
    unittest.main()
