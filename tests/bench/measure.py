"""Programs that answer commands on stdin, and the arithmetic of figures measured in turns."""
import json
import statistics
import subprocess
import time


class Program:
    """A child process that prints a first line, then answers each line of its stdin with one line."""

    def __init__(self, *command, env=None):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        self.first_line = self.process.stdout.readline().strip()
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
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def cpu_seconds(pid):
    """Processor time of all threads of a process, user and system: its CPU clock (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def summary(ratios):
    """The median and the interquartile range of ratios that were measured in pairs."""
    if len(ratios) < 4:
        return statistics.median(ratios), [min(ratios), max(ratios)]
    quartiles = statistics.quantiles(ratios, n=4)
    return statistics.median(ratios), [quartiles[0], quartiles[2]]
