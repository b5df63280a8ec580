#!/usr/bin/env python3
"""What swapping versions costs callers: p99 of Lookup in windows with swaps over p99 in windows without.

Usage: swap_latency.py BIN_DIR [--windows N] [--seconds S] [--swap-every S] [--batch N] [--rows V] [--dim D] [--most RATIO]

Serves a table of V x D float32 (default 50,257 x 768, as GPT-2 small), finds the peak rate of Lookups with a closed loop, then
measures by an open loop at 20 % of that rate, from the planned send time. Windows alternate: without, with, without, ... ; in
one with swaps the file is loaded again every S seconds, by SIGHUP. Timed: everything between the planned time of a call
and its answer. Not timed: the first second of each window. Prints each pair and the median of the ratios; with --most, exit
code 1 if that is higher. Server, tester and loader share the machine's CPUs, so a quiet machine is needed for a figure.
"""
import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading


def load_test(bin_dir, address, batch, seconds, rate=None):
    command = [f"{bin_dir}/embedding-loadtest", "--address", address, "--batch-size", str(batch), "--output", "json",
               "--warmup", "1s", "--duration", f"{int(seconds * 1000)}ms"]
    if rate:
        command += ["--rate", f"{rate:.0f}", "--arrivals", "poisson"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout)


def p99_us(report):
    times = report.get("latency", report["service"])
    return next(one["value_ns"] for one in times["percentiles"] if one["p"] == 99) / 1000


class Server:
    """Ours, with a table "t" of seeded normal numbers; counts what its log says of loads."""

    def __init__(self, bin_dir, folder, rows, dim):
        import numpy  # here: the driver of the benchmarks must start without it
        table = os.path.join(folder, "t.npy")
        numpy.save(table, numpy.random.default_rng(1).standard_normal((rows, dim), dtype=numpy.float32))
        self.process = subprocess.Popen(
            [f"{bin_dir}/embedding-server", "--table", f"t={table}", "--grpc-address", "127.0.0.1:0", "--admin-address",
             "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        self.address, self.loads, self.failure = "", 0, ""
        try:
            self.await_ready()
        except BaseException:  # a signal: nobody else knows of the process yet
            self.close()
            raise
        threading.Thread(target=self.read_log, daemon=True).start()

    def await_ready(self):
        for line in self.process.stderr:
            self.address = self.address or "".join(re.findall(r"listening grpc=(\S+)", line))
            if " ready " in line:
                return
        raise RuntimeError(f"the server ended with exit code {self.process.wait()} before it was ready")

    def read_log(self):
        for line in self.process.stderr:
            if "table loaded" in line:
                self.loads += 1
            elif "load failed" in line:
                self.failure = line

    def close(self):
        self.process.terminate()
        self.process.wait()


class Swaps:
    """Reloads the table again and again while a window lasts: by SIGHUP, as starting a client each time would cost callers as
    much as the reload does."""

    def __init__(self, server, every):
        self.server, self.every = server, every

    def __enter__(self):
        self.before = self.server.loads
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        while not self.ended.wait(self.every):
            self.server.process.send_signal(signal.SIGHUP)

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.count = self.server.loads - self.before
        if self.server.failure or not self.count:
            raise RuntimeError(f"no reloads: {self.server.failure}")


def window_pairs(bin_dir, windows, seconds, swap_every=1, batch=64, rows=50257, dim=768):
    """The peak rate in calls/s, then per pair of windows the p99 without swaps and with them, in us, and how many swaps."""
    with contextlib.ExitStack() as stack:
        server = Server(bin_dir, stack.enter_context(tempfile.TemporaryDirectory()), rows, dim)
        stack.callback(server.close)
        peak = load_test(bin_dir, server.address, batch, seconds)["answered_per_second"]
        yield peak
        rate = max(1, 0.2 * peak)
        for _ in range(windows):
            without = p99_us(load_test(bin_dir, server.address, batch, seconds, rate))
            with Swaps(server, swap_every) as swaps:
                during = p99_us(load_test(bin_dir, server.address, batch, seconds, rate))
            yield without, during, swaps.count


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

    pairs = window_pairs(options.bin_dir, options.windows, options.seconds, options.swap_every, options.batch, options.rows, options.dim)
    peak = next(pairs)
    print(f"{options.rows} x {options.dim} F32, {options.batch} rows a call; peak {peak:.0f} calls/s, "
          f"measured at {0.2 * peak:.0f} calls/s", flush=True)
    ratios, all_swaps = [], 0
    for without, during, swaps in pairs:
        ratios.append(during / without)
        all_swaps += swaps
        print(f"window {len(ratios)}: p99 {without:.0f} us without, {during:.0f} us with {swaps} swaps, ratio {ratios[-1]:.2f}", flush=True)
    median = statistics.median(ratios)
    print(f"median ratio {median:.2f} over {options.windows} pairs of windows of {options.seconds:g} s, {all_swaps} swaps")
    return 1 if options.most and median > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
