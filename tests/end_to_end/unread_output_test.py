"""Whatever happens to its standard streams, the server serves and ends: stderr a full pipe, a pipe without a reader, all closed.
And clients that hang on the admin port hold up neither gRPC nor the admin port.

Usage: unread_output_test.py SERVER_BINARY
"""
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVER = sys.argv[1]
WITHIN_S = 60
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("EMBEDDING_")}


def health(address):
    return subprocess.run([SERVER, "health", "--timeout", "30s", "--address", address], env=ENVIRONMENT, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def serve_and_end(name, arguments=(), **streams):
    """Starts on a unix socket, since a port could not be told; asks for its health; ends it by SIGTERM."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/grpc"
        sample = os.path.join(REPOSITORY, "deploy", "sample", "words.safetensors")
        server = subprocess.Popen(
            [SERVER, "--grpc-address", address, "--admin-address", "127.0.0.1:0", "--table", f"words={sample}", *arguments],
            stdin=subprocess.DEVNULL, env=ENVIRONMENT, **streams)
        try:
            deadline = time.monotonic() + WITHIN_S
            while health(address) != 0:
                assert server.poll() is None, f"{name}: ended with {server.returncode}"
                assert time.monotonic() < deadline, f"{name}: not healthy within {WITHIN_S} s"
                time.sleep(0.05)
            # With --log-level trace each of these is many lines.
            for _ in range(5):
                assert health(address) == 0, name
            server.send_signal(signal.SIGTERM)
            assert server.wait(WITHIN_S) == 0, f"{name}: ended with {server.returncode}"
        finally:
            server.kill()
    print(f"{name}: serves and ends")


def full_pipe():
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b".")
    except BlockingIOError:
        os.set_blocking(writer, True)
    serve_and_end("stderr and stdout a full pipe", ["--log-level", "trace"], stderr=writer, stdout=writer)
    os.close(reader)
    serve_and_end("stderr a pipe without a reader", ["--log-level", "trace"], stderr=writer, stdout=writer)
    os.close(writer)


def closed_streams():
    def close():
        for descriptor in range(3):
            os.close(descriptor)
    serve_and_end("all standard streams closed", preexec_fn=close)


def hanging_admin_clients():
    sys.path.insert(0, os.path.join(REPOSITORY, "tests", "interop"))
    import server_process
    sample = os.path.join(REPOSITORY, "deploy", "sample", "words.safetensors")
    server = server_process.ServerProcess(SERVER, ["--table", f"words={sample}"])
    host, port = server.admin_address.rsplit(":", 1)
    hanging = []
    try:
        for _ in range(8):
            hanging.append(socket.create_connection((host, int(port)), timeout=10))
            hanging[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert health(server.address) == 0
        with urllib.request.urlopen(f"http://{server.admin_address}/metrics", timeout=10) as answer:
            assert answer.status == 200 and b"\nprocess_open_fds " in answer.read()
    finally:
        for client in hanging:
            client.close()
        code = server.stop()
    assert code == 0, code
    print("eight clients with half a request on the admin port: gRPC and /metrics answer")


full_pipe()
closed_streams()
hanging_admin_clients()
