"""What closed-loop and gpu-check make of a tuned run beside fixed ones. Trains nothing.

  tuned_test.py SCRIPT_FOLDER
"""
import io
import os
import pathlib
import signal
import subprocess
import sys
import unittest

SCRIPTS = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SCRIPTS))
sys.dont_write_bytecode = True

import tuned_phases  # noqa: E402
from gpu_check import tuned  # noqa: E402

# The best is S = 4 alone and 8 beside the load.
TIMES = {(1, False): 100.0, (2, False): 60.0, (4, False): 40.0, (8, False): 41.0,
         (1, True): 200.0, (2, True): 110.0, (4, True): 70.0, (8, True): 40.0}


def windows(intervals, first=0, due=16):
    made = []
    for interval in intervals:
        made.append({"first_step": first, "update_interval": interval, "importance_due": due,
                     "step_time_ms": TIMES.get((interval, False), 50.0), "recorded": False,
                     "topk_ratio": 0.1})
        first += interval
    return made


class Phases(unittest.TestCase):
    def test_an_interval_between_two_that_were_run_lies_between_them(self):
        self.assertEqual(tuned_phases.interpolated(TIMES, 3, False), 50.0)
        self.assertEqual(tuned_phases.interpolated(TIMES, 16, True), 40.0)

    def test_each_third_is_judged_by_its_own_load(self):
        run = windows([1, 1, 2, 4, 4]) + windows([4, 8], first=12) + windows([8, 4], first=24)
        found = tuned_phases.judged(TIMES, run, 36)
        self.assertEqual([one["windows_to_answer"] for one in found], [3, 1, 0])
        self.assertEqual([one["best_fixed"]["update_interval"] for one in found], [4, 8, 4])
        self.assertTrue(all(one["reached"] for one in found))
        self.assertIn("S = 8 after 1 windows", tuned_phases.line_of(found[1]))
        self.assertEqual(tuned.missed(found), "")
        # Between S = 2 and 4 there are 50 ms, too slow, and importance allows no S of 8 before long.
        run = windows([3] * 3 + [4] * 3) + windows([4] * 9, first=21, due=4) + windows([4], first=57)
        found = tuned_phases.judged(TIMES, run, 63)
        self.assertEqual([one["windows_to_answer"] for one in found], [3, 1, 0])
        self.assertEqual(found[1]["best_fixed"]["update_interval"], 4)
        late = windows([1] * 14 + [4, 4]) + windows([4] * 8, first=22) + windows([4] * 3, first=54)
        found = tuned_phases.judged(TIMES, late, 66)
        self.assertEqual([one["reached"] for one in found], [False, False, True])
        self.assertIn("not reached: from S = 1", tuned.missed(found))

    def test_what_recording_costs_is_told_by_windows_of_one_setting(self):
        run = windows([4] * 9)
        for window in run[:2]:
            window.update(recorded=True, step_time_ms=41.0)
        self.assertAlmostEqual(tuned_phases.cost_of_recording(run), 0.025)
        self.assertIsNone(tuned_phases.cost_of_recording(windows([1, 2, 4])))


class Runs(unittest.TestCase):
    def test_functions_are_called_when_the_run_comes_to_their_steps(self):
        called = []
        code, said = tuned_phases.follow(
            ["sh", "-c", "for i in 1 2 3; do echo step $i/3 loss >&2; done; echo result"],
            None, {2: lambda: called.append(2)}, io.StringIO())
        self.assertEqual((code, called), (0, [2]))
        self.assertEqual(said.count("step"), 3)

    def test_a_run_is_killed_at_its_limit(self):
        code, _ = tuned_phases.follow(["sleep", "100"], None, {}, seconds=0.1)
        self.assertLess(code, 0)

    def test_a_load_is_as_many_processes_as_cores_and_goes_away(self):
        load = tuned_phases.Load([])
        load.start()
        load.stop()
        core = min(tuned_phases.os.sched_getaffinity(0))
        load = tuned_phases.Load([core])
        load.start()
        process = load.processes[0]
        self.assertEqual(tuned_phases.os.sched_getaffinity(process.pid), {core})
        load.stop()
        self.assertIsNotNone(process.returncode)


# Starts a load, says its process id, and waits.
STARTER = """import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from tuned_phases import Load
load = Load([int(sys.argv[2])])
load.start()
print(load.processes[0].pid, flush=True)
sys.stdin.read()
"""


class Loads(unittest.TestCase):
    def test_end_with_who_started_them_even_if_that_is_killed(self):
        core = min(os.sched_getaffinity(0))
        starter = subprocess.Popen([sys.executable, "-c", STARTER, SCRIPTS, str(core)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        load = int(starter.stdout.readline())
        starter.kill()
        try:
            # Ends when the load, which has it, too, closes it.
            starter.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.kill(load, signal.SIGKILL)
            self.fail("the load goes on")


class Table(unittest.TestCase):
    def test_has_both_loads_and_says_what_was_not_run(self):
        run = windows([4] * 3) + windows([8] * 2, first=12) + windows([4] * 3, first=28)
        times = {key: value for key, value in TIMES.items() if key != (2, True)}
        text = tuned.table("model", times, tuned_phases.judged(times, run, 36), 0.01)
        self.assertIn("   1     100.0     200.0\n   2      60.0         -\n", text)
        self.assertIn("from S = 1: S = 4 after 0 windows (limit 12)", text)
        self.assertIn("recorded windows take +1.0 %", text)

    def test_the_optimizer_has_most_cores_and_one_at_least(self):
        self.assertEqual(tuned.cores_of_optimizer(list(range(16))), list(range(4, 16)))
        self.assertEqual(tuned.cores_of_optimizer([0, 1]), [1])
        self.assertEqual(tuned.cores_of_optimizer([3]), [3])


if __name__ == "__main__":
    unittest.main()
