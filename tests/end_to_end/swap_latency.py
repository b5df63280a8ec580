#!/usr/bin/env python3
"""What swapping versions costs callers: p99 of Lookup in windows with swaps over p99 in windows without.

Usage: swap_latency.py BIN_DIR [--windows N] [--seconds S] [--swap-every S] [--batch N] [--rows V] [--dim D] [--most RATIO]

Serves a table of V x D float32 (default 50,257 x 768, as GPT-2 small), finds the peak rate of Lookups with a closed loop, then
measures by an open loop at 20 % of that rate, from the planned send time. Windows alternate: without, with, without, ... ; in
one with swaps the file is loaded again every S seconds over LoadTable. Timed: everything between the planned time of a call
and its answer. Not timed: the first second of each window. Prints each pair and the median of the ratios; with --most, exit
code 1 if that is higher. Server, tester and loader share the machine's CPUs, so a quiet machine is needed for a figure.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading

import numpy


def load_test(bin_dir, address, batch, seconds, rate=None):
    command = [f"{bin_dir}/embedding-loadtest", "--address", address, "--batch-size", str(batch), "--output", "json",
               "--warmup", "1s", "--duration", f"{int(seconds * 1000)}ms"]
    if rate:
        command += ["--rate", f"{rate:.0f}", "--arrivals", "poisson"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout)


def p99_us(report):
    times = report.get("latency", report["service"])
    return next(one["value_ns"] for one in times["percentiles"] if one["p"] == 99) / 1000


class Swaps:
    """Reloads the table again and again while a window lasts."""

    def __init__(self, bin_dir, address, every):
        self.command = [f"{bin_dir}/embedding-cli", "reload", "t", "--address", address]
        self.every = every
        self.count = 0

    def __enter__(self):
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(self.every):
            subprocess.run(self.command, check=True, capture_output=True)
            self.count += 1

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("--windows", type=int, default=10, help="of each kind")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--swap-every", type=float, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rows", type=int, default=50257)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--most", type=float)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "t.npy")
        numpy.save(table, numpy.random.default_rng(1).standard_normal((options.rows, options.dim), dtype=numpy.float32))
        server = subprocess.Popen(
            [f"{options.bin_dir}/embedding-server", "--table", f"t={table}", "--table-root", folder, "--grpc-address",
             "127.0.0.1:0", "--admin-address", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        try:
            address = ""
            for line in server.stderr:
                address = address or "".join(re.findall(r"listening grpc=(\S+)", line))
                if " ready " in line:
                    break
            threading.Thread(target=server.stderr.read, daemon=True).start()
            peak = load_test(options.bin_dir, address, options.batch, options.seconds)["answered_per_second"]
            rate = max(1, 0.2 * peak)
            print(f"{options.rows} x {options.dim} F32, {options.batch} rows a call; peak {peak:.0f} calls/s, "
                  f"measured at {rate:.0f} calls/s", flush=True)
            ratios = []
            swaps = Swaps(options.bin_dir, address, options.swap_every)
            for window in range(options.windows):
                without = p99_us(load_test(options.bin_dir, address, options.batch, options.seconds, rate))
                before = swaps.count
                with swaps:
                    during = p99_us(load_test(options.bin_dir, address, options.batch, options.seconds, rate))
                ratios.append(during / without)
                print(f"window {window + 1}: p99 {without:.0f} us without, {during:.0f} us with {swaps.count - before} swaps, "
                      f"ratio {ratios[-1]:.2f}", flush=True)
            median = statistics.median(ratios)
            print(f"median ratio {median:.2f} over {options.windows} pairs of windows of {options.seconds:g} s, "
                  f"{swaps.count} swaps")
            return 1 if options.most and median > options.most else 0
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
