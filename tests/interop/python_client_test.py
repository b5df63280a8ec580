"""A Python client with stubs generated from the contract against a real server: bytes, order, errors, reflection.

Usage: python_client_test.py EMBEDDING_SERVER. Every expected value comes from numpy and the table's file.
"""
import os
import random
import sys
import unittest

import numpy as np

import canonical
import safetensors_file
import stubs

stubs.generate()

import grpc  # noqa: E402
from embedding.v1 import embedding_pb2 as pb, embedding_pb2_grpc  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402
from google.protobuf import descriptor_pb2  # noqa: E402
from grpc.health.v1 import health_pb2, health_pb2_grpc  # noqa: E402
from grpc.reflection.v1 import reflection_pb2, reflection_pb2_grpc  # noqa: E402
from grpc.reflection.v1alpha import (  # noqa: E402
    reflection_pb2 as alpha_pb2, reflection_pb2_grpc as alpha_pb2_grpc)

from server_process import ServerProcess  # noqa: E402

SAMPLE = os.path.join(stubs.REPOSITORY, "deploy", "sample")
SEED = 20120814
DEADLINE_S = 60

METRICS = [canonical.COSINE, canonical.DOT, canonical.EUCLIDEAN]


class PythonClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = safetensors_file.read(os.path.join(SAMPLE, "words.safetensors"), "embedding.weight")
        with open(os.path.join(SAMPLE, "words.vocab.txt"), encoding="utf-8") as file:
            cls.words = file.read().splitlines()
        table = f"words={SAMPLE}/words.safetensors,vocab={SAMPLE}/words.vocab.txt"
        cls.server = ServerProcess(SERVER, ["--table", table])
        cls.addClassCleanup(cls.server.stop)
        cls.channel = grpc.insecure_channel(
            cls.server.address, options=[("grpc.max_receive_message_length", 64 << 20), ("grpc.enable_http_proxy", 0)])
        cls.addClassCleanup(cls.channel.close)
        cls.embedding = embedding_pb2_grpc.EmbeddingServiceStub(cls.channel)
        cls.tables = embedding_pb2_grpc.TableServiceStub(cls.channel)

    def lookup(self, **rows):
        request = pb.LookupRequest(rows=pb.RowSelector(**rows))
        return self.embedding.Lookup(request, timeout=DEADLINE_S)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def test_random_rows_are_the_bytes_of_the_file(self):
        ids = random.Random(SEED).choices(range(len(self.rows)), k=1000)
        answer = self.lookup(ids=pb.IdList(values=ids))
        self.assertEqual(answer.embeddings.dtype, pb.DTYPE_F16)
        self.assertEqual(list(answer.embeddings.shape), [1000, 100])
        self.assertEqual(answer.embeddings.data, self.rows[ids].tobytes())

    def test_random_rows_by_key_are_the_bytes_of_the_file(self):
        ids = random.Random(SEED + 1).choices(range(len(self.rows)), k=1000)
        answer = self.lookup(keys=pb.KeyList(values=[self.words[i] for i in ids]))
        self.assertEqual(answer.embeddings.data, self.rows[ids].tobytes())

    def test_ids_of_two_dimensions_add_the_width_to_their_shape(self):
        ids = np.random.default_rng(SEED).integers(0, len(self.rows), (8, 128))
        answer = self.lookup(id_tensor=pb.Tensor(dtype=pb.DTYPE_I32, shape=ids.shape, data=ids.astype("<i4").tobytes()))
        self.assertEqual(list(answer.embeddings.shape), [8, 128, 100])
        self.assertEqual(answer.embeddings.data, self.rows[ids].tobytes())

    def test_rows_widened_to_float32_equal_numpys(self):
        ids = list(range(0, 10000, 7))
        answer = self.embedding.Lookup(
            pb.LookupRequest(rows=pb.RowSelector(ids=pb.IdList(values=ids)), output_dtype=pb.DTYPE_F32), timeout=DEADLINE_S)
        self.assertEqual(answer.embeddings.data, self.rows[ids].astype("<f4").tobytes())

    def test_rows_as_floats_equal_numpys(self):
        answer = self.embedding.Lookup(
            pb.LookupRequest(rows=pb.RowSelector(ids=pb.IdList(values=[3, 9999])), encoding=pb.ENCODING_FLOATS),
            timeout=DEADLINE_S)
        np.testing.assert_array_equal(np.float32(answer.embeddings.values).reshape(2, 100), self.rows[[3, 9999]])

    def test_a_stock_client_receives_large_answers_only_when_told_to(self):
        request = pb.LookupRequest(rows=pb.RowSelector(ids=pb.IdList(values=[7] * 11000)), output_dtype=pb.DTYPE_F32)
        with grpc.insecure_channel(self.server.address, options=[("grpc.enable_http_proxy", 0)]) as stock:
            with self.assertRaises(grpc.RpcError) as raised:
                embedding_pb2_grpc.EmbeddingServiceStub(stock).Lookup(request, timeout=DEADLINE_S)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)  # 11,000 * 400 bytes > 4 MiB
        self.assertEqual(len(self.embedding.Lookup(request, timeout=DEADLINE_S).embeddings.data), 11000 * 400)

    # --- scores and neighbours ----------------------------------------------------------------------------------------

    def test_all_pairs_have_the_canonical_scores(self):
        left, right = [11, 500, 9000], list(range(100, 200))
        for metric in METRICS:
            with self.subTest(metric):
                answer = self.embedding.Similarity(pb.SimilarityRequest(
                    left=pb.VectorSet(rows=pb.RowSelector(ids=pb.IdList(values=left))),
                    right=pb.VectorSet(rows=pb.RowSelector(ids=pb.IdList(values=right))),
                    layout=pb.LAYOUT_ALL_PAIRS, metric=metric), timeout=DEADLINE_S)
                want = np.stack([canonical.scores(metric, self.rows[i], self.rows[right]) for i in left])
                got = np.frombuffer(answer.scores.data, "<f4").reshape(tuple(answer.scores.shape))
                np.testing.assert_array_equal(got, want)

    def test_ten_neighbours_of_200_rows_equal_float64_numpys(self):
        squared_norms = canonical.canonical_sum(np.float64(self.rows) ** 2)
        queries = random.Random(SEED + 2).sample(range(len(self.rows)), 200)
        for metric in METRICS:
            with self.subTest(metric):
                answer = self.embedding.NearestNeighbour(pb.NearestNeighbourRequest(
                    targets=pb.VectorSet(rows=pb.RowSelector(ids=pb.IdList(values=queries))), k=10, metric=metric,
                    return_keys=True), timeout=DEADLINE_S)
                self.assertEqual(len(answer.results), len(queries))
                for query, found in zip(queries, answer.results):
                    scores = canonical.scores(metric, self.rows[query], self.rows, squared_norms)
                    want = canonical.nearest(metric, scores, 10, left_out=(query,))
                    self.assertEqual(list(found.ids), want, f"row {query}")
                    np.testing.assert_array_equal(np.float32(found.scores), scores[want])
                    self.assertEqual(list(found.keys), [self.words[i] for i in want])

    def test_ten_neighbours_of_raw_vectors_equal_float64_numpys(self):
        vectors = np.random.default_rng(SEED).standard_normal((20, 100)).astype("<f4")
        for metric in METRICS:
            with self.subTest(metric):
                answer = self.embedding.NearestNeighbour(pb.NearestNeighbourRequest(
                    targets=pb.VectorSet(vectors=pb.Tensor(dtype=pb.DTYPE_F32, shape=[20, 100], data=vectors.tobytes())),
                    k=10, metric=metric), timeout=DEADLINE_S)
                for vector, found in zip(vectors, answer.results):
                    scores = canonical.scores(metric, vector, self.rows)
                    want = canonical.nearest(metric, scores, 10)
                    self.assertEqual(list(found.ids), want)
                    np.testing.assert_array_equal(np.float32(found.scores), scores[want])

    # --- errors -------------------------------------------------------------------------------------------------------

    def details_of(self, call):
        """Makes a call that must fail; returns its code, message, ErrorInfo and BadRequest (or None)."""
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        error = raised.exception
        trailing = {key: value for key, value in error.trailing_metadata()}
        status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
        self.assertEqual(status.code, error.code().value[0])
        self.assertEqual(status.message, error.details())
        info = bad = None
        for detail in status.details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                info = error_details_pb2.ErrorInfo.FromString(detail.value)
            elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                bad = error_details_pb2.BadRequest.FromString(detail.value)
        self.assertEqual(info.domain, "embedding.v1")
        return error.code(), error.details(), info, bad

    def test_errors_carry_code_reason_and_field(self):
        lookup = self.embedding.Lookup
        neighbours = self.embedding.NearestNeighbour
        one = pb.VectorSet(rows=pb.RowSelector(ids=pb.IdList(values=[1])))
        nan = np.full((1, 100), np.nan, "<f4")
        code = grpc.StatusCode
        cases = [
            # call, request, code, reason, start of the field path or None, what the message names
            (lookup, pb.LookupRequest(rows=pb.RowSelector(ids=pb.IdList(values=[5, 10000]))),
             code.OUT_OF_RANGE, "ID_OUT_OF_RANGE", "rows.ids", "10000"),
            (lookup, pb.LookupRequest(rows=pb.RowSelector(ids=pb.IdList(values=[-1]))),
             code.INVALID_ARGUMENT, "INVALID_FIELD", "rows.ids", "-1"),
            (lookup, pb.LookupRequest(rows=pb.RowSelector(keys=pb.KeyList(values=["king", "no such word"]))),
             code.NOT_FOUND, "KEY_NOT_FOUND", None, "no such word"),
            (lookup, pb.LookupRequest(table=pb.TableSpec(name="missing"), rows=pb.RowSelector(ids=pb.IdList(values=[1]))),
             code.NOT_FOUND, "TABLE_NOT_FOUND", None, "missing"),
            (lookup, pb.LookupRequest(), code.INVALID_ARGUMENT, "INVALID_FIELD", "rows", "rows"),
            (neighbours, pb.NearestNeighbourRequest(targets=one, k=0),
             code.INVALID_ARGUMENT, "INVALID_FIELD", "k", "k"),
            (neighbours, pb.NearestNeighbourRequest(targets=one, k=10001),
             code.INVALID_ARGUMENT, "LIMIT_EXCEEDED", "k", "10001"),
            (neighbours, pb.NearestNeighbourRequest(
                targets=pb.VectorSet(vectors=pb.Tensor(dtype=pb.DTYPE_F32, shape=[1, 100], data=nan.tobytes())), k=1),
             code.INVALID_ARGUMENT, "INVALID_FIELD", "targets.vectors", "nan"),
            (neighbours, pb.NearestNeighbourRequest(
                targets=pb.VectorSet(vectors=pb.Tensor(dtype=pb.DTYPE_F32, shape=[1, 3], values=[1, 2, 3])), k=1),
             code.INVALID_ARGUMENT, "INVALID_FIELD", "targets.vectors", "100"),
        ]
        for call, request, want_code, want_reason, want_field, named in cases:
            with self.subTest(f"{want_reason} {named}"):
                got_code, message, info, bad = self.details_of(lambda: call(request, timeout=DEADLINE_S))
                self.assertEqual((got_code, info.reason), (want_code, want_reason), message)
                self.assertIn(named, message.lower())
                self.assertNotIn("\n", message)
                if want_field:
                    self.assertTrue(bad.field_violations[0].field.startswith(want_field), bad)

    def test_a_body_that_is_no_message_is_an_invalid_argument(self):
        for service, method in (("EmbeddingService", "Lookup"), ("EmbeddingService", "Similarity"),
                                ("EmbeddingService", "NearestNeighbour"), ("TableService", "GetTable")):
            with self.subTest(method):
                raw = self.channel.unary_unary(f"/embedding.v1.{service}/{method}")
                code, _, info, _ = self.details_of(lambda: raw(b"\x0a\xff\xff\xff\xff\x7f", timeout=DEADLINE_S))
                self.assertEqual((code, info.reason), (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED"))

    # --- what tools ask for -------------------------------------------------------------------------------------------

    def test_table_tells_shape_and_parameters(self):
        info = self.tables.GetTable(pb.GetTableRequest(), timeout=DEADLINE_S).table
        self.assertEqual((info.name, info.rows, info.dim, info.parameters), ("words", 10000, 100, 1000000))
        self.assertEqual((info.dtype, info.has_keys, info.bytes), (pb.DTYPE_F16, True, self.rows.nbytes))

    def test_health_serves_server_service_and_table(self):
        health = health_pb2_grpc.HealthStub(self.channel)
        for service in ("", "embedding.v1.EmbeddingService", "table/words"):
            with self.subTest(service):
                answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=DEADLINE_S)
                self.assertEqual(answer.status, health_pb2.HealthCheckResponse.SERVING)

    def test_both_reflections_describe_the_contract(self):
        for messages, stub in ((reflection_pb2, reflection_pb2_grpc), (alpha_pb2, alpha_pb2_grpc)):
            with self.subTest(messages.DESCRIPTOR.package):
                reflection = stub.ServerReflectionStub(self.channel)
                questions = [messages.ServerReflectionRequest(list_services=""),
                             messages.ServerReflectionRequest(file_containing_symbol="embedding.v1.EmbeddingService")]
                services, files = list(reflection.ServerReflectionInfo(iter(questions), timeout=DEADLINE_S))
                names = {service.name for service in services.list_services_response.service}
                self.assertLessEqual({"embedding.v1.EmbeddingService", "embedding.v1.TableService",
                                      "grpc.health.v1.Health", f"{messages.DESCRIPTOR.package}.ServerReflection"}, names)
                described = [descriptor_pb2.FileDescriptorProto.FromString(file)
                             for file in files.file_descriptor_response.file_descriptor_proto]
                methods = [method.name for file in described for service in file.service
                           if service.name == "EmbeddingService" for method in service.method]
                self.assertEqual(methods, ["Lookup", "LookupStream", "Similarity", "NearestNeighbour"])


if __name__ == "__main__":
    SERVER = sys.argv.pop(1)
    unittest.main(verbosity=2)
