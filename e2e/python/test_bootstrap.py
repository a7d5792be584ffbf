"""The parts of the bootstrap that need no network."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("bootstrap", HERE.parent / "bootstrap.py")
bootstrap = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bootstrap)


class BootstrapTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.venv = Path(folder.name) / "venv"

    def patch(self, **replacements) -> None:
        for name, value in replacements.items():
            patched = mock.patch.object(bootstrap, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def test_every_requirement_is_pinned(self) -> None:
        for path in [HERE / "requirements.txt", HERE.parent / "node" / "requirements.txt"]:
            wanted = bootstrap.read_requirements(path.read_text())
            self.assertTrue(wanted)
            for line in wanted:
                self.assertRegex(line, r"^[A-Za-z0-9._-]+==[0-9.]+$")

    def test_comments_and_blank_lines_are_no_requirements(self) -> None:
        self.assertEqual(bootstrap.read_requirements("# one\n\na==1 # two\n  b==2\n"), ["a==1", "b==2"])

    def test_the_next_way_is_tried_and_all_reasons_are_kept(self) -> None:
        tried = []

        def refuse(venv: Path) -> None:
            tried.append("refuse")
            raise bootstrap.Unavailable("not here")

        def succeed(venv: Path) -> None:
            tried.append("succeed")
            venv.mkdir()

        self.patch(has_pip=lambda python: self.venv.exists(), WAYS=[("one", refuse), ("two", succeed)])
        bootstrap.make(self.venv, None)
        self.assertEqual(tried, ["refuse", "succeed"])
        self.patch(WAYS=[("one", refuse), ("two", refuse)])
        with self.assertRaisesRegex(bootstrap.Unavailable, "one: not here; two: not here"):
            bootstrap.make(self.venv, None)

    def test_nothing_is_done_twice_and_a_change_is_noticed(self) -> None:
        installed = []
        self.venv.mkdir()
        self.patch(has_pip=lambda python: True, try_install=lambda python, wanted: installed.append(wanted))
        for wanted in [["a==1", "b==1"], ["b==1"], ["a==2", "b==1"]]:
            report = bootstrap.prepare(self.venv, wanted)
            self.assertEqual((report["fatal"], report["missing"]), (None, []))
        self.assertEqual(installed, [["a==1", "b==1"], ["a==2", "b==1"]])

    def test_a_missing_package_is_named_and_tried_again_next_time(self) -> None:
        self.venv.mkdir()
        refuse = mock.Mock(side_effect=lambda python, wanted: "no network" if "b==1" in wanted else None)
        self.patch(has_pip=lambda python: True, try_install=refuse)
        for _ in range(2):
            report = bootstrap.prepare(self.venv, ["a==1", "b==1"])
            self.assertEqual(report["missing"], [{"requirement": "b==1", "reason": "no network"}])
        self.assertEqual(refuse.call_count, 6)

    def test_no_environment_is_reported_and_not_raised(self) -> None:
        self.patch(has_pip=lambda python: False, WAYS=[])
        report = bootstrap.prepare(self.venv, ["a==1"])
        self.assertIsNone(report["python"])
        self.assertIn("no virtual environment could be made", report["fatal"])
        json.dumps(report)

    def test_the_telling_line_of_an_output_is_found(self) -> None:
        output = "Looking\nERROR: no matching distribution\n\n[notice] a new pip\n"
        self.assertEqual(bootstrap.last_words(output), "ERROR: no matching distribution")
        self.assertEqual(bootstrap.last_words("one\ntwo\n"), "two")
        self.assertEqual(bootstrap.last_words(""), "")


if __name__ == "__main__":
    unittest.main()
