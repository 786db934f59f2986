"""./script/tuned-step: how it judges, with programs that answer from a formula in the place of
zenflow-train and zenflow-tune; and that the real ones go through it, whatever this machine measures.

  tuned_step_test.py SCRIPT_FOLDER ZENFLOW_TRAIN ZENFLOW_TUNE
"""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(sys.argv.pop(1))
TRAIN, TUNE = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, str(SCRIPTS))

from tuned_step import judge  # noqa: E402


class Judge(unittest.TestCase):
    def test_ten_percent_of_what_was_measured_agrees_and_more_does_not(self):
        self.assertTrue(judge.of_setting(110.0, [99.0, 100.0, 101.0], 3)["within"])
        self.assertFalse(judge.of_setting(110.1, [99.0, 100.0, 101.0], 3)["within"])
        self.assertFalse(judge.of_setting(89.9, [99.0, 100.0, 101.0], 3)["within"])

    def test_the_newest_runs_count(self):
        one = judge.of_setting(100.0, [180.0, 99.0, 100.0, 101.0], 3)
        self.assertEqual((one["measured_ms"], one["noisy"]), (100.0, False))
        self.assertAlmostEqual(one["spread"], 0.02)
        self.assertTrue(judge.of_setting(100.0, [99.0, 100.0, 103.0], 3)["noisy"])

    def test_a_recorded_setting_that_is_slower_by_now_is_noise(self):
        self.assertFalse(judge.of_recorded(100.0, [103.0, 103.0], 2)["noisy"])
        self.assertTrue(judge.of_recorded(100.0, [104.0, 104.0], 2)["noisy"])

    def test_noise_is_told_from_disagreement(self):
        def case(again, predicted, runs):
            return {"recorded": judge.of_recorded(100.0, again, 2),
                    "tuned": [judge.of_setting(predicted, runs, 2)]}
        good = case([100.0, 100.0], 50.0, [50.0, 50.0])
        off = case([100.0, 100.0], 70.0, [50.0, 50.0])
        loud = case([100.0, 100.0], 70.0, [50.0, 60.0])
        drifted = case([120.0, 120.0], 50.0, [50.0, 50.0])
        self.assertEqual(judge.outcome([good]), "agrees")
        self.assertEqual(judge.outcome([good, off]), "differs")
        for noisy in (loud, drifted):
            self.assertEqual(judge.outcome([good, noisy]), "too noisy to judge by")
        self.assertEqual(judge.EXIT_CODES["agrees"], 0)
        self.assertEqual(judge.EXIT_CODES["differs"], 4)


