#!/usr/bin/env python3
"""Writes pooling.txt: bags of rows pooled by torch.nn.functional.embedding_bag in float64.

    python3 -m venv V && V/bin/pip install torch && V/bin/python make_pooling.py > pooling.txt

Made with torch 2.15.0 on the CPU, seed 20261130. Format, one item a line:
    table ROWS DIM VALUE...                    F32 values, row-major
    case NAME
    request FIELDS                             a LookupRequest in protobuf's text format
    want BAGS VALUE...                         torch's answer [BAGS, DIM]
    size VALUE...                              sum |w x| of each, by which errors are measured
"""
import random

import torch

ROWS, DIM = 24, 7
SEED = 20261130
MODES = {"sum": "POOLING_MODE_SUM", "mean": "POOLING_MODE_MEAN", "max": "POOLING_MODE_MAX"}


def text(values):
    return " ".join("%.17g" % float(v) for v in values)


def emit(name, table, ids, mode, offsets=None, weights=None, padding=None, last=False):
    """ids: a list, or a list of equal lists (bags without offsets)."""
    two_dimensions = offsets is None
    flat = [i for bag in ids for i in bag] if two_dimensions else ids
    wide = table.double()

    def bag(matrix, w, how):
        shaped = torch.tensor(ids, dtype=torch.int64)
        if two_dimensions:
            shaped = shaped.reshape(len(ids), -1)
            w = None if w is None else w.reshape(shaped.shape)
        return torch.nn.functional.embedding_bag(
            shaped, matrix, None if two_dimensions else torch.tensor(offsets, dtype=torch.int64), mode=how,
            per_sample_weights=w, include_last_offset=last, padding_idx=padding)

    w = None if weights is None else torch.tensor(weights, dtype=torch.float32).double()
    want = bag(wide, w, mode)
    size = bag(wide.abs(), None if w is None else w.abs(), "sum")
    fields = ["values: %d" % i for i in flat]
    if two_dimensions:
        fields += ["shape: %d" % len(ids), "shape: %d" % (len(ids[0]) if ids else 0)]
    pooling = ["mode: " + MODES[mode]]
    pooling += ["offsets: %d" % o for o in offsets or []]
    if last:
        pooling.append("include_last_offset: true")
    pooling += ["weights: %.9g" % x for x in weights or []]
    if padding is not None:
        pooling.append("padding_id: %d" % padding)
    print("case", name)
    print("request rows { ids { %s } } pooling { %s }" % (" ".join(fields), " ".join(pooling)))
    print("want", want.shape[0], text(want.flatten()))
    print("size", text(size.flatten()))


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    table = torch.randn(ROWS, DIM) * torch.exp2(torch.randint(-6, 7, (ROWS, 1)).float())
    print("table", ROWS, DIM, " ".join("%.9g" % v for v in table.flatten().tolist()))
    some = lambda n: [random.randrange(ROWS) for _ in range(n)]
    weights = lambda n: [float(torch.randn(1)) for _ in range(n)]
    for mode in MODES:
        emit(mode + "_offsets", table, some(12), mode, [0, 3, 4, 9])
        emit(mode + "_empty_bags", table, some(6), mode, [0, 0, 2, 2, 2, 6])
        emit(mode + "_only_empty_bags", table, [], mode, [0, 0, 0])
        emit(mode + "_one_bag_of_duplicates", table, [5] * 9, mode, [0])
        emit(mode + "_one_row_a_bag", table, some(5), mode, [0, 1, 2, 3, 4])
        emit(mode + "_include_last_offset", table, some(10), mode, [0, 4, 4, 10], last=True)
        emit(mode + "_padding", table, [3, 7, 3, 1, 3, 3, 2], mode, [0, 2, 4, 6], padding=3)
        emit(mode + "_padding_alone_in_a_bag", table, [3, 3, 3, 8], mode, [0, 3], padding=3)
        emit(mode + "_padding_zero", table, [0, 7, 0, 1], mode, [0, 2], padding=0)
        emit(mode + "_two_dimensions", table, [some(4) for _ in range(5)], mode)
        emit(mode + "_two_dimensions_padding", table, [[9, 1, 9], [9, 9, 9], [2, 9, 4]], mode, padding=9)
        emit(mode + "_long_bag", table, some(300), mode, [0, 1, 299])
    emit("weights_offsets", table, some(9), "sum", [0, 4, 4, 7], weights(9))
    emit("weights_include_last_offset", table, some(6), "sum", [0, 2, 6], weights(6), last=True)
    emit("weights_padding", table, [4, 6, 4, 1], "sum", [0, 2], weights(4), padding=4)
    emit("weights_two_dimensions", table, [some(3) for _ in range(4)], "sum", None, weights(12))
    emit("weights_zero_and_negative", table, some(4), "sum", [0, 2], [0.0, -1.5, -0.0, 1e-30])
    emit("weights_long_bag", table, some(300), "sum", [0], weights(300))


main()
