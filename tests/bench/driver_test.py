"""The driver of the benchmarks (run_bench.py): what it writes, says and leaves behind. Its programs are made up here; with
EMBEDDING_BENCH_BIN, the folder of the real ones, all rows of a quick run are run on tiny tables as well."""
import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from goals import GOALS

FIELDS = {"name", "ours", "peer", "ratio", "lower_is_better", "spread", "unit", "must", "aim"}
ROW = "load_vs_pread_1GiB"
REAL = os.environ.get("EMBEDDING_BENCH_BIN")

# Takes twice as long as its peer.
HALF_AS_FAST = """
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": 0.5 if line.startswith("load") else 0.25}), flush=True)
"""
# Tells who it is, and never answers.
HANGS = """
print(os.getpid(), file=sys.stderr, flush=True)
print("ready", flush=True)
while True:
    signal.pause()
"""


class DriverTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(self.folder, "results", "results.json")

    def make_program(self, body):
        path = os.path.join(self.folder, "load_bench")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!{sys.executable}\nimport json, os, signal, sys\n{body}")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def start(self, *words, folder=None, **environment):
        command = [sys.executable, "-B", os.path.join(HERE, "run_bench.py"), folder or self.folder, "--output", self.output, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, **environment})

    def run_driver(self, *words, **more):
        process = self.start(*words, **more)
        out, err = process.communicate()
        return process.returncode, out, err

    def written(self):
        with open(self.output, encoding="ascii") as file:
            return json.load(file)

    def check_results(self, results):
        self.assertEqual(set(results), {"machine", "commit", "results"})
        self.assertTrue(results["commit"])
        self.assertGreaterEqual(results["machine"]["cpus"], 1)
        for row in results["results"]:
            self.assertEqual(set(row), FIELDS)
            goal = GOALS[row["name"]]
            self.assertEqual((row["must"], row["aim"], row["lower_is_better"]), (goal.must, goal.aim, goal.lower_is_better))
            for number in (row["ours"], row["peer"], row["ratio"], *row["spread"]):
                self.assertTrue(math.isfinite(number) and number >= 0, row)
            self.assertEqual(len(row["spread"]), 2)
            self.assertLessEqual(row["spread"][0], row["spread"][1])
            self.assertTrue(row["unit"])

    def test_ratio_is_the_peers_time_over_ours(self):
        self.make_program(HALF_AS_FAST)
        code, out, err = self.run_driver("--smoke", ROW)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, rf"(?m)^{ROW} +500 +250 +0\.500 .* NO ")
        self.check_results(self.written())
        (row,) = self.written()["results"]
        self.assertEqual((row["name"], row["ours"], row["peer"], row["ratio"]), (ROW, 500, 250, 0.5))

    def test_an_unknown_name_is_a_usage_error_that_lists_the_rows(self):
        code, _, err = self.run_driver("nothing_like_it")
        self.assertEqual(code, 2)
        self.assertIn("no such benchmark: nothing_like_it; there are: lookup_", err)
        self.assertFalse(os.path.exists(self.output))

    def test_a_row_that_fails_is_told_and_fails_the_run(self):
        self.make_program("sys.exit(3)")
        code, _, err = self.run_driver("--smoke", ROW)
        self.assertEqual(code, 1)
        self.assertRegex(err, "FAILED: .*load_bench ended with exit code 3 before it was ready")
        self.assertEqual(self.written()["results"], [])

    def test_without_redis_its_rows_are_skipped_aloud(self):
        code, _, err = self.run_driver("--smoke", "lookup_vs_redis_64x768", PATH="/nonexistent")
        self.assertEqual(code, 0)
        self.assertIn("SKIPPED: lookup_vs_redis_64x768 did NOT run", err)
        self.assertEqual(self.written()["results"], [])

    def test_rows_of_lookups_need_no_numpy(self):
        with open(os.path.join(self.folder, "numpy.py"), "w", encoding="ascii") as file:
            file.write("raise ImportError('no numpy here')\n")
        code, _, err = self.run_driver("--smoke", "lookup_vs_redis_64x768", PATH="/nonexistent", PYTHONPATH=self.folder)
        self.assertEqual((code, err), (0, "SKIPPED: lookup_vs_redis_64x768 did NOT run: there is no redis-server\n"))

    def interrupt(self, number):
        self.make_program(HANGS)
        os.makedirs(os.path.dirname(self.output))
        with open(self.output, "w", encoding="ascii") as file:
            file.write("of the last run")
        with self.start("--smoke", ROW) as process:
            told = process.stderr.readline()  # the program's, or why the driver did not start it
            if not told.strip().isdigit():
                process.terminate()
                self.fail(told + process.stderr.read())
            process.send_signal(number)
            process.wait()
            # Ends when the program has, too: its number may be known a moment longer, until somebody asks how it ended.
            process.stderr.read()
        with open(self.output, encoding="ascii") as file:
            self.assertEqual(file.read(), "of the last run")
        return process.returncode

    def test_a_run_that_is_terminated_ends_its_programs(self):
        self.assertEqual(self.interrupt(signal.SIGTERM), 143)

    def test_a_run_that_is_interrupted_ends_its_programs(self):
        self.assertEqual(self.interrupt(signal.SIGINT), 130)

    @unittest.skipUnless(REAL, "EMBEDDING_BENCH_BIN is not set")
    def test_every_row_of_a_quick_run_runs(self):
        code, _, err = self.run_driver("--smoke", folder=REAL)
        self.assertEqual(code, 0, err)
        self.check_results(self.written())
        measured = {row["name"] for row in self.written()["results"]}
        missing = {name for name, goal in GOALS.items() if not goal.full_run} - measured
        skipped = re.findall(r"SKIPPED: (\w+) did NOT run", err)
        self.assertEqual({name for name in missing if name not in skipped and not ("faiss" in name and "faiss" in skipped)}, set())


if __name__ == "__main__":
    unittest.main()
