"""Approximate search beside hnswlib, on word vectors (word_vectors.py) of length 1, by dot product, k = 10.

1,000 rows, drawn with a seed, are kept out of the table and are the queries. Every arm has M = 16 and ef_construction =
200, runs on all CPUs, and is searched with its own smallest effort (ef) that finds the share of the exact ten nearest
that the row names. usearch and the hnswlib of PyPI stand beside the row's figure, in its unit.
"""
import os
import sys
import time

import word_vectors
from measure import Program, in_turns, summary

NAMES = {"hnsw_qps_vs_hnswlib_r95", "hnsw_qps_vs_hnswlib_r99", "hnsw_build_vs_hnswlib"}
RECALLS = {"hnsw_qps_vs_hnswlib_r95": 0.95, "hnsw_qps_vs_hnswlib_r99": 0.99}
M, EF_CONSTRUCTION, K, QUERIES = 16, 200, 10, 1000
MOST_EFFORT = 1024
EFFORT_OF_BUILDS = 100  # at which graphs of two builds are compared


def make_files(vectors, scratch):
    """(table, queries), and both as files."""
    import numpy as np
    rows = np.load(vectors.rows).astype(np.float64)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    held_out = np.zeros(len(rows), dtype=bool)
    held_out[np.random.default_rng(20261130).permutation(len(rows))[:QUERIES]] = True
    table, queries = rows[~held_out], rows[held_out]
    files = [os.path.join(scratch, name) for name in ("words.rows", "words.queries")]
    table.tofile(files[0])
    queries.tofile(files[1])
    return table, queries, files


def recall(found, exact):
    return sum(len(set(a) & set(b)) for a, b in zip(found, exact)) / sum(len(b) for b in exact)


def smallest_effort(search, exact, wanted):
    """The smallest effort whose recall reaches what is wanted, and that recall."""
    low, high = K, MOST_EFFORT
    while low < high:
        middle = (low + high) // 2
        if recall(search(middle), exact) >= wanted:
            high = middle
        else:
            low = middle + 1
    reached = recall(search(low), exact)
    if reached < wanted:
        raise RuntimeError(f"effort {low} finds {reached:.4f} of the neighbours, {wanted} are wanted")
    return low, reached


class Arm:
    """A program of this folder (hnsw_arm.h)."""

    def __init__(self, program):
        self.program = program

    def build(self):
        return self.program.ask("build")["seconds"]

    def search(self, effort):
        return self.program.ask(f"search {effort} {K}")["ids"]

    def rate(self, effort, seconds):
        done = self.program.ask(f"run {effort} {K} {seconds}")
        return done["queries"] / done["seconds"]


class Usearch:
    NAME = "usearch"

    def __init__(self, table, queries, threads):
        import numpy as np
        from usearch.index import Index
        self.queries, self.threads = queries, threads
        self.index = Index(ndim=table.shape[1], metric="ip", dtype="f32", connectivity=M, expansion_add=EF_CONSTRUCTION)
        self.index.add(np.arange(len(table)), table, threads=threads)

    def search(self, effort):
        self.index.expansion_search = effort
        return self.index.search(self.queries, K, threads=self.threads).keys.tolist()

    def rate(self, effort, seconds):
        return python_rate(lambda: self.search(effort), seconds)


class HnswlibOfPypi:
    NAME = "hnswlib"

    def __init__(self, table, queries, threads):
        import hnswlib
        self.queries, self.threads = queries, threads
        self.index = hnswlib.Index(space="ip", dim=table.shape[1])
        self.index.init_index(max_elements=len(table), M=M, ef_construction=EF_CONSTRUCTION)
        self.index.add_items(table, num_threads=threads)

    def search(self, effort):
        self.index.set_ef(effort)
        return self.index.knn_query(self.queries, k=K, num_threads=self.threads)[0].tolist()

    def rate(self, effort, seconds):
        return python_rate(lambda: self.search(effort), seconds)


def python_rate(search, seconds):
    start, queries = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        search()
        queries += QUERIES
    return queries / (time.perf_counter() - start)


def further_peers(table, queries, threads):
    for kind in (Usearch, HnswlibOfPypi):
        try:
            start = time.perf_counter()
            yield kind(table, queries, threads), time.perf_counter() - start
        except ImportError as why:
            print(f"SKIPPED: {kind.NAME} of PyPI did NOT run: {why}", file=sys.stderr)


def row(name, pairs, ratios, unit):
    ratio, spread = summary(ratios)
    ours, peer = zip(*pairs)
    return {"name": name, "ours": summary(ours)[0], "peer": summary(peer)[0], "ratio": ratio, "spread": spread, "unit": unit}


def measure(folder, names, quick, scratch):
    if not names:
        return
    try:
        vectors = word_vectors.fetch()
    except word_vectors.Unavailable as why:
        print(f"SKIPPED: {', '.join(sorted(names))} did NOT run: {why}", file=sys.stderr)
        return
    threads = os.cpu_count()
    table, queries, files = make_files(vectors, scratch)
    arguments = (files[0], len(table), table.shape[1], files[1], QUERIES, M, EF_CONSTRUCTION, threads)
    with Program(os.path.join(folder, "hnsw_ours"), *arguments) as first, \
            Program(os.path.join(folder, "hnsw_peer"), *arguments) as second:
        ours, peer = Arm(first), Arm(second)
        exact = ours.search(0)
        builds = [(ours.build(), peer.build())]
        if "hnsw_build_vs_hnswlib" in names:
            if not quick:
                seconds = peer.build()
                builds.append((ours.build(), seconds))
            recalls = [recall(arm.search(EFFORT_OF_BUILDS), exact) for arm in (ours, peer)]
            yield row("hnsw_build_vs_hnswlib", builds, [b / a for a, b in builds],
                      f"s, recall at effort {EFFORT_OF_BUILDS} {recalls[0]:.4f} and {recalls[1]:.4f}")
        yield from measure_searches([name for name in RECALLS if name in names], ours, peer, exact, quick,
                                    lambda: further_peers(table, queries, threads))


def measure_searches(names, ours, peer, exact, quick, others):
    results = []
    for name in names:
        efforts = [smallest_effort(arm.search, exact, RECALLS[name])[0] for arm in (ours, peer)]
        taken = in_turns(5 if quick else 9, ours=lambda _: ours.rate(efforts[0], 1), peer=lambda _: peer.rate(efforts[1], 1))
        pairs = list(zip(taken["ours"], taken["peer"]))
        results.append(row(name, pairs, [a / b for a, b in pairs], f"queries/s at effort {efforts[0]} and {efforts[1]}"))
    # Those in Python are not measured in turns with ours: for an idea of where they stand.
    for other, seconds in others() if names else ():
        for result in results:
            effort, _ = smallest_effort(other.search, exact, RECALLS[result["name"]])
            rates = sorted(other.rate(effort, 1) for _ in range(3))
            result["unit"] += f"; {other.NAME} of PyPI {rates[1]:.0f} at {effort}, built in {seconds:.0f} s"
    yield from results
