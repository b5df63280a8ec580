"""Runs what the README tells its readers to run, against a fresh server, and compares the output.

Usage: readme_test.py BIN_FOLDER. Blocks of README.md:
  console  "$ command" lines are run with bash from the repository's root, what follows is the expected output; "..." stands
           for anything (a line of its own: any lines). "$ embedding-server --table ..." starts the server that the rest uses.
  sh       run like console, output ignored
  python, js   run as a program; an "output" block right after it is the expected output
Other blocks are for reading. After the comment <!-- numbers vary --> any number with any unit of time will do. Addresses are
replaced by those of this test's server. A program whose packages are missing is skipped, said loudly.
"""
import os
import re
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(REPOSITORY, "tests", "interop"))
import cache  # noqa: E402
from server_process import ServerProcess  # noqa: E402

BLOCK = re.compile(r"^(<!-- numbers vary -->\n)?```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = r"\d+(?:[.,]\d+)*(?: (?:us|ms|s)\b)?"
DOCUMENTED_GRPC, DOCUMENTED_ADMIN = "127.0.0.1:50051", "127.0.0.1:9464"


class ReadmeRun:
    def __init__(self, binaries, scratch):
        self.binaries = binaries
        self.scratch = scratch
        self.server = None
        self.ran = 0
        self.failures = []
        modules = os.path.join(cache.folder("node"), "node_modules")
        self.environment = {**os.environ, "PATH": f"{binaries}:/usr/bin:{os.environ['PATH']}", "NODE_PATH": modules,
                            "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}

    def substituted(self, text):
        text = text.replace("build/release/bin", self.binaries).replace("/tmp/embedding", self.scratch)
        if self.server:
            text = text.replace(DOCUMENTED_GRPC, self.server.address).replace(DOCUMENTED_ADMIN, self.server.admin_address)
        return text

    def bash(self, command):
        self.ran += 1
        if self.server:  # for commands that rely on the default address
            self.environment["EMBEDDING_ADDRESS"] = self.server.address
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", self.substituted(command)], cwd=REPOSITORY,
                              env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120)
        return done.returncode, done.stdout

    def start_server(self, command):
        arguments = self.substituted(command.replace("\\\n", " ")).split()
        if arguments[-1] == "&":
            arguments.pop()
        self.ran += 1
        self.server = ServerProcess(os.path.join(self.binaries, arguments[0]),
                                    arguments[1:])

    def compare(self, what, expected, got, numbers_vary):
        def words(line):  # columns follow the widest value, which may be one that varies
            if numbers_vary:  # as may what the load tester remarks on a count
                line = re.sub(r" few: a rough figure$", "", line)
            return re.sub(r"  +", " ", line.strip())

        pattern = ""
        for line in expected.strip().split("\n"):
            if line.strip() == "...":
                pattern += r"(?:[^\n]*\n)*?"
                continue
            for part in re.split(r"(\.\.\.)" + (f"|({NUMBER})" if numbers_vary else ""), words(line)):
                if part == "...":
                    pattern += r"[^\n]*"
                elif part and numbers_vary and re.fullmatch(NUMBER, part):
                    pattern += NUMBER
                else:
                    pattern += re.escape(part or "")
            pattern += r"\n"
        text = "".join(words(line) + "\n" for line in got.strip().split("\n"))
        if not re.fullmatch(pattern, text):
            self.failures.append(f"{what}\n--- README says\n{expected}\n--- it printed\n{got}")

    def transcript(self, body, numbers_vary):
        for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            lines = step.split("\n")
            count = 1
            while lines[count - 1].endswith("\\"):
                count += 1
            command, expected = "\n".join(lines[:count]), "\n".join(lines[count:])
            if command.startswith("embedding-server --table"):
                self.start_server(command)
                continue
            code, output = self.bash(command)
            announced = re.search(r"# exit code (\d+)$", command)
            if code != (int(announced.group(1)) if announced else 0):
                self.failures.append(f"$ {command}\nended with exit code {code}:\n{output}")
            else:
                self.compare(f"$ {command}", expected, output, numbers_vary)

    def program(self, language, body, expected):
        suffix, interpreter = {"python": (".py", "python3"), "js": (".cjs", "node")}[language]
        if language == "js" and not os.path.isdir(os.path.join(self.environment["NODE_PATH"], "@grpc", "grpc-js")):
            print("SKIPPED: the README's Node program was NOT run: no @grpc/grpc-js", file=sys.stderr)
            return
        path = os.path.join(self.scratch, f"program{suffix}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.substituted(body))
        code, output = self.bash(f"PYTHONPATH={self.scratch}/stubs {interpreter} {path}")
        if code != 0:
            self.failures.append(f"{language} program ended with exit code {code}:\n{output}")
        elif expected is not None:
            self.compare(f"{language} program", expected, output, numbers_vary=False)

    def run(self, text):
        blocks = BLOCK.findall(text)
        for index, (comment, kind, body) in enumerate(blocks):
            if kind == "console":
                self.transcript(body, numbers_vary=bool(comment))
            elif kind == "sh":
                code, output = self.bash(body)
                if code != 0:
                    self.failures.append(f"{body}ended with exit code {code}:\n{output}")
            elif kind in ("python", "js"):
                following = blocks[index + 1] if index + 1 < len(blocks) else ("", "", "")
                self.program(kind, body, following[2] if following[1] == "output" else None)


def main():
    with tempfile.TemporaryDirectory(prefix="readme-test-") as scratch:
        readme = ReadmeRun(os.path.abspath(sys.argv[1]), scratch)
        with open(os.path.join(REPOSITORY, "README.md"), encoding="utf-8") as file:
            text = file.read()
        try:
            readme.run(text)
        finally:
            if readme.server:
                readme.server.stop()
    for failure in readme.failures:
        print(f"FAILED {failure}\n")
    print(f"README: {readme.ran} commands run, {len(readme.failures)} failed")
    return 1 if readme.failures or readme.ran < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
