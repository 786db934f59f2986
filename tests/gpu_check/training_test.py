"""What gpu-check makes of traces and logs, and the cases that it trains. Needs no PyTorch.

  training_test.py SCRIPT_FOLDER
"""
import gzip
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

SCRIPTS = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
sys.path.insert(0, str(SCRIPTS))
sys.dont_write_bytecode = True

from gpu_check import traces  # noqa: E402
from gpu_check.training import measure  # noqa: E402
from gpu_check.training.cases import Case, deepspeed_configuration, parse  # noqa: E402
from gpu_check.training.shapes import SHAPES, parameters  # noqa: E402

BASE = 1_000_000  # nanoseconds


def event(category, name, start_us, duration_us, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": start_us,
            "dur": duration_us, "args": arguments}


def trace_of(events):
    return {"baseTimeNanoseconds": BASE, "deviceProperties": [{"id": 0}], "traceEvents": events}


class Traces(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.source = pathlib.Path(self.folder.name) / "whole.json"
        self.target = pathlib.Path(self.folder.name) / "small.json.gz"

    def cut(self, events, bounds_us):
        self.source.write_text(json.dumps(trace_of(events)))
        bounds = [BASE + 1000 * us for us in bounds_us]
        found = traces.cut(self.source, self.target, bounds, 12, "case")
        return found, traces.load(self.target)["traceEvents"] if self.target.exists() else None

    # Two micro-steps, [100, 200) and [200, 300) microseconds.
    def test_cuts_to_the_micro_steps_and_keeps_device_activity(self):
        pageable = "Memcpy DtoH (Device -> Pageable)"
        found, events = self.cut([
            event("kernel", "early", 50, 10),
            event("kernel", "gemm", 110, 30),
            event("cpu_op", "aten::mm", 105, 3),
            event("gpu_memcpy", pageable, 150, 20, bytes=4096, stream=7, memory="unneeded"),
            event("gpu_memcpy", pageable, 250, 10, bytes=1000),
            event("kernel", "late", 300, 10),
        ], [100, 200, 300])
        names = [e["name"] for e in events]
        self.assertEqual(names, ["micro_step 12", "micro_step 13", "gemm", pageable, pageable])
        self.assertEqual(events[3]["args"], {"bytes": 4096, "stream": 7})
        first, second = found["by_micro_step"]
        self.assertEqual(first, {"micro_step": 12, "totals": {
            pageable: {"count": 1, "ms": 0.02, "bytes": 4096}, "kernel": {"count": 1, "ms": 0.03}}})
        self.assertEqual(second["totals"], {pageable: {"count": 1, "ms": 0.01, "bytes": 1000}})
        self.assertEqual(found["micro_steps"], 2)

    def test_leaves_out_early_micro_steps_until_it_fits(self):
        # Names that do not compress: each micro-step takes more than half of what is allowed.
        def noise(start):
            state, events = start, []
            for _ in range(220):
                name = ""
                for _ in range(9):
                    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                    name += f"{state >> 16:012x}"
                events.append(event("kernel", name, start + 0.001, 1))
            return events
        patch = unittest.mock.patch.object(traces, "LARGEST", 20_000)
        patch.start()
        self.addCleanup(patch.stop)
        found, events = self.cut(noise(100) + noise(200), [100, 200, 300])
        self.assertEqual(found["micro_steps"], 1)
        self.assertLessEqual(self.target.stat().st_size, traces.LARGEST)
        self.assertEqual(events[0]["name"], "micro_step 13")
        self.assertEqual(len(found["by_micro_step"]), 2)  # totals are of all
        found, _ = self.cut(noise(100) + noise(100) + noise(100), [100, 200])
        self.assertIsNone(found["file"])
        self.assertFalse(self.target.exists())

    def test_same_events_same_bytes(self):
        events = [event("kernel", "gemm", 110, 30)]
        self.cut(events, [100, 200])
        before = self.target.read_bytes()
        self.cut(events, [100, 200])
        self.assertEqual(self.target.read_bytes(), before)
        self.assertEqual(gzip.decompress(before)[:1], b"{")


class Cases(unittest.TestCase):
    def test_measured_parts_are_whole_windows(self):
        for text in ("plain", "zero-offload:s4", "zenflow:s2:k10", "zenflow:s8:k05"):
            case = Case("gpt2-xl", **parse(text))
            self.assertEqual(case.warm_up % case.interval, 0)
            self.assertEqual(case.measured % case.interval, 0)
            self.assertGreaterEqual(case.measured, 12)
            # What is profiled ends one micro-step after an update.
            self.assertEqual((case.before_profiled + case.profiled - 1) % case.interval, 0)

    def test_names_and_configuration_say_what_runs(self):
        case = Case("gpt2-xl", **parse("zenflow:s8:k05:breakdown"))
        self.assertEqual(case.name, "gpt2-xl-zenflow-k05-s8-breakdown")
        config = deepspeed_configuration(case)
        zenflow = config["zero_optimization"]["zenflow"]
        self.assertEqual((zenflow["topk_ratio"], zenflow["update_interval"]), (0.05, 8))
        # Otherwise DeepSpeed's two gradient buffers are mixed up.
        self.assertEqual(zenflow["select_interval"] % 8, 0)
        self.assertEqual(zenflow["full_warm_up_rounds"] % 8, 0)
        self.assertTrue(config["wall_clock_breakdown"])
        offload = deepspeed_configuration(Case("gpt2-xl", **parse("zero-offload:s4")))
        self.assertEqual(offload["gradient_accumulation_steps"], 4)
        self.assertNotIn("zenflow", offload["zero_optimization"])

    def test_refuses_what_it_does_not_know(self):
        for text in ("zenflow:s4", "plain:k10", "infinity", "zenflow:k10:fast"):
            with self.assertRaises(ValueError, msg=text):
                parse(text)

    def test_models_have_as_many_parameters_as_they_are_called_after(self):
        self.assertEqual(parameters(SHAPES["gpt2-xl"]), 1_557_611_200)  # OpenAI's "1558M"
        # Embedding and head; in a block four projections, three matrices and two norms; a norm.
        self.assertEqual(parameters(SHAPES["llama-1.3b"]), 2 * 65_536_000
                         + 24 * (4 * 4_194_304 + 3 * 11_272_192 + 4096) + 2048)


class Logs(unittest.TestCase):
    def test_timers_belong_to_the_micro_step_that_follows(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            log.write_text(
                "[Rank 0] time (ms) | optimizer_transmit_time: 12.50 | optimizer_step: 3.00\n"
                "[Rank 0] time (ms) | fwd_microstep: 5.11 | bwd_microstep: 9.87\n"
                "gpu-check micro_step 0\nnoise\n"
                "[2026-11-20] [INFO] [Rank 0] time (ms) | fwd_microstep: 4.00\n"
                "gpu-check micro_step 1\n")
            self.assertEqual(measure.timers(log), [
                {"micro_step": 0, "timers_ms": {
                    "optimizer_transmit_time": 12.5, "optimizer_step": 3.0, "fwd_microstep": 5.11,
                    "bwd_microstep": 9.87}},
                {"micro_step": 1, "timers_ms": {"fwd_microstep": 4.0}}])

    def test_a_line_that_was_cut_off_is_left_out(self):
        case = Case("gpt2-xl", **parse("plain"))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "training.jsonl"
            file.write_text('{"case": "gpt2-xl-plain", "line": "begin"}\n'
                            '{"case": "other", "line": "x"}\n{"case": "gpt2-xl-plain", "li')
            self.assertEqual(measure.read_lines(file, case),
                             [{"case": "gpt2-xl-plain", "line": "begin"}])

    def test_figures_keep_updates_apart(self):
        step = {"forward_ms": 1, "backward_ms": 2}
        lines = [{"line": "part", "part": "free", "total_ms": 30.0, "micro_steps": [
            {**step, "step_ms": 0, "update": False}, {**step, "step_ms": 1, "update": False},
            {**step, "step_ms": 7, "update": True}]}]
        self.assertEqual(measure.figures(lines), {"free": {
            "mean_ms": 10.0, "update_median_ms": 10, "other_median_ms": 3.5}})


if __name__ == "__main__":
    unittest.main()
