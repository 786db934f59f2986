"""What gpu-check makes of runs of zenflow-train. Trains nothing.

  live_test.py SCRIPT_FOLDER
"""
import json
import pathlib
import sys
import unittest

SCRIPTS = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SCRIPTS))
sys.dont_write_bytecode = True

from gpu_check import live, side_by_side  # noqa: E402

MODELS = SCRIPTS.parent / "scenarios" / "models"


class Points(unittest.TestCase):
    def test_names_and_flags(self):
        point = live.parse("zenflow:0.05:8:trace")
        self.assertEqual(point.name, "zenflow-k05-s8")
        self.assertTrue(point.traced)
        self.assertEqual(point.flags(), ["--schedule", "zenflow", "--topk-ratio", "0.05",
                                         "--update-interval", "8"])
        self.assertFalse(point.optional)
        self.assertEqual(live.parse("gpu-only").flags(), ["--schedule", "gpu-only"])
        self.assertTrue(live.parse("zero-offload:optional").optional)

    def test_runs_are_whole_windows_after_two_and_one_step(self):
        for interval in (1, 2, 4, 8):
            steps = live.Point("zenflow", 0.1, interval).steps(False) - 1
            self.assertEqual(steps % interval, 0)
            self.assertGreaterEqual(steps - 2 * interval, max(8, 3 * interval))

    def test_refuses_what_it_does_not_know(self):
        for text in ("zenflow", "zenflow:0.1", "plain", "gpu-only:2"):
            with self.assertRaises(ValueError):
                live.parse(text)


class Figures(unittest.TestCase):
    def test_flops_are_six_for_each_weight_of_a_product_and_attention(self):
        config = json.loads((MODELS / "gpt2_xl.json").read_text())
        # 48 layers of 12 h^2, and the head; attention 6 layers h T.
        weights = 48 * 12 * 1600 ** 2 + 50257 * 1600
        self.assertEqual(live.flops_per_token(config, 1024),
                         6 * weights + 6 * 48 * 1600 * 1024)

    def test_grouped_queries_have_fewer_weights(self):
        config = json.loads((MODELS / "llama3_2_3b.json").read_text())
        block = 2 * 3072 * 3072 + 2 * 3072 * 1024 + 3 * 3072 * 8192
        self.assertEqual(live.flops_per_token(config, 2),
                         6 * (28 * block + 128256 * 3072) + 6 * 28 * 3072 * 2)

    def test_the_largest_difference_decides(self):
        apart, step = live.compare_losses([2.0, 4.0, 1.0], [2.0, 4.2, 1.01])
        self.assertAlmostEqual(apart, 0.05)
        self.assertEqual(step, 1)
        with self.assertRaises(ValueError):
            live.compare_losses([1.0, 2.0], [1.0])

    def test_traffic_is_the_closed_form_to_the_byte(self):
        def bytes_of(down, up):
            return {"pcie": {"d2h_bytes_per_step": down, "h2d_bytes_per_step": up}}
        self.assertEqual(live.traffic_error(bytes_of(10, 20), bytes_of(11, 20)), "")
        self.assertIn("h2d_bytes_per_step 20",
                      live.traffic_error(bytes_of(10, 20), bytes_of(10, 22)))

    def test_only_known_gpus_have_a_peak(self):
        self.assertEqual(live.peak_of("NVIDIA H200"), 989.4e12)
        self.assertIsNone(live.peak_of("some GPU"))


class SideBySide(unittest.TestCase):
    def test_pairs_of_the_same_training(self):
        ours = [{"run": "gpt2_xl-gpu-only", "step_time_ms": 100.0},
                {"run": "gpt2_xl-zenflow-k10-s4", "step_time_ms": 50.0},
                {"run": "gpt2_xl-zero-offload", "wrong": "exit code 3"}]
        theirs = [{"case": "gpt2-xl-plain", "line": "part", "part": "free", "total_ms": 480.0,
                   "micro_steps": [{}, {}, {}, {}]},
                  {"case": "gpt2-xl-plain", "line": "part", "part": "synchronized",
                   "total_ms": 9999.0, "micro_steps": [{}]}]
        self.assertEqual(side_by_side.table(ours, theirs),
                         [("gpt2_xl-gpu-only", 100.0, 120.0),
                          ("gpt2_xl-zenflow-k10-s4", 50.0, None)])


if __name__ == "__main__":
    unittest.main()
