"""Loading a file of 1 GiB against a plain pread of it (tests/server/table/load_benchmark.cc)."""
import os
import re
import subprocess

NAMES = {"load_vs_pread_1GiB"}


def measure(folder, names, quick, scratch):
    if not names:
        return
    done = subprocess.run([os.path.join(folder, "load_benchmark"), scratch, "256" if quick else "1024", str(os.cpu_count())],
                          capture_output=True, text=True, check=True)
    figures = {}
    for line in done.stdout.splitlines():
        found = re.match(r"(plain pread|LoadRows)\s+([\d.]+) s \(([\d.]+)\.\.([\d.]+)\)", line)
        if found:
            figures[found[1]] = [float(number) for number in found.groups()[1:]]
    ours, peer = figures["LoadRows"], figures["plain pread"]
    yield {"name": "load_vs_pread_1GiB", "ours": ours[0] * 1e3, "peer": peer[0] * 1e3, "ratio": peer[0] / ours[0],
           "spread": [peer[1] / ours[2], peer[2] / ours[1]], "unit": "ms"}
