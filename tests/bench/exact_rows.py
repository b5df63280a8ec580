"""Exact search against a plain read of the rows, faiss and OpenBLAS. Rows and queries are seeded normal numbers."""
import os
import statistics
import sys
import time

from measure import Program, summary

SHAPES = {"50257x768": (50257, 768), "1000000x128": (1000000, 128)}
NAMES = {"exact_1q_vs_f32_read_50257x768", "exact_1q_vs_faiss_50257x768", "exact_64q_vs_best_50257x768", "exact_bandwidth",
         "codes_build_vs_read"}
QUERIES = 256


def numpy():
    import numpy as np
    return np


def faiss():
    try:
        import faiss as module
    except ImportError:
        return None
    return module


def make_files(shape, scratch):
    np = numpy()
    rows, dim = SHAPES[shape]
    random = np.random.default_rng(20261130)
    rows_file, queries_file = (os.path.join(scratch, f"{shape}.{part}") for part in ("rows", "queries"))
    table = random.standard_normal((rows, dim), dtype=np.float32)
    queries = random.standard_normal((QUERIES, dim), dtype=np.float32)
    table.tofile(rows_file)
    queries.tofile(queries_file)
    return table, queries, rows_file, queries_file


class Faiss:
    """IndexFlatIP of the PyPI package, at the faster of its own loops and its BLAS, on one thread and on all."""

    def __init__(self, table, threads):
        self.module = faiss()
        self.index = self.module.IndexFlatIP(table.shape[1])
        self.index.add(table)
        self.settings = [(count, least) for count in sorted({1, threads}) for least in (1, 1 << 30)]

    def tune(self, queries, k):
        """Sets what is fastest for as many queries."""
        times = {setting: statistics.median(self.run(setting, queries, k)[0] for _ in range(4)) for setting in self.settings}
        self.best = min(times, key=times.get)
        return self

    def run(self, setting, queries, k):
        self.module.omp_set_num_threads(setting[0])
        self.module.cvar.distance_compute_blas_threshold = setting[1]
        start = time.perf_counter()
        _, ids = self.index.search(queries, k)
        return time.perf_counter() - start, ids.tolist()

    def search(self, queries, k):
        return self.run(self.best, queries, k)

    def __str__(self):
        return f"faiss on {self.best[0]} threads, {'BLAS' if self.best[1] == 1 else 'own loops'}"


def alternate(rounds, **arms):
    """Seconds per arm, measured in turns; the first round warms up. Threads of OpenMP and OpenBLAS spin for a while after
    their work, so each arm first waits until those of the other have gone to sleep, then runs once untimed."""
    taken = {name: [] for name in arms}
    names = list(arms)
    for turn in range(rounds + 1):
        for name in names if turn % 2 == 0 else reversed(names):
            time.sleep(0.1)
            arms[name](turn)
            seconds = arms[name](turn)
            if turn > 0:
                taken[name].append(seconds)
    return taken


def result(name, ours, peer, scale=1e3, unit="ms"):
    """ratio: peer's time over ours."""
    ratio, spread = summary([p / o for o, p in zip(ours, peer)])
    return {"name": name, "ours": statistics.median(ours) * scale, "peer": statistics.median(peer) * scale, "ratio": ratio,
            "spread": spread, "unit": unit}


def same_ids(ours, theirs, where):
    """float32 scores of a peer may swap neighbours that are equal within its rounding: sets are compared, and counted."""
    different = sum(set(a) != set(b) for a, b in zip(ours, theirs))
    if different:
        print(f"note: {where}: the sets of ids of {different} of {len(ours)} queries differ", file=sys.stderr)


def measure(folder, names, quick, scratch):
    if not names:
        return
    rounds = 9 if quick else 25
    threads = os.cpu_count()
    program = os.path.join(folder, "search_bench")
    large = [name for name in names if name == "exact_bandwidth"]
    small = [name for name in names if name not in large]
    if small:
        table, queries, rows_file, queries_file = make_files("50257x768", scratch)
        rows, dim = SHAPES["50257x768"]
        with Program(program, rows_file, rows, dim, queries_file, QUERIES) as bench:
            yield from measure_small(small, bench, table, queries, rounds, threads)
        os.remove(rows_file)
    if large:
        _, _, rows_file, queries_file = make_files("1000000x128", scratch)
        rows, dim = SHAPES["1000000x128"]
        with Program(program, rows_file, rows, dim, queries_file, QUERIES) as bench:
            taken = alternate(rounds, ours=lambda turn: bench.ask(f"search {turn} 1 10")["seconds"],
                              read=lambda _: bench.ask("read_codes")["seconds"])
            yield result("exact_bandwidth", taken["ours"], taken["read"])
        os.remove(rows_file)


def measure_small(names, bench, table, queries, rounds, threads):
    if "exact_1q_vs_f32_read_50257x768" in names:
        taken = alternate(rounds, ours=lambda turn: bench.ask(f"search {turn} 1 10")["seconds"],
                          read=lambda _: bench.ask("read")["seconds"])
        yield result("exact_1q_vs_f32_read_50257x768", taken["ours"], taken["read"])
    if "codes_build_vs_read" in names:
        taken = alternate(max(5, rounds // 3), ours=lambda _: bench.ask("build_codes")["seconds"],
                          read=lambda _: bench.ask("read")["seconds"])
        yield result("codes_build_vs_read", taken["ours"], taken["read"])
    peer = Faiss(table, threads) if faiss() else None
    if peer is None:
        print("SKIPPED: faiss did NOT run: PyPI gave no faiss-cpu", file=sys.stderr)
    if "exact_1q_vs_faiss_50257x768" in names and peer:
        peer.tune(queries[:1], 10)
        same_ids(bench.ask("search 0 8 10")["ids"], peer.search(queries[:8], 10)[1], "exact_1q_vs_faiss")
        taken = alternate(rounds, ours=lambda turn: bench.ask(f"search {turn} 1 10")["seconds"],
                          faiss=lambda turn: peer.search(queries[turn:turn + 1], 10)[0])
        yield result("exact_1q_vs_faiss_50257x768", taken["ours"], taken["faiss"], unit=f"ms, {peer}")
    if "exact_64q_vs_best_50257x768" in names:
        arms = {"ours": lambda turn: bench.ask(f"search {turn} 64 10")["seconds"],
                "sgemm": lambda turn: bench.ask(f"sgemm {turn} 64 10")["seconds"]}
        if peer:
            peer.tune(queries[:64], 10)
            arms["faiss"] = lambda turn: peer.search(queries[turn:turn + 64], 10)[0]
        same_ids(bench.ask("search 0 64 10")["ids"], bench.ask("sgemm 0 64 10")["ids"], "exact_64q_vs_best")
        taken = alternate(max(5, rounds // 2), **arms)
        best = min((name for name in taken if name != "ours"), key=lambda name: statistics.median(taken[name]))
        yield result("exact_64q_vs_best_50257x768", taken["ours"], taken[best], unit=f"ms, {peer if best == 'faiss' else 'OpenBLAS'}")
