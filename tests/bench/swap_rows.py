"""What reloading the table costs callers of Lookup: windows of ../end_to_end/swap_latency.py, without and with reloads."""
import os
import statistics
import sys

from measure import summary

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
import swap_latency

NAMES = {"reload_p99"}
FULL = (10, 8)  # windows of each kind, seconds
QUICK = (4, 3)
TABLE = (50257, 768)


def make_tiny():
    global QUICK, TABLE
    QUICK, TABLE = (1, 1), (500, 16)


def measure(folder, names, quick, scratch):
    if not names:
        return
    windows, seconds = QUICK if quick else FULL
    pairs = swap_latency.window_pairs(folder, windows, seconds, rows=TABLE[0], dim=TABLE[1])
    peak = next(pairs)
    taken = list(pairs)
    ratio, spread = summary([during / without for without, during, _ in taken])
    yield {"name": "reload_p99", "ours": statistics.median(during for _, during, _ in taken),
           "peer": statistics.median(without for without, _, _ in taken), "ratio": ratio, "spread": spread,
           "unit": f"us at {0.2 * peak:.0f} calls/s, {sum(swaps for _, _, swaps in taken)} reloads, peer: without"}
