"""The binary as a shell sees it: standard streams, exit codes, interruption. Usage: process_test.py EMBEDDING_CLI"""
import os
import signal
import socket
import subprocess
import sys
import unittest

CLI = sys.argv.pop(1)


def run(*arguments, **options):
    return subprocess.run([CLI, *arguments], capture_output=True, text=True, timeout=60, check=False, **options)


class ProcessTest(unittest.TestCase):
    def test_help_and_version_are_data(self):
        for arguments in (["--help"], ["-h"], ["--version"], ["lookup", "--help"]):
            ended = run(*arguments)
            self.assertEqual(ended.returncode, 0, arguments)
            self.assertNotEqual(ended.stdout, "", arguments)
            self.assertEqual(ended.stderr, "", arguments)

    def test_usage_errors_are_talk(self):
        for arguments in ([], ["lokup"], ["lookup", "--tabel", "x"]):
            ended = run(*arguments)
            self.assertEqual(ended.returncode, 2, arguments)
            self.assertEqual(ended.stdout, "", arguments)
            self.assertIn("embedding-cli: ", ended.stderr)

    def test_nobody_listening_is_78(self):
        ended = run("info", env={**os.environ, "EMBEDDING_ADDRESS": "unix:/nonexistent/socket"})
        self.assertEqual(ended.returncode, 78)
        self.assertEqual(ended.stdout, "")
        self.assertIn("nothing listens on unix:/nonexistent/socket", ended.stderr)

    def test_a_server_that_never_answers_is_68(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            ended = run("--address", f"127.0.0.1:{server.getsockname()[1]}", "info", "--deadline", "200ms")
        self.assertEqual(ended.returncode, 68)
        self.assertIn("within 200 ms; --deadline gives more time", ended.stderr)

    def test_interrupted_is_130(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with socket.create_server(("127.0.0.1", 0)) as server:
                address = f"127.0.0.1:{server.getsockname()[1]}"
                with subprocess.Popen([CLI, "info", "-a", address, "--deadline", "60s"]) as process:
                    connection, _ = server.accept()  # it is waiting for an answer now
                    process.send_signal(number)
                    self.assertEqual(process.wait(timeout=60), 130)
                    connection.close()

    def test_full_stdout_is_1(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            ended = subprocess.run([CLI, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("stdout could not be written", ended.stderr)


if __name__ == "__main__":
    unittest.main()
