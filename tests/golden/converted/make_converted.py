#!/usr/bin/env python3
"""Writes the files that `embedding-cli convert` must make, byte for byte, by the formats' own libraries.

Made with Python 3.11, numpy 1.26.4, ml_dtypes 0.5.4, safetensors 0.5.3 (PyPI) from the rows in ../tables (made there from
a seed):
    pip install numpy==1.26.4 ml_dtypes==0.5.4 safetensors==0.5.3 && python3 make_converted.py

NAME.EXTENSION holds the rows of the dtype NAME as they are; FROM-to-TO.EXTENSION those of FROM in TO.
"""
import pathlib
import struct

import ml_dtypes
import numpy
import safetensors

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = (7, 5)
TYPES = {
    "F32": (numpy.dtype("<f4"), "float32"),
    "F16": (numpy.dtype("<f2"), "float16"),
    "BF16": (numpy.dtype(ml_dtypes.bfloat16), "bfloat16"),
    "I8": (numpy.dtype("i1"), "int8"),
    "U8": (numpy.dtype("u1"), "uint8"),
    "F8_E4M3": (numpy.dtype(ml_dtypes.float8_e4m3fn), "float8_e4m3fn"),
    "F8_E5M2": (numpy.dtype(ml_dtypes.float8_e5m2), "float8_e5m2"),
}


def write(stem, dtype, rows):
    tensor = {"dtype": TYPES[dtype][1], "shape": list(SHAPE), "data": rows.tobytes()}
    (HERE / f"{stem}.safetensors").write_bytes(safetensors.serialize({"embeddings": tensor}))
    if dtype in ("F32", "F16", "I8", "U8"):
        numpy.save(HERE / f"{stem}.npy", rows)
    if dtype == "F32":
        (HERE / f"{stem}.fbin").write_bytes(struct.pack("<II", *SHAPE) + rows.tobytes())


def main():
    for name, (dtype, _) in TYPES.items():
        raw = (HERE / "../tables" / f"{name.lower()}.raw").read_bytes()
        rows = numpy.frombuffer(raw, dtype).reshape(SHAPE)
        write(name, name, rows)
        # Through float32, which holds all of them; ml_dtypes and numpy round to nearest even.
        for to in ("F32", "F16", "BF16"):
            narrowed = rows.astype("<f4").astype(TYPES[to][0])
            if to != name and numpy.isfinite(narrowed.astype("<f4")).all():
                write(f"{name}-to-{to}", to, narrowed)


main()
