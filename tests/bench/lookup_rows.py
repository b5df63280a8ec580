"""Lookups against the floor, a textbook service and Redis: one client program, the same number of calls outstanding."""
import concurrent.futures
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

from measure import Program, cpu_seconds, in_turns, summary, window

ROWS = 50257

# name: (dim, batch, outstanding, connections, our kind, peer's kind, what is compared)
SETUPS = {
    "lookup_cpu_vs_floor_64x768": (768, 64, 8, 2, "unary", "floor", "cpu"),
    "lookup_vs_protobuf_64x768": (768, 64, 8, 2, "unary", "textbook", "rows"),
    "lookup_cpu_vs_protobuf_64x768": (768, 64, 8, 2, "unary", "textbook", "cpu"),
    "lookup_vs_redis_64x768": (768, 64, 8, 2, "unary", "redis", "rows"),
    "lookup_vs_redis_64x128": (128, 64, 8, 2, "unary", "redis", "rows"),
    "lookup_cpu_vs_redis_64x128": (128, 64, 8, 2, "unary", "redis", "cpu"),
    "lookup_stream_vs_redis_64x128": (128, 64, 8, 2, "stream", "redis", "rows"),
    "lookup_stream_vs_unary_1x128": (128, 1, 32, 1, "stream", "unary", "rows"),
}
FULL = (11, 2.0)  # windows an arm, seconds of each
QUICK = (5, 1.0)
SLOW_SHARE = "lookup_slow_share_5rps"
NAMES = {*SETUPS, SLOW_SHARE}


def make_tiny():
    global ROWS, QUICK
    ROWS, QUICK = 500, (1, 0.05)


class Redis:
    """A server of our own on a free port, without persistence."""

    def __init__(self, scratch):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", scratch],
            stdout=subprocess.DEVNULL)
        self.first_line = f"127.0.0.1:{port}"
        try:
            self.await_ready(port)
        except BaseException:  # a signal: nobody else knows of the process yet
            self.close()
            raise

    @staticmethod
    def await_ready(port):
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise RuntimeError("Redis did not start")

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def close(self):
        self.process.terminate()
        self.process.wait()


def start_server(kind, folder, dim, batch, scratch):
    if kind == "redis":
        return Redis(scratch)
    if kind == "textbook":
        return Program(os.path.join(folder, "textbook_server"), ROWS, dim)
    return Program(os.path.join(folder, "floor_server"), ROWS, dim, batch)


def windows(kinds, setup, folder, quick, scratch):
    """Per kind a list of (rows/s, server CPU seconds per call), measured in turns."""
    dim, batch, outstanding, connections = setup
    rounds, seconds = QUICK if quick else FULL
    with contextlib.ExitStack() as stack:
        servers, clients = {}, {}
        for kind in kinds:
            # What is ours runs in one process.
            place = kind if kind in ("redis", "textbook") else "ours"
            if place not in servers:
                servers[place] = start_server(kind, folder, dim, batch, scratch)
                stack.callback(servers[place].close)
            clients[kind] = stack.enter_context(Program(
                os.path.join(folder, "lookup_client"), kind, servers[place].first_line, ROWS, dim, batch, outstanding, connections))
            servers[kind] = servers[place]
        # Against Redis both clients copy each answer once, as hiredis always does.
        command = f"{'copy' if 'redis' in kinds else 'run'} {seconds}"

        def of_kind(kind):
            answer, cpu = window(servers[kind], clients[kind], command)
            return answer["rows"] / answer["seconds"], cpu / answer["calls"]

        return in_turns(rounds, **{kind: lambda _, kind=kind: of_kind(kind) for kind in kinds})


def measure_slow_share(folder, quick, scratch):
    """Ours and the textbook service at the same time: both are idle nearly always. The share is the figure, not a ratio."""
    calls = 100 if quick else 1500
    # The stack ends first: what it ends, the threads wait for.
    with concurrent.futures.ThreadPoolExecutor() as threads, contextlib.ExitStack() as stack:
        clients = []
        for kind in ("unary", "textbook"):
            server = start_server(kind, folder, 128, 1, scratch)
            stack.callback(server.close)
            clients.append(stack.enter_context(
                Program(os.path.join(folder, "lookup_client"), kind, server.first_line, ROWS, 128, 1, 1, 1)))

        def pace(client):
            answer = client.ask(f"pace 5 {calls}")
            return answer["slow"] / answer["calls"], answer["worst_ms"]
        (ours, our_worst), (peer, peer_worst) = threads.map(pace, clients)
    yield {"name": SLOW_SHARE, "ours": ours, "peer": peer, "ratio": ours, "spread": [ours, ours],
           "unit": f"of {calls} calls, slowest {our_worst:.3g} ms, textbook's {peer_worst:.3g} ms"}


def measure(folder, names, quick, scratch):
    if SLOW_SHARE in names:
        yield from measure_slow_share(folder, quick, scratch)
    groups = {}
    for name in names:
        if name == SLOW_SHARE:
            continue
        dim, batch, outstanding, connections, ours, peer, _ = SETUPS[name]
        if peer == "redis" and not shutil.which("redis-server"):
            print(f"SKIPPED: {name} did NOT run: there is no redis-server", file=sys.stderr)
            continue
        groups.setdefault((dim, batch, outstanding, connections, ours, peer), []).append(name)
    for (dim, batch, outstanding, connections, ours, peer), of_group in groups.items():
        taken = windows([ours, peer], (dim, batch, outstanding, connections), folder, quick, scratch)
        for name in of_group:
            which = 0 if SETUPS[name][6] == "rows" else 1
            our_values, peer_values = ([values[which] for values in taken[kind]] for kind in (ours, peer))
            ratio, spread = summary([a / b for a, b in zip(our_values, peer_values)])
            scale, unit = (1, "rows/s") if which == 0 else (1e6, "us of server CPU a call")
            yield {"name": name, "ours": statistics.median(our_values) * scale, "peer": statistics.median(peer_values) * scale,
                   "ratio": ratio, "spread": spread, "unit": unit}
