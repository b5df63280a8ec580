"""What reloading the table costs callers of Lookup (tests/end_to_end/swap_latency.py)."""
import os
import re
import statistics
import subprocess
import sys

from measure import summary

NAMES = {"reload_p99"}
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end", "swap_latency.py")


def measure(folder, names, quick, scratch):
    if not names:
        return
    windows, seconds = ("4", "3") if quick else ("10", "8")
    done = subprocess.run([sys.executable, SCRIPT, folder, "--windows", windows, "--seconds", seconds], capture_output=True,
                          text=True, check=False, env=dict(os.environ, TMPDIR=scratch))
    pairs = [(float(with_swaps), float(without))
             for without, with_swaps in re.findall(r"p99 (\d+) us without, (\d+) us with", done.stdout)]
    if done.returncode != 0 or not pairs:
        raise RuntimeError(f"{SCRIPT} failed: {done.stdout}{done.stderr}")
    ratio, spread = summary([with_swaps / without for with_swaps, without in pairs])
    yield {"name": "reload_p99", "ours": statistics.median(pair[0] for pair in pairs),
           "peer": statistics.median(pair[1] for pair in pairs), "ratio": ratio, "spread": spread, "unit": "us, peer: without reloads"}
