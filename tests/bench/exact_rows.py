"""Exact search against a plain read of the rows, faiss and OpenBLAS. Rows and queries are seeded normal numbers."""
import os
import statistics
import sys
import time

from exact_peers import Faiss, Sgemm, has_faiss
from measure import Program, summary

SHAPES = {"50257x768": (50257, 768), "1000000x128": (1000000, 128)}
NAMES = {"exact_1q_vs_f32_read_50257x768", "exact_1q_vs_faiss_50257x768", "exact_64q_vs_best_50257x768", "exact_bandwidth",
         "codes_build_vs_read"}
QUERIES = 256


def numpy():
    import numpy as np
    return np


def make_files(shape, scratch):
    np = numpy()
    rows, dim = SHAPES[shape]
    random = np.random.default_rng(20261130)
    rows_file, queries_file = (os.path.join(scratch, f"{shape}.{part}") for part in ("rows", "queries"))
    table = random.standard_normal((rows, dim), dtype=np.float32)
    queries = random.standard_normal((QUERIES, dim), dtype=np.float32)
    table.tofile(rows_file)
    queries.tofile(queries_file)
    return rows_file, rows, dim, queries_file, QUERIES


def alternate(rounds, **arms):
    """Seconds per arm, measured in turns; the first round warms up. Threads of OpenMP and OpenBLAS spin for a while after
    their work, in their own process, so each arm first waits until those of the other have gone to sleep, then runs once untimed."""
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
    if any("faiss" in name or "best" in name for name in names) and not has_faiss():
        print("SKIPPED: faiss did NOT run: PyPI gave no faiss-cpu", file=sys.stderr)
    if small:
        files = make_files("50257x768", scratch)
        with Program(program, *files) as bench:
            yield from measure_small(small, bench, program, files, rounds, threads)
        os.remove(files[0])
    if large:
        files = make_files("1000000x128", scratch)
        with Program(program, *files) as bench:
            taken = alternate(rounds, ours=lambda turn: bench.ask(f"search {turn} 1 10")["seconds"],
                              read=lambda _: bench.ask("read_codes")["seconds"])
            yield result("exact_bandwidth", taken["ours"], taken["read"])
        os.remove(files[0])


def measure_small(names, bench, program, files, rounds, threads):
    if "exact_1q_vs_f32_read_50257x768" in names:
        taken = alternate(rounds, ours=lambda turn: bench.ask(f"search {turn} 1 10")["seconds"],
                          read=lambda _: bench.ask("read")["seconds"])
        yield result("exact_1q_vs_f32_read_50257x768", taken["ours"], taken["read"])
    if "codes_build_vs_read" in names:
        taken = alternate(max(5, rounds // 3), ours=lambda _: bench.ask("build_codes")["seconds"],
                          read=lambda _: bench.ask("read")["seconds"])
        yield result("codes_build_vs_read", taken["ours"], taken["read"])
    if "exact_1q_vs_faiss_50257x768" in names and has_faiss():
        yield one_query_vs_faiss("exact_1q_vs_faiss_50257x768", bench, files, rounds, threads)
    if "exact_64q_vs_best_50257x768" in names:
        yield many_queries_vs_best(bench, program, files, rounds, threads)


def one_query_vs_faiss(name, bench, files, rounds, threads):
    with Faiss(files, threads, 1, 10) as peer:
        same_ids(bench.ask("search 0 64 10")["ids"], peer.search(0, 64, 10)["ids"], name)
        taken = alternate(rounds, ours=lambda turn: bench.ask(f"search {turn} 1 10")["seconds"],
                          faiss=lambda turn: peer.search(turn, 1, 10)["seconds"])
        return result(name, taken["ours"], taken["faiss"], unit=f"ms, {peer}")


def many_queries_vs_best(bench, program, files, rounds, threads):
    name, count = "exact_64q_vs_best_50257x768", 64
    peers = {"sgemm": Sgemm(program, files, count, 10)}
    if has_faiss():
        peers["faiss"] = Faiss(files, threads, count, 10)
    arms = {"ours": lambda turn: bench.ask(f"search {turn} {count} 10")["seconds"]}
    for peer_name, peer in peers.items():
        same_ids(bench.ask(f"search 0 {count} 10")["ids"], peer.search(0, count, 10)["ids"], name)
        arms[peer_name] = lambda turn, peer=peer: peer.search(turn, count, 10)["seconds"]
    taken = alternate(rounds, **arms)
    best = min(peers, key=lambda peer_name: statistics.median(taken[peer_name]))
    for peer in peers.values():
        peer.program.close()
    flops = 2 * count * int(files[1]) * int(files[2])
    for peer_name, peer in peers.items():
        print(f"note: {name}: {peer}: {flops / statistics.median(taken[peer_name]) / 1e9:.3g} GFLOP/s", file=sys.stderr)
    return result(name, taken["ours"], taken[best],
                  unit=f"ms, {peers[best]}, {flops / statistics.median(taken[best]) / 1e9:.3g} GFLOP/s")
