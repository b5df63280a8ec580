"""Programs that answer commands on stdin, and the arithmetic of figures measured in turns."""
import contextlib
import json
import statistics
import subprocess
import time


class Program:
    """A child process that prints a first line, then answers each line of its stdin with one line."""

    def __init__(self, *command, env=None):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        try:
            self.first_line = self.process.stdout.readline().strip()
        except BaseException:  # a signal: nobody else knows of the process yet
            self.kill()
            raise
        if not self.first_line:
            raise RuntimeError(f"{command[0]} ended with exit code {self.process.wait()} before it was ready")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args[0]} ended with exit code {self.process.wait()}")
        return json.loads(answer)

    def close(self):
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self):
        self.process.kill()
        self.process.wait()

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:
            self.close()
        else:
            self.kill()  # it may be in the middle of a command that takes minutes


def cpu_seconds(pid):
    """Processor time of all threads of a process, user and system: its CPU clock (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def summary(ratios):
    """The median and the interquartile range of ratios that were measured in pairs."""
    if len(ratios) < 4:
        return statistics.median(ratios), [min(ratios), max(ratios)]
    quartiles = statistics.quantiles(ratios, n=4)
    return statistics.median(ratios), [quartiles[0], quartiles[2]]


def in_turns(rounds, **arms):
    """Values per arm, each of which is called with the number of the round: A B C, C B A, ... The first round warms up
    and is not counted."""
    taken = {name: [] for name in arms}
    names = list(arms)
    for turn in range(rounds + 1):
        for name in names if turn % 2 == 0 else reversed(names):
            value = arms[name](turn)
            if turn > 0:
                taken[name].append(value)
    return taken


def window(server, client, command):
    """The client's answer to a command that runs a window, and the server's CPU seconds over it."""
    before = server.cpu_seconds()
    answer = client.ask(command)
    return answer, server.cpu_seconds() - before


def rate_and_cpu(server, client, seconds):
    """Calls/s of a window, and the server's CPU time of a call in us."""
    answer, cpu = window(server, client, f"run {seconds}")
    return answer["calls"] / answer["seconds"], cpu / answer["calls"] * 1e6


def medians(values):
    """Of tuples, one for each of their places."""
    return [statistics.median(column) for column in zip(*values)]


def ratio_of_times(name, ours, peer, scale=1e3, unit="ms"):
    """A row whose ratio is the peer's time over ours, pair by pair."""
    ratio, spread = summary([p / o for o, p in zip(ours, peer)])
    return {"name": name, "ours": statistics.median(ours) * scale, "peer": statistics.median(peer) * scale, "ratio": ratio,
            "spread": spread, "unit": unit}
