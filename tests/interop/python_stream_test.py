"""LookupStream of a real server, spoken to by grpcio: order, outcomes, many outstanding, every way to end.

Usage: python_stream_test.py EMBEDDING_SERVER. Every expected value comes from numpy and the table's file.
"""
import os
import queue
import random
import sys
import time
import unittest
import urllib.request

import safetensors_file
import stubs

stubs.generate()

import grpc  # noqa: E402
from embedding.v1 import embedding_pb2 as pb, embedding_pb2_grpc  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402

from server_process import ServerProcess  # noqa: E402

SAMPLE = os.path.join(stubs.REPOSITORY, "deploy", "sample")
TABLE = f"words={SAMPLE}/words.safetensors,vocab={SAMPLE}/words.vocab.txt"
SEED = 20120814
DEADLINE_S = 60


def item(ids, **fields):
    return pb.LookupStreamRequest(lookup=pb.LookupRequest(rows=pb.RowSelector(ids=pb.IdList(values=ids)), **fields))


class Requests:
    """Requests of one stream, sent as they are put; done() half-closes."""

    def __init__(self, *items):
        self._queue = queue.Queue()
        for one in items:
            self.put(one)

    def put(self, one):
        self._queue.put(one)

    def done(self):
        self._queue.put(None)

    def __iter__(self):
        return iter(self._queue.get, None)


class PythonStreamTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = safetensors_file.read(os.path.join(SAMPLE, "words.safetensors"), "embedding.weight")
        cls.server = ServerProcess(SERVER, ["--table", TABLE])
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.embedding = self.connect(self.server)

    def connect(self, server):
        self.channel = grpc.insecure_channel(server.address, options=[
            ("grpc.max_receive_message_length", 64 << 20), ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(self.channel.close)
        return embedding_pb2_grpc.EmbeddingServiceStub(self.channel)

    def assert_rows(self, answer, ids):
        self.assertEqual(answer.WhichOneof("outcome"), "lookup", answer)
        self.assertEqual(answer.lookup.embeddings.data, self.rows[ids].tobytes())

    def metric(self, name, *labels):
        """The sum of a metric's values over the series that carry these labels."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.server.admin_address}/metrics", timeout=DEADLINE_S) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines
                   if line.startswith(name + "{") and all(label in line for label in labels))

    # --- order and outcomes -------------------------------------------------------------------------------------------

    def test_thousands_outstanding_are_answered_in_order(self):
        random_ids = random.Random(SEED)
        asked = [random_ids.choices(range(len(self.rows)), k=random_ids.randrange(1, 40)) for _ in range(3000)]
        answers = list(self.embedding.LookupStream(iter([item(ids) for ids in asked]), timeout=DEADLINE_S))
        self.assertEqual(len(answers), len(asked))
        for answer, ids in zip(answers, asked):
            self.assert_rows(answer, ids)

    def test_each_answer_comes_without_waiting_for_more_requests(self):
        requests = Requests()
        answers = self.embedding.LookupStream(iter(requests), timeout=DEADLINE_S)
        for i in range(100):
            requests.put(item([i, 0]))
            self.assert_rows(next(answers), [i, 0])
        requests.done()
        self.assertEqual(list(answers), [])
        self.assertEqual(answers.code(), grpc.StatusCode.OK)

    def test_a_burst_on_each_of_many_streams_is_answered_while_they_stay_open(self):
        for _ in range(100):
            requests = Requests(*[item([i]) for i in range(8)])
            answers = self.embedding.LookupStream(iter(requests), timeout=30)
            for i in range(8):
                self.assert_rows(next(answers), [i])
            requests.done()
            self.assertEqual(list(answers), [])

    def test_many_streams_at_once_keep_their_answers_apart(self):
        streams = []
        for first in range(20):
            ids = [[(first + 37 * i) % len(self.rows)] for i in range(200)]
            streams.append((ids, self.embedding.LookupStream(iter([item(one) for one in ids]), timeout=DEADLINE_S)))
        for ids, answers in streams:
            for one in ids:
                self.assert_rows(next(answers), one)
            self.assertEqual(list(answers), [])

    def test_errors_stand_between_answers_and_end_nothing(self):
        keys = pb.LookupStreamRequest(lookup=pb.LookupRequest(
            rows=pb.RowSelector(keys=pb.KeyList(values=["king", "no such word"]))))
        requests = [item([5]), item([10000]), item([6]), item([-1]), item([7]), keys, item([8]),
                    pb.LookupStreamRequest(), item([9]), item([1], table=pb.TableSpec(name="other")), item([10])]
        answers = list(self.embedding.LookupStream(iter(requests), timeout=DEADLINE_S))
        self.assertEqual(len(answers), len(requests))
        for i, answer in enumerate(answers[::2]):
            self.assert_rows(answer, [5 + i])
        code = grpc.StatusCode
        wanted = [(code.OUT_OF_RANGE, 'ids[0] is 10000, table "words" has 10000 rows'),
                  (code.INVALID_ARGUMENT, "ids[0]=-1, must be >= 0"),
                  (code.NOT_FOUND, 'keys[1] "no such word" is not a key of table "words"; 1 of 2 missing, at 1'),
                  (code.INVALID_ARGUMENT, "rows is unset, must hold ids, keys or id_tensor"),
                  (code.NOT_FOUND, '"other"')]
        for answer, (want, message) in zip(answers[1::2], wanted):
            self.assertEqual((answer.WhichOneof("outcome"), answer.error.code), ("error", want.value[0]))
            self.assertIn(message, answer.error.message)

    def test_an_item_over_a_limit_fails_alone(self):
        answers = list(self.embedding.LookupStream(iter([item([1] * 65536), item([2] * 65537), item([3])]),
                                                   timeout=DEADLINE_S))
        self.assert_rows(answers[0], [1] * 65536)
        self.assertEqual(answers[1].error.code, grpc.StatusCode.INVALID_ARGUMENT.value[0])
        self.assertIn("65537 entries", answers[1].error.message)
        self.assert_rows(answers[2], [3])

    # --- ends ---------------------------------------------------------------------------------------------------------

    def test_a_stream_without_requests_ends_well(self):
        answers = self.embedding.LookupStream(iter([]), timeout=DEADLINE_S)
        self.assertEqual(list(answers), [])
        self.assertEqual(answers.code(), grpc.StatusCode.OK)

    def test_half_close_leaves_every_answer_to_come(self):
        answers = self.embedding.LookupStream(iter([item([i]) for i in range(1000)]), timeout=DEADLINE_S)
        # Only now is anything read: the caller has long said that there is no more.
        for i in range(1000):
            self.assert_rows(next(answers), [i])
        self.assertEqual(list(answers), [])
        self.assertEqual(answers.code(), grpc.StatusCode.OK)

    def test_cancel_ends_the_stream_and_leaves_nothing_on_the_server(self):
        requests = Requests(*[item([i] * 1000) for i in range(200)])
        answers = self.embedding.LookupStream(iter(requests), timeout=DEADLINE_S)
        self.assert_rows(next(answers), [0] * 1000)
        answers.cancel()
        with self.assertRaises(grpc.RpcError):
            list(answers)
        requests.done()
        self.assertEqual(answers.code(), grpc.StatusCode.CANCELLED)
        deadline = time.monotonic() + DEADLINE_S
        while self.metric("embedding_requests_in_flight", 'grpc_method="LookupStream"') != 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual(self.metric("grpc_server_started_total", 'grpc_method="LookupStream"'),
                         self.metric("grpc_server_handled_total", 'grpc_method="LookupStream"'))

    def test_the_streams_own_deadline_ends_it(self):
        requests = Requests(item([1]))
        grpc.channel_ready_future(self.channel).result(timeout=DEADLINE_S)
        answers = self.embedding.LookupStream(iter(requests), timeout=3)
        self.assert_rows(next(answers), [1])
        with self.assertRaises(grpc.RpcError) as raised:
            next(answers)
        requests.done()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

    def test_a_message_that_does_not_parse_ends_the_stream_after_the_answers_before_it(self):
        raw = self.channel.stream_stream("/embedding.v1.EmbeddingService/LookupStream",
                                         response_deserializer=pb.LookupStreamResponse.FromString)
        answers = raw(iter([item([4]).SerializeToString(), b"\x0a\x05\x08"]), timeout=DEADLINE_S)
        self.assert_rows(next(answers), [4])
        with self.assertRaises(grpc.RpcError) as raised:
            next(answers)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        trailing = {key: value for key, value in raised.exception.trailing_metadata()}
        status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
        info = error_details_pb2.ErrorInfo.FromString(status.details[0].value)
        self.assertEqual((info.domain, info.reason), ("embedding.v1", "MALFORMED"))

    def test_a_caller_who_does_not_read_stalls_no_other(self):
        # 256 answers of 2.4 MB are more than every buffer on the way: the server takes up only some of the requests.
        before = self.metric("embedding_stream_items_total", 'grpc_code="OK"')
        lazy_requests = Requests(*[item([3] * 6000, output_dtype=pb.DTYPE_F32) for _ in range(256)])
        lazy = self.connect(self.server).LookupStream(iter(lazy_requests), timeout=DEADLINE_S)
        busy = self.connect(self.server)
        for i in range(500):
            answer = busy.Lookup(pb.LookupRequest(rows=pb.RowSelector(ids=pb.IdList(values=[i]))), timeout=DEADLINE_S)
            self.assertEqual(answer.embeddings.data, self.rows[[i]].tobytes())
        self.assertLess(self.metric("embedding_stream_items_total", 'grpc_code="OK"') - before, 256)
        lazy_requests.done()
        received = 0
        for answer in lazy:
            self.assertEqual(len(answer.lookup.embeddings.data), 6000 * 400)
            received += 1
        self.assertEqual(received, 256)

    # --- drain --------------------------------------------------------------------------------------------------------

    def test_a_drain_ends_an_idle_stream_and_the_server(self):
        server = ServerProcess(SERVER, ["--table", TABLE])
        self.addCleanup(server.stop)
        requests = Requests(item([1]))
        answers = self.connect(server).LookupStream(iter(requests), timeout=DEADLINE_S)
        self.assert_rows(next(answers), [1])
        server.begin_drain()
        with self.assertRaises(grpc.RpcError) as raised:
            next(answers)
        requests.done()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(raised.exception.details(), "server is shutting down")
        self.assertEqual(server.stop(), 0)

    def test_a_drain_in_the_middle_answers_a_prefix_in_order(self):
        server = ServerProcess(SERVER, ["--table", TABLE])
        self.addCleanup(server.stop)
        requests = Requests(*[item([i] * 50) for i in range(5000)])
        answers = self.connect(server).LookupStream(iter(requests), timeout=DEADLINE_S)
        self.assert_rows(next(answers), [0] * 50)
        server.begin_drain()
        received = 1
        refused = None
        with self.assertRaises(grpc.RpcError) as raised:
            for answer in answers:
                if answer.WhichOneof("outcome") == "error":
                    refused = answer.error  # taken up when the drain had begun
                    self.assertEqual(refused.message, "server is shutting down")
                    self.assertEqual(refused.code, grpc.StatusCode.UNAVAILABLE.value[0])
                    continue
                self.assertIsNone(refused, "an answer after a refusal")
                self.assert_rows(answer, [received] * 50)
                received += 1
        requests.done()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(server.stop(), 0)
        last = server.events()[-1]
        self.assertEqual(last["started"], last["answered"], last)


if __name__ == "__main__":
    SERVER = sys.argv.pop(1)
    unittest.main(verbosity=2)
