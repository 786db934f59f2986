"""gpu-check's folder of results: what does not fit is left out by name, the rest stays whole.

  results_test.py SCRIPT_FOLDER
"""
import json
import pathlib
import random
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv.pop(1))

from gpu_check import results  # noqa: E402


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "out"
        self.out.mkdir()
        self.results = results.Results(self.out, pathlib.Path(folder.name) / "staging")
        self.phase = self.results.begin_phase("probe")
        patch = unittest.mock.patch.object(results, "LARGEST_FILE", 100_000)
        patch.start()
        self.addCleanup(patch.stop)

    def write(self):
        self.results.write({"program": "gpu-check"}, "table\n", ["probe"])
        return json.loads((self.out / "summary.json").read_text())

    def names_in(self, archive):
        with tarfile.open(self.out / archive) as tar:
            return tar.getnames()

    @staticmethod
    def noise(count):
        return random.Random(1).randbytes(count)

    def test_logs_that_do_not_fit_lose_the_largest(self):
        (self.phase / "log").write_text("said\n")
        (self.phase / "small.bin").write_bytes(self.noise(50_000))
        (self.phase / "large.bin").write_bytes(self.noise(90_000))
        summary = self.write()
        self.assertEqual(self.names_in("logs.tar.gz"), ["probe/log", "probe/small.bin"])
        self.assertEqual([one["file"] for one in summary["left_out"]], ["probe/large.bin"])
        self.assertLessEqual((self.out / "logs.tar.gz").stat().st_size, 101_000)

    def test_traces_that_do_not_fit_lose_the_largest(self):
        for name, size in (("a", 60_000), ("b", 70_000), ("c", 20_000)):
            (self.phase / "publish" / "traces" / f"{name}.json.gz").write_bytes(self.noise(size))
        summary = self.write()
        self.assertEqual(self.names_in("traces.tar"), ["probe/a.json.gz", "probe/c.json.gz"])
        self.assertEqual([one["file"] for one in summary["left_out"]], ["probe/b.json.gz"])
        self.assertEqual(summary["files"],
                         ["logs.tar.gz", "summary.json", "summary.txt", "traces.tar"])

    def test_long_logs_keep_both_ends(self):
        with unittest.mock.patch.object(results, "LARGEST_LOG", 1000):
            (self.phase / "log").write_text("first\n" + "x" * 5000 + "\nlast")
            self.write()
        with tarfile.open(self.out / "logs.tar.gz") as tar:
            kept = tar.extractfile("probe/log").read()
        self.assertTrue(kept.startswith(b"first\n") and kept.endswith(b"\nlast"))
        self.assertIn(b"[... 4011 bytes left out ...]", kept)  # 5011 less 1000

    def test_results_of_an_earlier_run_are_known_by_its_summary(self):
        (self.phase / "publish" / "host.yaml").write_text("name: host\n")
        (self.out / "foreign.txt").write_text("mine")
        self.write()
        self.assertEqual(sorted(file.name for file in results.own_files(self.out)),
                         ["host.yaml", "logs.tar.gz", "summary.json", "summary.txt"])


if __name__ == "__main__":
    unittest.main()
