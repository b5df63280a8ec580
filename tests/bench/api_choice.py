"""The figures of docs/adr/0004: gRPC's callback API against one completion queue, by hand:

  python3 tests/bench/api_choice.py BIN_FOLDER [cost] [parked] [idle]

cost: server CPU and calls/s at 8 calls outstanding; parked: the same with more and more parked calls; idle: slow calls at 5
calls/s, 100 of them, and at one in two seconds, 30 of them. Arms are measured in turns, in processes that are started anew for
each repetition.
"""
import contextlib
import os
import random
import sys

from measure import Program, in_turns, medians, rate_and_cpu

REPETITIONS, WINDOWS, SECONDS = 5, 3, 0.4
KIB = 1024
COST_ARMS = {"callback": ("callback",), "queue, 1 thread": ("queue", 1, 16), "queue, 2 threads": ("queue", 2, 16)}
PARKED_ARMS = {f"{parked} parked": ("queue", 1, parked) for parked in (4, 16, 256, 4096)}


def start(stack, folder, arm, size, dim, batch, outstanding, connections):
    api, *rest = arm
    server = stack.enter_context(Program(os.path.join(folder, "api_server"), api, size, *rest))
    client = stack.enter_context(Program(os.path.join(folder, "lookup_client"), "api", server.first_line, 50257, dim, batch,
                                         outstanding, connections))
    return server, client


def compare(folder, arms, size):
    taken = {name: [] for name in arms}
    for repetition in range(REPETITIONS):
        names = list(arms)
        random.Random(repetition).shuffle(names)
        with contextlib.ExitStack() as stack:
            running = {name: start(stack, folder, arms[name], size, size // 256, 64, 8, 2) for name in names}
            windows = in_turns(WINDOWS, **{name: lambda _, arm=arm: rate_and_cpu(*arm, SECONDS) for name, arm in running.items()})
            for name in names:
                taken[name].append(medians(windows[name]))
    for name, values in taken.items():
        rate, cpu = medians(values)
        print(f"{size // KIB:4} KiB  {name:17} {rate:8.0f} calls/s  {cpu:6.1f} us of server CPU a call", flush=True)


def idle(folder):
    for name, arm in COST_ARMS.items():
        with contextlib.ExitStack() as stack:
            _, client = start(stack, folder, arm, 512, 128, 1, 1, 1)
            for rate, calls in ((5, 100), (0.5, 30)):
                answer = client.ask(f"pace {rate} {calls}")
                print(f"{rate:3} calls/s  {name:17} {answer['slow']} of {calls} above 10 ms, slowest {answer['worst_ms']:.3g} ms",
                      flush=True)


def main():
    folder, *parts = sys.argv[1:]
    if not parts or "cost" in parts:
        for size in (32 * KIB, 192 * KIB):
            compare(folder, COST_ARMS, size)
    if not parts or "parked" in parts:
        compare(folder, PARKED_ARMS, 32 * KIB)
    if not parts or "idle" in parts:
        idle(folder)


if __name__ == "__main__":
    main()
