"""What exact search is compared with, each in a process of its own and at the fastest of its settings, which are tried out first.

OpenBLAS chooses its kernels by the model of the CPU and falls back to those of 2004 (Prescott) where it does not know the model,
whatever instructions the CPU has. A peer is then several times slower than it could be, so the kernels are tried out, too."""
import contextlib
import importlib.util
import os
import statistics
import sys

from measure import Program

FAISS_PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "faiss_peer.py")
BLOCKS = (1024, 4096, 16384)
# Huge pages for a peer's memory, as ours has them; faiss_peer.py says why one thread.
FIXED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "OMP_NUM_THREADS": "1"}


def has_faiss():
    return importlib.util.find_spec("faiss") is not None


def blas_kernels():
    """Names that OPENBLAS_CORETYPE takes and this CPU can run, newest first; the empty one leaves the choice to OpenBLAS."""
    flags = set()
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("flags"):
                flags = set(line.split())
                break
    needs = {"Sapphirerapids": {"avx512_bf16", "avx512f", "avx512vl"}, "Cooperlake": {"avx512_bf16", "avx512f", "avx512vl"},
             "SkylakeX": {"avx512f", "avx512vl", "avx512bw", "avx512dq"}, "Haswell": {"avx2", "fma"}}
    return [name for name, wanted in needs.items() if wanted <= flags] + [""]


class Peer:
    """One program at the fastest of its settings for `count` queries and k: with each of the kernels of BLAS, then with each of the
    further environments and the best kernels. settings: what apply and ask understand. The program's first line ends with the name
    of the kernels that it has in fact."""

    def __init__(self, command, settings, further, count, k):
        self.command, self.settings = command, settings
        self.program, self.environment, self.seconds = None, {}, None
        seen = set()
        try:
            for name in blas_kernels():
                self.try_out({"OPENBLAS_CORETYPE": name} if name else {}, count, k, seen)
            for more in further:
                self.try_out({**self.environment, **more}, count, k, set())
            self.apply(self.program, self.setting)
        except BaseException:  # a signal: nobody else knows of the program yet
            if self.program is not None:
                self.program.kill()
            raise

    def try_out(self, environment, count, k, seen):
        with contextlib.ExitStack() as stack:
            program = stack.enter_context(Program(*self.command, env={**os.environ, **FIXED, **environment}))
            if program.first_line in seen:
                return
            seen.add(program.first_line)
            for setting in self.settings:
                self.apply(program, setting)
                first = self.ask(program, setting, 0, count, k)["seconds"]  # warms up
                if self.seconds is not None and first > 4 * self.seconds:
                    continue
                times = [self.ask(program, setting, turn, count, k)["seconds"] for turn in range(3)]
                if self.seconds is None or statistics.median(times) < self.seconds:
                    if self.program not in (None, program):
                        self.program.close()
                    self.program, self.setting, self.environment = program, setting, environment
                    self.seconds = statistics.median(times)
            if program is self.program:
                stack.pop_all()  # it stays

    @staticmethod
    def apply(program, setting):
        """Makes the program ready for the setting."""

    @staticmethod
    def ask(program, setting, first, count, k):
        raise NotImplementedError

    def search(self, first, count, k):
        return self.ask(self.program, self.setting, first, count, k)

    def kernels(self):
        return self.program.first_line.split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.program.__exit__(*failure)


class Faiss(Peer):
    """IndexFlatIP of the PyPI package: its own loops or its BLAS, on one thread or on all, which spin or sleep while idle, or as one
    part for each thread (IndexShards), because its own loops use one thread for each query."""

    def __init__(self, files, threads, count, k):
        own_loops = 1 << 30
        settings = [(number, least, rows, shards) for number, shards in sorted({(threads, 1), (1, 1), (1, threads)}, reverse=True)
                    for least, rows in [(1, rows) for rows in BLOCKS] + [(own_loops, 1024)]]
        super().__init__((sys.executable, FAISS_PEER, *files), settings, [{"OMP_WAIT_POLICY": "passive"}], count, k)

    @staticmethod
    def apply(program, setting):
        program.ask("set {} {} {} {}".format(*setting))

    @staticmethod
    def ask(program, setting, first, count, k):
        return program.ask(f"search {first} {count} {k}")

    def __str__(self):
        number, least, rows, shards = self.setting
        how = f"BLAS, {self.kernels()} kernels, {rows} rows a call" if least == 1 else "own loops"
        parts = f"{shards} shards" if shards > 1 else f"{number} threads"
        return f"faiss on {parts} by {how}{', idle threads asleep' if 'OMP_WAIT_POLICY' in self.environment else ''}"


class Sgemm(Peer):
    """Debian's OpenBLAS over blocks of rows."""

    def __init__(self, program, files, count, k):
        super().__init__((program, *files), BLOCKS, [], count, k)

    @staticmethod
    def ask(program, setting, first, count, k):
        return program.ask(f"sgemm {first} {count} {k} {setting}")

    def __str__(self):
        return f"OpenBLAS, {self.kernels()} kernels, {self.setting} rows a call"
