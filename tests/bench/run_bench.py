"""Runs the benchmarks that scripts/bench asks for, each in turns with its peers (A B A B ...), prints a table and writes
build/bench/results.json. Goals and meanings: goals.py. The C++ programs beside this file say what they time.

  run_bench.py BIN_FOLDER [--quick | --smoke] [--output FILE] [NAME...]

Rows that make tables need numpy, those of lookups do not.

Exit code 0: every row that can run here was measured (others are said on stderr: SKIPPED); 1: one failed; 2: usage;
130, 143: interrupted, terminated.
"""
import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile

import exact_rows
import hnsw_rows
import load_rows
import lookup_rows
import swap_rows
from goals import GOALS

# Each has NAMES, the rows that it measures; measure(folder of the programs, names, quick, scratch folder), which yields a
# dictionary per row; and, where its rows depend on sizes, make_tiny(), for --smoke.
MODULES = (lookup_rows, exact_rows, load_rows, swap_rows, hnsw_rows)


def machine():
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cpus": os.cpu_count(), "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "kernel": platform.release()}


def commit():
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def is_met(goal, bound, ratio):
    return ratio <= bound if goal.lower_is_better else ratio >= bound


def print_row(result, goal):
    met = "aim" if is_met(goal, goal.aim, result["ratio"]) else "must" if is_met(goal, goal.must, result["ratio"]) else "NO"
    print(f"{result['name']:34} {result['ours']:14.6g} {result['peer']:14.6g} {result['ratio']:7.3f}  "
          f"{'<=' if goal.lower_is_better else '>='}{goal.must:<4} {goal.aim:6}  {met}   {result['unit']}, "
          f"spread {result['spread'][0]:.3g}..{result['spread'][1]:.3g}", flush=True)


def parse(words):
    parser = argparse.ArgumentParser(prog="run_bench.py")
    parser.add_argument("bin", help="where the programs lie, as build/release/bin")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, at most some five minutes in all")
    parser.add_argument("--smoke", action="store_true", help="as --quick with tiny tables, one round: shows that rows run; the figures mean nothing")
    parser.add_argument("--output", default="build/bench/results.json")
    parser.add_argument("names", nargs="*", help="rows to measure; all that a run of this kind has")
    arguments = parser.parse_intermixed_args(words)
    arguments.quick = arguments.quick or arguments.smoke
    unknown = sorted(set(arguments.names) - set(GOALS))
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(GOALS)}")
    return arguments


def run(arguments, scratch):
    """(results, failures) of all rows that are wanted."""
    results, failures = [], []
    wanted = [name for name, goal in GOALS.items()
              if name in arguments.names or not arguments.names and not (arguments.quick and goal.full_run)]
    print(f"{'name':34} {'ours':>14} {'peer':>14} {'ratio':>7}  {'must':>6} {'aim':>6}  met", flush=True)
    for rows in MODULES:
        try:
            names = [name for name in wanted if name in rows.NAMES]
            for result in rows.measure(arguments.bin, names, arguments.quick, scratch):
                goal = GOALS[result["name"]]
                result.update(lower_is_better=goal.lower_is_better, must=goal.must, aim=goal.aim)
                results.append(result)
                print_row(result, goal)
        except Exception as failure:  # whatever it is, the other modules' rows can still be measured
            failures.append(failure)
            print(f"FAILED: {type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
    return results, failures


def write(path, results):
    """All at once: a run that is interrupted leaves the results of the last one."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump({"machine": machine(), "commit": commit(), "results": results}, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)
    print(f"written: {path}")


def leave(number, _):
    """By an exception, so that what was started is ended on the way out."""
    print(f"{signal.Signals(number).name}: the results of the last run stay", file=sys.stderr)
    sys.exit(128 + number)


def main():
    arguments = parse(sys.argv[1:])
    if arguments.smoke:
        for rows in MODULES:
            if hasattr(rows, "make_tiny"):
                rows.make_tiny()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    with tempfile.TemporaryDirectory() as scratch:
        results, failures = run(arguments, scratch)
    write(arguments.output, results)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