# A step takes 100 ms / S, at least 40; every run of a noisy machine 10 % more than the one before.
TRAIN_STUB = """#!/usr/bin/env python3
import json, os, pathlib, sys
def of(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default
log = pathlib.Path(os.environ["STUB_LOG"])
with open(log, "a") as out:
    out.write(json.dumps(sys.argv[1:]) + "\\n")
slower = 1.1 ** len(log.read_text().splitlines()) if os.environ["STUB_MACHINE"] == "noisy" else 1
time = slower * max(40.0, 100.0 / int(of("--update-interval", "1")))
if "--trace" in sys.argv:
    pathlib.Path(of("--trace", "")).write_text(str(time))
print(json.dumps({"results": [{"step_time_ms": time}]}))
"""
TUNE_STUB = """#!/usr/bin/env python3
import json, os, pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
out.mkdir()
recorded = float(pathlib.Path(sys.argv[sys.argv.index("--trace") + 1]).read_text())
zenflow = "placement=zenflow" in sys.argv
(out / "cmd_optimal.txt").write_text("zenflow-train --model m.json --data data.txt --schedule " + (
    "zenflow --topk-ratio 0.2 --update-interval 2" if zenflow else "gpu-only") + "\\n")
setting = {"placement": "zenflow", "topk_ratio": 0.2, "update_interval": 2} if zenflow else {
    "placement": "gpu"}
predicted = float(os.environ["STUB_FACTOR"]) * (50.0 if zenflow else 100.0)
print(json.dumps({"chosen": {"setting": setting, "result": {"step_time_ms": predicted}},
                  "baseline": {"measured_step_time_ms": recorded}}))
"""


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "STUB_LOG": str(self.folder / "commands")}
        for variable, name, text in (("ZENFLOW_TRAIN", "train", TRAIN_STUB),
                                     ("ZENFLOW_TUNE", "tune", TUNE_STUB)):
            stub = self.folder / name
            stub.write_text(text)
            stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
            self.environment[variable] = str(stub)

    def run_script(self, *arguments, factor=1.0, machine="quiet"):
        return subprocess.run(
            [sys.executable, str(SCRIPTS / "tuned-step"), *arguments], capture_output=True, text=True,
            env={**self.environment, "STUB_FACTOR": str(factor), "STUB_MACHINE": machine})

    def written(self):
        return json.loads((self.folder / "out" / "tuned-step.json").read_text())

    def commands(self):
        return [json.loads(line) for line in (self.folder / "commands").read_text().splitlines()]

    def test_help_says_what_it_measures(self):
        outcome = self.run_script("--help")
        self.assertEqual(outcome.returncode, 0)
        for words in ("--quick", "--rounds N", "10 %", "1 too noisy", "4 differs"):
            self.assertIn(words, outcome.stdout)

    def test_what_cannot_be_meant_ends_with_two(self):
        for arguments in (("--rounds", "0"), ("--rounds", "4", "--most-rounds", "3"), ("--fast",)):
            self.assertEqual(self.run_script(*arguments).returncode, 2, arguments)

    def test_runs_the_command_that_was_written(self):
        outcome = self.run_script("--quick", str(self.folder / "out"))
        self.assertEqual(outcome.returncode, 0, outcome.stderr + outcome.stdout)
        self.assertIn("agrees", outcome.stdout)
        jobs = self.written()["jobs"]
        self.assertEqual([[one["setting"] for one in job["tuned"]] for job in jobs],
                         [["gpu-only (free)", "zenflow k=0.2 S=2 (zenflow)"]])
        recorded, again, free, zenflow = self.commands()
        self.assertIn("--trace", recorded)
        self.assertIn("--trace", again)
        self.assertEqual(free[free.index("--schedule") + 1], "gpu-only")
        self.assertEqual(zenflow[zenflow.index("--update-interval") + 1], "2")
        for command in (free, zenflow):  # on the same machine, with a text that is there
            self.assertEqual(command[command.index("--link-bandwidth") + 1], "2 GB/s")
            self.assertTrue(pathlib.Path(command[command.index("--data") + 1]).is_file())

    def test_a_prediction_that_is_off_ends_with_four(self):
        outcome = self.run_script(str(self.folder / "out"), factor=1.2)
        self.assertEqual(outcome.returncode, 4, outcome.stderr)
        self.assertIn("differs", outcome.stdout)
        self.assertIn("+20.0 %", outcome.stdout)
        self.assertEqual([job["name"] for job in self.written()["jobs"]],
                         ["s1", "offload", "slow-link"])

    def test_a_noisy_machine_is_tried_again_and_then_said_to_be_noisy(self):
        outcome = self.run_script("--rounds", "2", "--most-rounds", "4", str(self.folder / "out"),
                                  machine="noisy")
        self.assertEqual(outcome.returncode, 1, outcome.stderr)
        self.assertIn("too noisy to judge by", outcome.stdout)
        self.assertEqual(len(self.written()["jobs"][0]["tuned"][0]["runs_ms"]), 4)

    def test_a_program_that_fails_is_named_with_its_log(self):
        self.environment["ZENFLOW_TUNE"] = "/bin/false"
        outcome = self.run_script("--quick", str(self.folder / "out"))
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("zenflow-tune failed (1): see", outcome.stderr)

    def test_the_real_programs_go_through_it(self):
        self.environment |= {"ZENFLOW_TRAIN": TRAIN, "ZENFLOW_TUNE": TUNE}
        outcome = self.run_script("--quick", str(self.folder / "out"))
        self.assertIn(outcome.returncode, (0, 1, 4), outcome.stderr)
        self.assertNotIn("failed", outcome.stderr)
        job = self.written()["jobs"][0]
        self.assertEqual(len(job["tuned"]), 2)
        for one in job["tuned"]:
            self.assertGreater(one["predicted_ms"], 0)
            self.assertGreater(one["measured_ms"], 0)
        self.assertTrue(job["tuned"][1]["setting"].startswith("zenflow k="))


if __name__ == "__main__":
    unittest.main()
