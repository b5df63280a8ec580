"""The canonical score in float64 numpy, written from its definition and sharing no code with the server.

8 partial sums in double (element j goes to sum j mod 8, in order of j), combined as ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7));
cosine = ab / (sqrt(aa) * sqrt(bb)), clamped to [-1, 1], 0 where a norm is 0; euclidean = sqrt of the sum of (a-b)^2; rounded
once to float32. numpy's own sum and matmul use another order of additions, so only this one can be equal to the last bit.
"""
import numpy as np

COSINE, DOT, EUCLIDEAN = "METRIC_COSINE", "METRIC_DOT", "METRIC_EUCLIDEAN"


def canonical_sum(terms):
    """terms: [n, d] float64 -> [n], each row summed in the canonical order."""
    count, dim = terms.shape
    padded = np.zeros((count, -(-dim // 8) * 8))
    padded[:, :dim] = terms  # adding +0.0 changes no sum
    sums = np.zeros((count, 8))
    for start in range(0, padded.shape[1], 8):
        sums += padded[:, start:start + 8]
    s = sums.T
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


def scores(metric, query, rows, squared_norms=None):
    """query: [d], rows: [n, d], both as stored; squared_norms: canonical_sum(rows * rows), if at hand. -> [n] float32."""
    q = np.asarray(query, np.float64)
    r = np.asarray(rows, np.float64)
    if metric == EUCLIDEAN:
        exact = np.sqrt(canonical_sum((r - q) * (r - q)))
    else:
        exact = canonical_sum(r * q)
    if metric == COSINE:
        norms = np.sqrt(squared_norms if squared_norms is not None else canonical_sum(r * r))
        norms = norms * np.sqrt(canonical_sum((q * q)[None, :])[0])
        exact = np.divide(exact, norms, out=np.zeros_like(exact), where=norms != 0)
        exact = np.clip(exact, -1.0, 1.0)
    largest = float(np.finfo(np.float32).max)
    return np.clip(exact, -largest, largest).astype(np.float32)


def nearest(metric, all_scores, k, left_out=()):
    """Ids of the k closest of all_scores [n] float32: closest first, equal scores by lower id, without those left out."""
    closeness = all_scores if metric == EUCLIDEAN else -all_scores
    order = np.lexsort((np.arange(len(all_scores)), closeness))
    return [int(i) for i in order[:k + len(left_out)] if int(i) not in left_out][:k]
