"""faiss-cpu's IndexFlatIP as a program of its own, so that its threads and its BLAS have a process and an environment to
themselves.

  faiss_peer.py ROWS_FILE NUM_ROWS DIM QUERIES_FILE NUM_QUERIES

Prints "ready" and the name of the kernels that its OpenBLAS chose, then answers each line of stdin with a line of JSON:
  set THREADS LEAST ROWS SHARDS
                           by so many threads; from so many queries on by BLAS instead of its own loops, with ROWS of the table a call;
                           of one index, or of IndexShards over so many parts, each with a thread of its own
  search FIRST COUNT K     {"seconds", "ids"}: neighbours by dot product of queries [FIRST, FIRST + COUNT)

Wants OMP_NUM_THREADS=1: else each shard's thread starts a team of its own, and the teams wait for each other.
"""
import ctypes
import json
import os
import sys
import time

import faiss
import numpy as np


def blas_kernels():
    """As OpenBLAS names them; numpy brings one of its own, with other names of functions."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for path in {line.split()[-1] for line in maps if "openblas" in line and "faiss" in line}:
            name = ctypes.CDLL(path).openblas_get_corename
            name.restype = ctypes.c_char_p
            return name().decode()
    return "unknown"


def make_index(table, shards):
    if shards == 1:
        index = faiss.IndexFlatIP(table.shape[1])
    else:
        index = faiss.IndexShards(table.shape[1], True, True)  # each in a thread, with ids in order
        for _ in range(shards):
            shard = faiss.IndexFlatIP(table.shape[1])
            shard.this.disown()
            index.add_shard(shard)
        index.own_indices = True
    index.add(table)
    return index


def main():
    rows_file, num_rows, dim, queries_file, num_queries = sys.argv[1:]
    table = np.fromfile(rows_file, dtype=np.float32).reshape(int(num_rows), int(dim))
    queries = np.fromfile(queries_file, dtype=np.float32).reshape(int(num_queries), int(dim))
    indexes = {shards: make_index(table, shards) for shards in sorted({1, os.cpu_count()})}
    index = indexes[1]
    del table
    print("ready", blas_kernels(), flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        answer = {}
        if command == "set":
            faiss.omp_set_num_threads(numbers[0])
            faiss.cvar.distance_compute_blas_threshold = numbers[1]
            faiss.cvar.distance_compute_blas_database_bs = numbers[2]
            index = indexes[numbers[3]]
        elif command == "search":
            first, count, k = numbers
            start = time.perf_counter()
            _, ids = index.search(queries[first:first + count], k)
            answer = {"seconds": time.perf_counter() - start, "ids": ids.tolist()}
        else:
            sys.exit(f"unknown command {command}")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
