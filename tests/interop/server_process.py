"""A server for one test: on ports of the kernel's choice, ready when the constructor returns, stopped by its process id."""
import json
import os
import signal
import subprocess
import tempfile
import time

READY_WITHIN_S = 60


class ServerProcess:
    def __init__(self, binary, arguments):
        self._log = tempfile.NamedTemporaryFile(prefix="embedding-server-", suffix=".log", delete=False)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("EMBEDDING_")}
        self._process = subprocess.Popen(
            [binary, "--grpc-address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0", "--log-format", "json"] + arguments,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log, env=environment)
        self.address = self.admin_address = None  # HOST:PORT of gRPC, and of the admin pages
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            events = self.events()
            self.address = next((event["grpc"] for event in events if "grpc" in event), None)
            admin = next((event["admin"] for event in events if "admin" in event), "")
            self.admin_address = admin.removeprefix("http://").rstrip("/")
            if self.address and any(event.get("msg") == "ready" for event in events):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"no ready server, exit code {self._process.poll()}:\n{self.log()}")
            time.sleep(0.02)

    def log(self):
        if not os.path.exists(self._log.name):
            return self._last_log
        with open(self._log.name, encoding="utf-8") as file:
            return file.read()

    def events(self):
        """The events of the log so far, each a dict."""
        return [json.loads(line) for line in self.log().split("\n")[:-1] if line.startswith("{")]

    def begin_drain(self):
        """Sends SIGTERM and waits for nothing; stop() waits for the end."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self):
        """Ends the server and returns its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        if os.path.exists(self._log.name):
            self._last_log = self.log()
            os.unlink(self._log.name)
        return self._process.wait()
