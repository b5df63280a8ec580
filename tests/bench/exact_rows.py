"""Exact search against a plain read of the rows, faiss and OpenBLAS, against itself without shared passes, and against the
canonical full scan. Rows and queries are seeded normal numbers, or word vectors."""
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import time

import word_vectors
from exact_peers import Faiss, Sgemm, has_faiss
from measure import Program, in_turns, ratio_of_times, summary

SHAPES = {"50257x768": (50257, 768), "1000000x128": (1000000, 128)}
NAMES = {"exact_1q_vs_f32_read_50257x768", "exact_1q_vs_faiss_50257x768", "exact_64q_vs_best_50257x768", "exact_bandwidth",
         "codes_build_vs_read", "exact_1q_vs_faiss_341k_x100", "exact_mismatches", "microbatch_16_clients"}
QUERIES = 256
FULL_ROUNDS, QUICK_ROUNDS = 25, 9
FULL_MICROBATCH, QUICK_MICROBATCH = ("--rounds", 11, "--seconds", 2), ("--rounds", 5, "--seconds", 1)


def make_tiny():
    global QUICK_ROUNDS, QUICK_MICROBATCH
    QUICK_ROUNDS = 1
    QUICK_MICROBATCH = ("--rounds", 1, "--seconds", 0.1, "--rows", 3000, "--dim", 16)
    SHAPES.update({"50257x768": (2000, 32), "1000000x128": (3000, 16)})


def make_files(shape, scratch):
    import numpy as np
    rows, dim = SHAPES[shape]
    random = np.random.default_rng(20261130)
    rows_file, queries_file = (os.path.join(scratch, f"{shape}.{part}") for part in ("rows", "queries"))
    table = random.standard_normal((rows, dim), dtype=np.float32)
    queries = random.standard_normal((QUERIES, dim), dtype=np.float32)
    table.tofile(rows_file)
    queries.tofile(queries_file)
    return rows_file, rows, dim, queries_file, QUERIES


def alternate(rounds, **arms):
    """in_turns, of seconds. Threads of OpenMP and OpenBLAS spin for a while after their work, in their own process, so each arm
    first waits until those of the other have gone to sleep, then runs once untimed."""
    def second_run(arm, turn):
        time.sleep(0.1)
        arm(turn)
        return arm(turn)
    return in_turns(rounds, **{name: functools.partial(second_run, arm) for name, arm in arms.items()})


def same_ids(ours, theirs, where):
    """float32 scores of a peer may swap neighbours that are equal within its rounding: sets are compared, and counted."""
    different = sum(set(a) != set(b) for a, b in zip(ours, theirs))
    if different:
        print(f"note: {where}: the sets of ids of {different} of {len(ours)} queries differ", file=sys.stderr)


def measure(folder, names, quick, scratch):
    if not names:
        return
    rounds = QUICK_ROUNDS if quick else FULL_ROUNDS
    threads = os.cpu_count()
    program = os.path.join(folder, "search_bench")
    large = [name for name in names if name == "exact_bandwidth"]
    small = [name for name in names if name.endswith("50257x768") or name == "codes_build_vs_read"]
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
            yield ratio_of_times("exact_bandwidth", taken["ours"], taken["read"])
        os.remove(files[0])
    if "exact_1q_vs_faiss_341k_x100" in names and has_faiss():
        yield from words_vs_faiss(program, rounds, threads, scratch)
    if "microbatch_16_clients" in names:
        yield microbatch(folder, quick)
    if "exact_mismatches" in names:
        yield mismatches(folder, quick)


def words_vs_faiss(program, rounds, threads, scratch):
    """Queries are rows of the table and the rows as they are, by dot product: normalising both would make it the cosine, for
    ours and the peer at the same cost."""
    try:
        words = word_vectors.fetch()
    except word_vectors.Unavailable as why:
        print(f"SKIPPED: exact_1q_vs_faiss_341k_x100 did NOT run: {why}", file=sys.stderr)
        return
    import numpy as np
    table = np.load(words.rows)
    rows_file, queries_file = (os.path.join(scratch, f"words.{part}") for part in ("rows", "queries"))
    table.tofile(rows_file)
    table[np.random.default_rng(20261130).choice(len(table), QUERIES, replace=False)].tofile(queries_file)
    files = rows_file, *table.shape, queries_file, QUERIES
    with Program(program, *files) as bench:
        yield one_query_vs_faiss("exact_1q_vs_faiss_341k_x100", bench, files, rounds, threads)
    os.remove(rows_file)


