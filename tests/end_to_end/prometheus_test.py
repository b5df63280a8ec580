"""Debian's Prometheus scrapes a live server: it is up, and a latency quantile comes out of its histogram.

Usage: prometheus_test.py SERVER_BINARY
"""
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WITHIN_S = 60

CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: embedding-server
    static_configs: [{{targets: ["{target}"]}}]
"""


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


class Prometheus:
    """Runs on a port of the kernel's choice, with its data in `folder`."""

    def __init__(self, folder, target):
        configuration = os.path.join(folder, "prometheus.yml")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(
                target=target, rules=os.path.join(REPOSITORY, "deploy", "prometheus", "alerts.yml")))
        self._log_path = os.path.join(folder, "prometheus.log")
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(
                ["prometheus", f"--config.file={configuration}", f"--storage.tsdb.path={folder}/data",
                 "--web.listen-address=127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        found = self.wait_for("its port", lambda: re.search(
            r'msg="?Listening on"? address=127\.0\.0\.1:(\d+)', self.log()))
        self._url = f"http://127.0.0.1:{found.group(1)}/"
        self.wait_for("that it is ready", self._ready)

    def log(self):
        with open(self._log_path, encoding="utf-8") as file:
            return file.read()

    def wait_for(self, what, probe):
        """The first true value of probe()."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            value = probe()
            if value:
                return value
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Prometheus does not show {what} within {WITHIN_S} s:\n{self.log()}")
            time.sleep(0.05)

    def _ready(self):
        try:
            with urllib.request.urlopen(f"{self._url}-/ready", timeout=10) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False  # 503: it listens before it can answer

    def get(self, path, **parameters):
        with urllib.request.urlopen(f"{self._url}api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        """[(labels, value)] of an instant query."""
        return [(sample["metric"], float(sample["value"][1]))
                for sample in self.get("query", query=expression)["result"]]

    def stop(self):
        self._process.terminate()
        self._process.wait(30)


def main():
    if not shutil.which("prometheus"):
        skip("prometheus is missing (Debian package prometheus)")
    try:
        import grpc
    except ImportError:
        skip("grpc is missing (Debian package python3-grpcio)")
    sys.path.insert(0, os.path.join(REPOSITORY, "tests", "interop"))
    import server_process
    import stubs
    stubs.generate()
    from embedding.v1 import embedding_pb2, embedding_pb2_grpc

    sample = os.path.join(REPOSITORY, "deploy", "sample", "words.safetensors")
    server = server_process.ServerProcess(sys.argv[1], ["--table", f"words={sample},vocab=words.vocab.txt"])
    prometheus = None
    with tempfile.TemporaryDirectory(prefix="embedding-prometheus-") as folder:
        try:
            service = embedding_pb2_grpc.EmbeddingServiceStub(grpc.insecure_channel(server.address))

            def call():
                service.Lookup(embedding_pb2.LookupRequest(rows={"ids": {"values": range(64)}}), timeout=10)

            prometheus = Prometheus(folder, server.admin_address)
            prometheus.wait_for("up == 1", lambda: prometheus.query('up{job="embedding-server"} == 1'))
            print("up == 1")

            def p99():
                call()  # between two scrapes, so that there is a rate
                values = prometheus.query(
                    "histogram_quantile(0.99, sum by (le, grpc_method) "
                    '(rate(grpc_server_handling_seconds_bucket{grpc_method="Lookup"}[1m])))')
                return [value for _, value in values if not math.isnan(value)]

            quantile = prometheus.wait_for("a p99 of Lookup", p99)[0]
            assert 0 < quantile < 10, quantile
            print(f"p99 of Lookup by histogram_quantile: {quantile:.6f} s")

            handled = prometheus.query('grpc_server_handled_total{grpc_method="Lookup",grpc_code="OK"} > 0')
            assert len(handled) == 1, handled
            rows = prometheus.query("embedding_table_rows")
            assert [(labels["table"], value) for labels, value in rows] == [("words", 10000)], rows

            targets = prometheus.get("targets")["activeTargets"]
            assert [(t["health"], t["lastError"]) for t in targets] == [("up", "")], targets
            rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
            assert rules and all(rule["health"] != "err" for rule in rules), rules
            firing = [rule["name"] for rule in rules if rule["state"] == "firing"]
            assert not firing, firing
            print(f"{len(rules)} alerts loaded, none firing")
        finally:
            if prometheus:
                prometheus.stop()
            code = server.stop()
    assert code == 0, f"the server ended with exit code {code}"


if __name__ == "__main__":
    main()
