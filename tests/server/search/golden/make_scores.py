#!/usr/bin/env python3
"""Writes scores.inc: scores that numpy computes in float64, for score_test.cc.

Element j of vector i is ((i * 7919 + j * 104729) % 2001 - 1000) / 1024, which F32 and F16 hold exactly.
Usage: python3 make_scores.py > scores.inc
"""
import numpy


def vector(i, dim):
    j = numpy.arange(dim, dtype=numpy.int64)
    return ((i * 7919 + j * 104729) % 2001 - 1000).astype(numpy.float64) / 1024


def main():
    print(f"// By make_scores.py with numpy {numpy.__version__}: dim, a, b, dot, cosine, euclidean in float64.")
    for dim in (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 127, 128, 129, 768):
        for a, b in ((0, 1), (3, 4), (5, 5), (12, 700)):
            x, y = vector(a, dim), vector(b, dim)
            dot = numpy.dot(x, y)
            norms = numpy.linalg.norm(x) * numpy.linalg.norm(y)
            cosine = dot / norms if norms else 0.0
            print(f"{{{dim}, {a}, {b}, {dot!r}, {cosine!r}, {numpy.linalg.norm(x - y)!r}}},")


main()
