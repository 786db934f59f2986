"""The package zenflow as it is installed, beside the programs of the same wheel: script/wheel runs this in the wheel's
environment. Nothing but the standard library is needed; where pandas is there, tables are tried, too."""

import dataclasses
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import zenflow
from zenflow.integrations import _advice, _host, _job, _report

BIN = pathlib.Path(sys.executable).parent
SHARE = BIN.parent / "share" / "zenflow-sim"
SCENARIO = SHARE / "scenarios" / "llama2_7b_4xa100.yaml"
DS = {"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 2,
      "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
      "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "overlap_comm": True}}
JOB = {"model": "Qwen/Qwen2.5-1.5B", "gpu": "A100-SXM4-80GB", "gpus": 2, "ram": "512GB", "cores": 64,
       "sequence_length": 512}
FLAGS = [word for name, value in JOB.items() for word in ("--" + name.replace("_", "-"), str(value))]


def said(program, *arguments):
    """A program's JSON document."""
    done = subprocess.run([str(BIN / program), *map(str, arguments), "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return json.loads(done.stdout)


class SameAsThePrograms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.ds = self.folder / "ds.json"
        self.ds.write_text(json.dumps(DS))

    def test_check(self):
        answer = zenflow.check(ds=self.ds, **JOB)
        document = said("zenflow-sim", "check", "--ds", self.ds, *FLAGS)
        self.assertEqual(answer.document, document)
        self.assertEqual(answer.verdict, "fits")
        self.assertTrue(answer.fits)
        self.assertEqual(answer.step_time_ms, document["step_time_ms"])
        self.assertEqual(answer.changes[0].set, document["changes"][0]["set"])
        self.assertEqual(answer.facts[0].path, document["facts"][0]["path"])
        self.assertIn("<table>", answer._repr_html_())
        self.assertEqual(zenflow.check(ds=DS, **JOB).step_time_ms, answer.step_time_ms)
        self.assertEqual(zenflow.check(**{**JOB, "ram": "4GB"}, ds=DS).verdict, "does_not_fit")

    def test_simulate(self):
        simulation = zenflow.simulate(SCENARIO, schedules=["zero-offload", "zenflow"], set={"topk_ratio": 0.05})
        document = said("zenflow-sim", "run", SCENARIO, "--schedule", "zero-offload", "--schedule", "zenflow", "--set",
                        "topk_ratio=0.05")
        self.assertEqual(simulation.document, document)
        one = simulation["zenflow"]
        self.assertEqual(one.topk_ratio, 0.05)
        self.assertEqual(one.step_time_ms, document["results"][1]["step_time_ms"])
        self.assertEqual(one.memory.gpu_peak_bytes, document["results"][1]["memory"]["gpu_peak_bytes"])
        self.assertEqual([row["schedule"] for row in simulation.rows()], ["zero-offload", "zenflow"])
        self.assertEqual(zenflow.simulate(ds=self.ds, **JOB).results[0].step_time_ms,
                         zenflow.check(ds=self.ds, **JOB).step_time_ms)

    def test_tune(self):
        tuned = zenflow.tune(ds=self.ds, vary=["stage=1,2", "update_interval=4"], **JOB)
        document = said("zenflow-tune", "--ds", self.ds, *FLAGS, "--vary", "stage=1,2", "--vary", "update_interval=4")
        for name in ("chosen", "fastest", "baseline", "changes", "search"):
            self.assertEqual(tuned.document[name], document[name])
        self.assertEqual(tuned.chosen.result.step_time_ms, document["chosen"]["result"]["step_time_ms"])
        self.assertEqual(tuned.config["zero_optimization"]["stage"], tuned.chosen.setting["stage"])
        with self.assertRaises(zenflow.Infeasible):
            zenflow.tune(ds=self.ds, vary=["stage=1,2", "update_interval=4"], max_host_memory="1 GiB",
                         max_gpu_memory="2 GiB", **JOB)

    def test_tune_that_misses_what_was_measured_writes_nothing(self):
        tuned = zenflow.tune(ds=self.ds, vary=["stage=1,2", "update_interval=4"], measured_step="1000 s", **JOB)
        self.assertIsNone(tuned.config)
        self.assertIn("off by a factor", " ".join(tuned.warnings))

    def test_lint(self):
        wrong = {**DS, "zero_optimization": {"stage": 7}}
        report = zenflow.lint(wrong)
        self.ds.write_text(json.dumps(wrong))
        document = said("zenflow-sim", "lint", self.ds)
        self.assertGreater(report.errors, 0)
        self.assertEqual([finding.code for finding in report.findings],
                         [finding["code"] for finding in document["findings"]])
        self.assertRegex(report.findings[0].at, r"ds_config\.json:\d+:\d+$")

    def test_read_trace(self):
        file = self.folder / "run.json.gz"
        zenflow.simulate(SCENARIO, schedules=["zenflow"], trace=file)
        self.assertIn("traceEvents", json.loads(gzip.open(file).read()))
        trace = zenflow.read_trace(file)
        document = said("zenflow-sim", "explain", "--trace", file)
        self.assertEqual(trace.document, document["traces"][0])
        self.assertEqual(len(trace.rows()), trace.steps["count"])

    def test_pandas(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("no pandas")
        frame = zenflow.simulate(SCENARIO).to_pandas()
        self.assertEqual(list(frame["schedule"]), ["gpu-only", "zero-offload", "zero-infinity", "zenflow"])


class Behaviour(unittest.TestCase):
    def test_errors_have_file_and_line(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "bad.yaml"
            file.write_text("name: bad\nmodle: x\n")
            with self.assertRaises(zenflow.InputError) as raised:
                zenflow.simulate(file)
        self.assertEqual(raised.exception.file, str(file))
        self.assertEqual(raised.exception.line, 2)
        self.assertIn('did you mean "model"', str(raised.exception))
        with self.assertRaises(zenflow.InputError) as raised:
            zenflow.check(model="Qwen/Qwen3-8B")
        self.assertIn("--gpu: required", str(raised.exception))
        self.assertIsNone(raised.exception.line)

    def test_nothing_is_printed(self):
        code = "import zenflow; zenflow.check(model='Qwen/Qwen3-8B', gpu='A100'); zenflow.simulate(%r)" % str(SCENARIO)
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=True)
        self.assertEqual(done.stdout, b"")

    def test_threads_call_at_once(self):
        expected = zenflow.simulate(SCENARIO).document
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(zenflow.simulate(SCENARIO).document))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [expected] * 8)

    def test_ctrl_c_ends_a_search(self):
        """Interrupted while it searches for minutes; what comes is KeyboardInterrupt, and the next call works. A call
        that did not let other threads run would never hear of it."""
        code = ("import os, signal, threading, zenflow\n"
                "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # where a shell has it ignored
                "threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
                "try:\n"
                "    zenflow.tune(%r, vary=['topk_ratio=0.001:0.9:0.001', 'update_interval=1:64:1', 'stage=1,2,3',\n"
                "                 'select_interval=1:64:1'], max_points=10**12, max_staleness=1000, threads=1)\n"
                "except KeyboardInterrupt:\n"
                "    print(zenflow.simulate(%r)['zenflow'].schedule)\n" % (str(SCENARIO), str(SCENARIO)))
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=120, check=True)
        self.assertEqual(done.stdout.decode().strip(), "zenflow")


class InTrainingScripts(unittest.TestCase):
    """zenflow.integrations, as far as no training is needed; tests/interop/advisor.py trains."""

    RATES = _host.Rates(product=1e11, copy=5e9, stream=2e10, latency=1e-6, dispatch=1e-5)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        job = {name: value for name, value in JOB.items() if name not in ("gpu", "ram", "cores")}
        self.job = {**job, "gpus": 1, "micro_batch_size": 1, "ds": {**DS, "train_micro_batch_size_per_gpu": 1}}

    def test_needs_no_other_packages(self):
        code = ("import sys, zenflow.integrations as one; one.OffloadAdvisor('advice')\n"
                "print([name for name in ('torch', 'transformers', 'deepspeed') if name in sys.modules])")
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
        self.assertEqual(done.stdout.decode().strip(), "[]")

    def test_a_host_is_fitted_to_a_run(self):
        """Constants of another host are found in what is simulated of it."""
        for offload in (True, False):
            job = self.job if offload else {**self.job, "ds": {**self.job["ds"], "zero_optimization": {"stage": 2}}}
            file = str(self.folder / "host.yaml")
            other = _host.profile_of(self.RATES, 1)
            other["gpu"]["elementwise_efficiency"]["value"] = 0.05
            other["gpu"]["streaming_efficiency"]["value"] = 0.3
            other["host"]["adam_bandwidth"]["value"] = "6 GB/s"
            other["host"]["elementwise_bandwidth"]["value"] = "6 GB/s"
            pathlib.Path(file).write_text(json.dumps(other))
            run = zenflow.simulate(host=file, **job).results[0]
            phases = {"forward": run.gpu_compute_ms / 3, "backward": run.gpu_compute_ms * 2 / 3, "step": 1.0}
            if not offload:  # the device's optimizer is in what it computes
                phases = {"forward": run.gpu_compute_ms * 0.3, "backward": run.gpu_compute_ms * 0.6, "step": 1.0}
            fitted, explains = _host.fit(_host.profile_of(self.RATES, 1), file, job, phases, run.step_time_ms)
            self.assertTrue(explains, fitted)
            self.assertAlmostEqual(zenflow.simulate(host=file, **job).results[0].step_time_ms, run.step_time_ms,
                                   delta=0.05 * run.step_time_ms)
            self.assertEqual("host.adam_bandwidth" in fitted, offload)
            self.assertNotIn("gpu.peak", fitted)
            # Measured while others took the cores: what the run shows is believed.
            slow = _host.profile_of(dataclasses.replace(self.RATES, product=self.RATES.product / 10), 1)
            fitted, explains = _host.fit(slow, file, job, phases, run.step_time_ms)
            self.assertTrue(explains, fitted)
            self.assertIn("gpu.peak", fitted)

    def test_a_step_that_no_constant_explains_is_told(self):
        file = str(self.folder / "host.yaml")
        _, explains = _host.fit(_host.profile_of(self.RATES, 1), file, self.job, None, 1e-3)
        self.assertFalse(explains)

    def advice(self, output, scale=1.1, before=None):
        """Of a run that takes `scale` times what is predicted; its recording is the simulated run's."""
        folder = self.folder / output
        folder.mkdir()
        trace = str(folder / "trace.json.gz")
        # zenflow-tune takes a model's file beside a recording.
        arguments = {**self.job, "model": str(SHARE / "scenarios" / "models" / "opt_125m.json"), "dtype": "bf16",
                     "gradient_accumulation_steps": 1, "activation_checkpointing": False}
        ds = arguments.pop("ds")
        hardware = {name: JOB[name] for name in ("gpu", "ram", "cores")}
        step_ms = zenflow.simulate(ds=ds, trace=trace, **arguments, **hardware).results[0].step_time_ms
        measured = _advice.Measured(scale * step_ms, [scale * step_ms] * 4, 1)
        found = _advice.advise(_job.Job(arguments, ds, 1, False), measured, str(folder), trace=trace, module=None,
                               hardware=hardware, tune={}, before=before, target="deepspeed")
        _report.write_report(str(folder), found)
        return found, step_ms

    def test_a_recording_with_gpus_is_tuned_by_its_own_numbers(self):
        found, step_ms = self.advice("first")
        self.assertAlmostEqual(found.predicted_ms, step_ms, places=6)
        self.assertEqual(found.notes, [])
        self.assertIn("trace", found.tuned.document)
        self.assertEqual(found.tuned.config["zero_optimization"].get("offload_optimizer"), None)
        self.assertGreater(found.gain, 1)
        report = json.loads((self.folder / "first" / "report.json").read_text())
        self.assertEqual(report["predicted_gain"], found.gain)
        page = (self.folder / "first" / "report.md").read_text()
        self.assertIn("`zero_optimization.offload_optimizer removed`", page)
        self.assertIn("of a step it computes", page)
        self.assertNotIn("no independent one", page)

    def test_a_later_run_is_held_against_what_was_predicted(self):
        first, _ = self.advice("first", scale=1.2)
        later, _ = self.advice("later", scale=0.8, before=str(self.folder / "first"))
        self.assertEqual(later.before["predicted_gain"], first.gain)
        self.assertAlmostEqual(later.before["measured_gain"], 1.5)
        with self.assertRaisesRegex(zenflow.Error, "no report of an earlier run"):
            self.advice("lost", before=str(self.folder / "nowhere"))

    def test_a_prediction_that_is_far_off_is_not_relied_on(self):
        found, _ = self.advice("first", scale=5)
        self.assertIsNone(found.gain)
        self.assertIn("not to be relied on", " ".join(found.notes))
        self.assertFalse((self.folder / "first" / "tuned" / "ds_config_optimal.json").exists())

    def test_profiles_by_name(self):
        self.assertEqual(pathlib.Path(_advice._shipped_profile("h200_x1")), SHARE / "profiles" / "h200_x1.yaml")
        self.assertIsNone(_advice._shipped_profile("RTX 4090"))


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    unittest.main()
