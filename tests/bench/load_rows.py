"""Loading a file of 1 GiB that the page cache holds against a plain pread of it (load_bench.cc), two threads each."""
import os
import statistics

from measure import Program, in_turns, ratio_of_times

NAMES = {"load_vs_pread_1GiB"}
DIM = 768
THREADS = 2
FULL = (1024, 25)  # MiB, rounds
QUICK = (256, 15)
PIECES = [size << 20 for size in (1, 2, 4, 8)]  # of the peer's pread: it takes what is fastest


def make_tiny():
    global QUICK
    QUICK = (8, 1)


def make_file(path, mebibytes):
    """Seeded normal numbers, on the disk before anything is timed, so that writing them out disturbs nobody."""
    import numpy as np
    random = np.random.default_rng(20261130)
    rows = (mebibytes << 20) // (DIM * 4)
    with open(path, "wb") as file:
        for begin in range(0, rows, 1 << 14):
            file.write(random.standard_normal((min(1 << 14, rows - begin), DIM), dtype=np.float32))
        file.flush()
        os.fsync(file.fileno())


def measure(folder, names, quick, scratch):
    if not names:
        return
    mebibytes, rounds = QUICK if quick else FULL
    path = os.path.join(scratch, "load.raw")
    make_file(path, mebibytes)
    with Program(os.path.join(folder, "load_bench"), path, DIM, THREADS) as bench:
        def seconds(command):
            return bench.ask(command)["seconds"]

        tried = in_turns(min(3, rounds), **{str(piece): lambda _, piece=piece: seconds(f"pread {piece}") for piece in PIECES})
        best = min(tried, key=lambda piece: statistics.median(tried[piece]))
        taken = in_turns(rounds, ours=lambda _: seconds("load"), peer=lambda _: seconds(f"pread {best}"))
    os.remove(path)
    yield ratio_of_times("load_vs_pread_1GiB", taken["ours"], taken["peer"], unit=f"ms, {mebibytes} MiB, pieces of {int(best) >> 20} MiB")