def output_of(*command):
    """The last line of a program's output, as JSON; what it says on stderr is passed on."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(f"{command[0]} ended with exit code {done.returncode} and said nothing")
    return json.loads(done.stdout.splitlines()[-1])


def microbatch(folder, quick):
    told = output_of(os.path.join(folder, "shared_passes_benchmark"), *(QUICK_MICROBATCH if quick else FULL_MICROBATCH), "--json", 1)
    ratio, spread = summary([with_it / without for with_it, without in zip(told["shared"], told["alone"])])
    median = {name: statistics.median(values) for name, values in told.items()}
    return {"name": "microbatch_16_clients", "ours": median["shared"], "peer": median["alone"], "ratio": ratio, "spread": spread,
            "unit": f"queries/s, {median['queries_per_pass']:.1f} queries a pass; one caller {median['lone_shared_ms']:.2f} ms "
                    f"a query, {median['lone_alone_ms']:.2f} ms without sharing"}


def mismatches(folder, quick):
    """ours and ratio: answers that differ; peer: queries that were compared."""
    told = output_of(os.path.join(folder, "exact_mismatches"), *(("--queries", 20000, "--large", 30) if quick else ()))
    wrong = told["mismatches"]
    return {"name": "exact_mismatches", "ours": wrong, "peer": told["queries"], "ratio": wrong, "spread": [wrong, wrong],
            "unit": f"answers of queries, {told['neighbours']} neighbours, {told['tables']} tables"}


def measure_small(names, bench, program, files, rounds, threads):
    if "exact_1q_vs_f32_read_50257x768" in names:
        taken = alternate(rounds, ours=lambda turn: bench.ask(f"search {turn} 1 10")["seconds"],
                          read=lambda _: bench.ask("read")["seconds"])
        yield ratio_of_times("exact_1q_vs_f32_read_50257x768", taken["ours"], taken["read"])
    if "codes_build_vs_read" in names:
        taken = alternate(max(5, rounds // 3), ours=lambda _: bench.ask("build_codes")["seconds"],
                          read=lambda _: bench.ask("read")["seconds"])
        yield ratio_of_times("codes_build_vs_read", taken["ours"], taken["read"])
    if "exact_1q_vs_faiss_50257x768" in names and has_faiss():
        yield one_query_vs_faiss("exact_1q_vs_faiss_50257x768", bench, files, rounds, threads)
    if "exact_64q_vs_best_50257x768" in names:
        yield many_queries_vs_best(bench, program, files, rounds, threads)


def one_query_vs_faiss(name, bench, files, rounds, threads):
    with Faiss(files, threads, 1, 10) as peer:
        same_ids(bench.ask("search 0 64 10")["ids"], peer.search(0, 64, 10)["ids"], name)
        taken = alternate(rounds, ours=lambda turn: bench.ask(f"search {turn} 1 10")["seconds"],
                          faiss=lambda turn: peer.search(turn, 1, 10)["seconds"])
        return ratio_of_times(name, taken["ours"], taken["faiss"], unit=f"ms, {peer}")


def many_queries_vs_best(bench, program, files, rounds, threads):
    name, count = "exact_64q_vs_best_50257x768", 64
    arms = {"ours": lambda turn: bench.ask(f"search {turn} {count} 10")["seconds"]}
    with contextlib.ExitStack() as stack:
        peers = {"sgemm": stack.enter_context(Sgemm(program, files, count, 10))}
        if has_faiss():
            peers["faiss"] = stack.enter_context(Faiss(files, threads, count, 10))
        for peer_name, peer in peers.items():
            same_ids(bench.ask(f"search 0 {count} 10")["ids"], peer.search(0, count, 10)["ids"], name)
            arms[peer_name] = lambda turn, peer=peer: peer.search(turn, count, 10)["seconds"]
        taken = alternate(rounds, **arms)
    best = min(peers, key=lambda peer_name: statistics.median(taken[peer_name]))
    flops = 2 * count * int(files[1]) * int(files[2])
    for peer_name, peer in peers.items():
        print(f"note: {name}: {peer}: {flops / statistics.median(taken[peer_name]) / 1e9:.3g} GFLOP/s", file=sys.stderr)
    return ratio_of_times(name, taken["ours"], taken[best],
                          unit=f"ms, {peers[best]}, {flops / statistics.median(taken[best]) / 1e9:.3g} GFLOP/s")
