"""How the cost of a Lookup grows: the tables of docs/benchmarks.md, by hand (needs numpy):

  python3 tests/bench/scaling.py BIN_FOLDER [batch] [rows] [clients] [ids]

batch: server CPU of a call against batch B and width d, with a + b * B + c * (bytes of rows) fitted to some points and checked on
others; rows: against the number of rows V; clients: calls/s against calls outstanding; ids: uniform ids against Zipf's.
"""
import contextlib
import os
import sys

import numpy

from measure import Program, in_turns, medians, rate_and_cpu

WINDOWS, SECONDS = 5, 0.3
TABLE_BYTES = 154_000_000
FITTED = [(dim, batch) for dim in (32, 128, 512, 1024) for batch in (1, 16, 64, 256)]
LEFT_OUT = [(64, 128), (256, 32), (256, 128), (768, 8), (768, 64), (768, 192)]


class Bench:
    """One server; clients of several shapes take turns at it."""

    def __init__(self, folder, num_rows, dim):
        self.folder, self.num_rows, self.dim = folder, num_rows, dim
        self.stack = contextlib.ExitStack()
        self.server = self.stack.enter_context(Program(os.path.join(folder, "floor_server"), num_rows, dim, 1))

    def measure(self, shapes):
        """shapes: (batch, outstanding, ids). Per shape the medians of calls/s and of server CPU in us a call."""
        clients = [self.stack.enter_context(Program(
            os.path.join(self.folder, "lookup_client"), "unary", self.server.first_line, self.num_rows, self.dim, batch, outstanding,
            min(outstanding, 2), ids)) for batch, outstanding, ids in shapes]
        taken = in_turns(WINDOWS, **{str(i): lambda _, client=client: rate_and_cpu(self.server, client, SECONDS)
                                     for i, client in enumerate(clients)})
        return [medians(windows) for windows in taken.values()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()


def by_batch(folder):
    cost = {}
    points = FITTED + LEFT_OUT
    for dim in sorted({dim for dim, _ in points}):
        batches = [batch for d, batch in points if d == dim]
        with Bench(folder, min(TABLE_BYTES // (dim * 4), 200_000), dim) as bench:
            for batch, (_, cpu) in zip(batches, bench.measure([(batch, 8, "uniform") for batch in batches])):
                cost[dim, batch] = cpu
    terms = {(dim, batch): numpy.array([1, batch, batch * dim * 4 / 1024]) for dim, batch in points}
    # Relative errors count: the costs span two powers of ten.
    left = numpy.array([terms[point] / cost[point] for point in FITTED])
    (a, b, c), *_ = numpy.linalg.lstsq(left, numpy.ones(len(FITTED)), rcond=None)
    print(f"server CPU of a call = {a:.1f} us + {b:.3f} us * B + {c:.3f} us * KiB of rows")
    for name, some in (("fitted", FITTED), ("left out", LEFT_OUT)):
        for dim, batch in some:
            fit = float(terms[dim, batch] @ numpy.array([a, b, c]))
            print(f"  {name:8}  d {dim:5}  B {batch:4}  {cost[dim, batch]:8.1f} us  fit {fit:8.1f} us  {fit / cost[dim, batch] - 1:+.0%}")


def by_rows(folder):
    for num_rows in (1_000, 10_000, 50_257, 200_000, 1_000_000):
        with Bench(folder, num_rows, 128) as bench:
            [(rate, cpu)] = bench.measure([(64, 8, "uniform")])
            print(f"V {num_rows:8}  64 x 128  {rate:8.0f} calls/s  {cpu:6.1f} us", flush=True)


def by_clients(folder):
    numbers = (1, 2, 4, 8, 16, 32)
    with Bench(folder, 50_257, 128) as bench:
        for outstanding, (rate, cpu) in zip(numbers, bench.measure([(64, n, "uniform") for n in numbers])):
            print(f"{outstanding:3} outstanding  64 x 128  {rate:8.0f} calls/s  {cpu:6.1f} us")


def by_ids(folder):
    for dim in (128, 768):
        with Bench(folder, 50_257, dim) as bench:
            for ids, (rate, cpu) in zip(("uniform", "zipf"), bench.measure([(64, 8, "uniform"), (64, 8, "zipf")])):
                print(f"{ids:8} ids  64 x {dim}  {rate:8.0f} calls/s  {cpu:6.1f} us")


def main():
    folder, *parts = sys.argv[1:]
    for name, part in (("batch", by_batch), ("rows", by_rows), ("clients", by_clients), ("ids", by_ids)):
        if not parts or name in parts:
            part(folder)


if __name__ == "__main__":
    main()
