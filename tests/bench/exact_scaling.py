"""How the cost of an exact search grows: the tables of docs/benchmarks.md, by hand (needs numpy):

  python3 tests/bench/exact_scaling.py BIN_FOLDER [rows] [width] [k] [batch] [clients] [survivors]

rows, width: milliseconds of one query against the number of rows V and their width d; k and batch: against neighbours and queries a
call, on 50,257 x 768 and 1,000,000 x 128; clients: queries/s against callers, with shared passes and without. Normal rows, dot product,
searches that follow each other, medians. survivors: rows a query that the codes left to be scored, on normal rows, the sample table and
the word vectors, by dot product and as cosine.
"""
import json
import os
import statistics
import sys
import tempfile

import numpy

import word_vectors
from exact_rows import output_of
from measure import Program

QUERIES, RUNS = 128, 15
SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/sample")


class Table:
    """search_bench on these rows and queries."""

    def __init__(self, folder, rows, queries):
        with tempfile.TemporaryDirectory() as scratch:
            files = os.path.join(scratch, "rows"), os.path.join(scratch, "queries")
            rows.astype(numpy.float32).tofile(files[0])
            queries.astype(numpy.float32).tofile(files[1])
            self.program = Program(os.path.join(folder, "search_bench"), files[0], *rows.shape, files[1], len(queries))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.close()

    def search(self, count, k):
        """Median milliseconds of a call, and survivors a query."""
        answers = [self.program.ask(f"search {turn % (QUERIES - count + 1)} {count} {k}") for turn in range(RUNS + 3)][3:]
        return (statistics.median(answer["seconds"] for answer in answers) * 1e3,
                statistics.mean(answer["survivors"] for answer in answers) / count)


def normal(folder, rows, dim):
    random = numpy.random.default_rng(20261130)
    return Table(folder, random.standard_normal((rows, dim), dtype=numpy.float32),
                 random.standard_normal((QUERIES, dim), dtype=numpy.float32))


def rows(folder):
    for count in (25_000, 50_000, 100_000, 200_000, 400_000, 800_000):
        with normal(folder, count, 128) as table:
            milliseconds, survivors = table.search(1, 10)
            print(f"rows {count} x 128: {milliseconds:.3f} ms, {count * 128 / milliseconds / 1e6:.1f} GB/s of codes, {survivors:.0f} survivors")


def width(folder):
    for dim in (32, 64, 128, 256, 512, 1024):
        with normal(folder, 50_000_000 // dim, dim) as table:
            milliseconds, survivors = table.search(1, 10)
            print(f"width {50_000_000 // dim} x {dim}: {milliseconds:.3f} ms, {survivors:.0f} survivors")


def on_both(folder, what, shapes):
    for count, dim in ((50257, 768), (1_000_000, 128)):
        with normal(folder, count, dim) as table:
            for queries, k in shapes:
                milliseconds, survivors = table.search(queries, k)
                print(f"{what} {count} x {dim}, {queries} queries, k {k}: {milliseconds:.3f} ms, {milliseconds / queries:.3f} a query, "
                      f"{survivors:.0f} survivors")


def k(folder):
    on_both(folder, "k", [(1, wanted) for wanted in (1, 10, 100, 1000)])


def batch(folder):
    on_both(folder, "batch", [(queries, 10) for queries in (1, 2, 4, 8, 16, 32, 64)])


def clients(folder):
    for callers in (1, 2, 4, 8, 16, 32):
        told = output_of(os.path.join(folder, "shared_passes_benchmark"), "--callers", callers, "--rounds", 3, "--seconds", 0.6, "--json", 1)
        shared, alone, per_pass = (statistics.median(told[name]) for name in ("shared", "alone", "queries_per_pass"))
        print(f"clients {callers}: {shared:.0f} queries/s shared ({per_pass:.1f} a pass), {alone:.0f} alone, ratio {shared / alone:.2f}")


def survivors(folder):
    random = numpy.random.default_rng(20261130)
    tables = {"normal 50257 x 768": random.standard_normal((50257, 768), dtype=numpy.float32), "sample": sample()}
    try:
        tables["words"] = numpy.load(word_vectors.fetch().rows)
    except word_vectors.Unavailable as why:
        print(f"SKIPPED: no word vectors: {why}", file=sys.stderr)
    for name, vectors in tables.items():
        for metric in ("dot", "cosine"):
            if metric == "cosine":
                vectors = vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
            with Table(folder, vectors, vectors[random.choice(len(vectors), QUERIES, replace=False)]) as table:
                print(f"survivors {name} {vectors.shape}, {metric}: " + ", ".join(
                    f"{table.search(queries, wanted)[1]:.0f} (k {wanted}, {queries} queries a call)"
                    for queries, wanted in ((1, 10), (64, 10), (1, 100))))


def sample():
    """The rows of the sample table, by the header of its safetensors file."""
    name = next(name for name in sorted(os.listdir(SAMPLE)) if name.endswith(".safetensors"))
    with open(os.path.join(SAMPLE, name), "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        tensor = next(value for key, value in header.items() if key != "__metadata__")
        file.seek(8 + size + tensor["data_offsets"][0])
        return numpy.fromfile(file, dtype=numpy.float16, count=numpy.prod(tensor["shape"])).reshape(tensor["shape"]).astype(numpy.float32)


MODES = {"rows": rows, "width": width, "k": k, "batch": batch, "clients": clients, "survivors": survivors}


def main():
    folder, *modes = sys.argv[1:]
    for mode in modes or MODES:
        MODES[mode](folder)


if __name__ == "__main__":
    main()
