"""What each figure must reach, and what we are after. Figures are ratios measured in turns in one run."""
from typing import NamedTuple


class Goal(NamedTuple):
    what: str
    must: float
    aim: float
    lower_is_better: bool = False
    full_run: bool = False  # takes minutes: --quick leaves it out unless it is named


GOALS = {
    "lookup_cpu_vs_floor_64x768": Goal("server CPU per call over the floor's, F32", 1.35, 1.2, True),
    "lookup_vs_protobuf_64x768": Goal("rows/s over the textbook service", 1.6, 2.2),
    "lookup_cpu_vs_protobuf_64x768": Goal("server CPU per call over the textbook service's", 0.45, 0.36, True),
    "lookup_vs_redis_64x768": Goal("rows/s over Redis MGET, both clients copying each answer once", 1.3, 1.8),
    "lookup_vs_redis_64x128": Goal("the same with 512-byte rows", 1.1, 1.4),
    "lookup_cpu_vs_redis_64x128": Goal("server CPU per call over Redis's", 0.9, 0.7, True),
    "lookup_stream_vs_redis_64x128": Goal("the same rows by LookupStream over Redis MGET", 1.4, 2.0),
    "lookup_stream_vs_unary_1x128": Goal("32 outstanding on one stream over 32 unary calls, calls/s", 2.5, 4.0),
    "exact_1q_vs_f32_read_50257x768": Goal("time of a plain read of the float32 rows over ours, k=10", 2.5, 3.8),
    "exact_1q_vs_faiss_50257x768": Goal("time of faiss-cpu IndexFlatIP over ours, same ids", 3.5, 6),
    "exact_1q_vs_faiss_341k_x100": Goal("same on 341,479 x 100 word vectors", 3, 5, False, True),
    "exact_64q_vs_best_50257x768": Goal("64 queries a call: the better of faiss and OpenBLAS over ours", 1.3, 1.8),
    "exact_bandwidth": Goal("time of a plain read of what a search reads, 128 bytes of codes and 12 of facts a row, over ours, "
                            "1,000,000 x 128", 0.85, 0.95),
    "exact_mismatches": Goal("answers that differ from the canonical full scan, of 1,002,000", 0, 0, True, True),
    "microbatch_16_clients": Goal("queries/s with sharing over without, 1,000,000 x 128", 3, 6),
    "codes_build_vs_read": Goal("time of a plain read of the float32 rows over coding them", 0.15, 0.4),
    "load_vs_pread_1GiB": Goal("time of two threads' pread over our load, codes off", 0.8, 0.95),
    "lookup_slow_share_5rps": Goal("share of calls above 10 ms at 5 calls/s", 0.01, 0.001, True, True),
    "reload_p99": Goal("p99 of Lookup in windows with reloads over without, at 20 % of the peak", 2.0, 1.2, True, True),
    "hnsw_qps_vs_hnswlib_r95": Goal("queries/s over hnswlib at recall@10 = 0.95, 341k word vectors", 1.5, 2.5, False, True),
    "hnsw_qps_vs_hnswlib_r99": Goal("the same at recall@10 = 0.99", 1.5, 2.5, False, True),
    "hnsw_build_vs_hnswlib": Goal("time of hnswlib's build over ours at equal recall, two threads", 1.2, 1.8, False, True),
}
