"""Runs node_client.cjs against a server. Usage: node_client_test.py EMBEDDING_SERVER.

The packages come from npm into the cache. Without node or npm the test says so and exits with 77: skipped.
"""
import os
import subprocess
import sys

import cache
import stubs
from server_process import ServerProcess

PACKAGES = ["@grpc/grpc-js@1", "@grpc/proto-loader@0"]
SAMPLE = os.path.join(stubs.REPOSITORY, "deploy", "sample")
SKIPPED = 77


def fetch():
    folder = cache.folder("node")
    if not os.path.exists(os.path.join(folder, "complete")):
        os.makedirs(folder, exist_ok=True)
        try:
            subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--silent"] + PACKAGES,
                           check=True, timeout=240, stdin=subprocess.DEVNULL)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"SKIPPED: the Node client was NOT tested: npm gave no {' '.join(PACKAGES)} ({error})", file=sys.stderr)
            sys.exit(SKIPPED)
        open(os.path.join(folder, "complete"), "w").close()
    return os.path.join(folder, "node_modules")


if __name__ == "__main__":
    modules = fetch()
    server = ServerProcess(sys.argv[1], ["--table", f"words={SAMPLE}/words.safetensors,vocab={SAMPLE}/words.vocab.txt"])
    try:
        client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_client.cjs")
        done = subprocess.run(["node", client, server.address, stubs.REPOSITORY], env={**os.environ, "NODE_PATH": modules},
                              timeout=60)
    finally:
        server.stop()
    sys.exit(done.returncode)
