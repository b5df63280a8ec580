"""Where approximate search overtakes exact search: time per query against the number of rows, one query a call.

  hnsw_curve.py BIN_FOLDER [ROWS...]     prints a table in Markdown; a minute or two

Rows, queries and parameters as in hnsw_rows.py; smaller tables are rows drawn from all of them.
"""
import os
import sys
import tempfile

import numpy as np

import hnsw_rows
import word_vectors
from measure import Program


def main():
    folder = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        table, _, files = hnsw_rows.make_files(word_vectors.fetch(), scratch)
        order = np.random.default_rng(1).permutation(len(table))
        print("| rows | exact | 0.95 | 0.99 | build |\n|---|---|---|---|---|")
        for rows in [int(word) for word in sys.argv[2:]] or [10000, 50000, len(table)]:
            file = os.path.join(scratch, "part")
            table[np.sort(order[:rows])].tofile(file)
            with Program(os.path.join(folder, "hnsw_ours"), file, rows, table.shape[1], files[1], hnsw_rows.QUERIES, hnsw_rows.M,
                         hnsw_rows.EF_CONSTRUCTION, os.cpu_count()) as program:
                ours = hnsw_rows.Arm(program)
                exact = ours.search(0)
                build = ours.build()
                program.ask("per_call 1")
                cells = [f"{1e6 / ours.rate(0, 1):.0f} us"]
                for wanted in (0.95, 0.99):
                    effort, _ = hnsw_rows.smallest_effort(ours.search, exact, wanted)
                    cells.append(f"{1e6 / ours.rate(effort, 1):.0f} us ({effort})")
                print(f"| {rows:,} | {' | '.join(cells)} | {build:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
