#!/usr/bin/env python3
"""Writes the golden tables beside this script, by the formats' own libraries.

Made with Python 3.11, numpy 1.26.4, ml_dtypes 0.5.4, safetensors 0.5.3, xxhash 4.1.0 (PyPI), seed 20261129:
    pip install numpy==1.26.4 ml_dtypes==0.5.4 safetensors==0.5.3 xxhash==4.1.0 && python3 make_tables.py

expected.tsv has one line per table that loads: file, table options, V, d, dtype in memory, dtype in the file, the rows in
memory as hex, the fingerprint. Fingerprints are XXH3-128 by the xxhash package, which wraps the reference C library.
refused.tsv has one line per file that numpy writes and the server refuses: file, a part of the message.
"""

import pathlib
import struct

import ml_dtypes
import numpy
import safetensors
import xxhash

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = 4 << 20
V, D = 7, 5
KEYS = ["the", "of", "König", "naïve", "東京", "🤖", "a b"]
GENERATED = "generated-30011x100-F32"


def fingerprint(dtype, num_rows, dim, rows, keys=()):
    digest = xxhash.xxh3_128()
    digest.update(dtype.encode() + b"\0" + struct.pack("<QQ", num_rows, dim))
    for begin in range(0, len(rows), BLOCK):
        digest.update(xxhash.xxh3_128(rows[begin:begin + BLOCK]).digest())
    for key in keys:
        digest.update(struct.pack("<Q", len(key.encode())) + key.encode())
    return digest.hexdigest()


def bfloat16_bits(values):
    """Nearest, ties to even; the values are finite."""
    bits = values.astype("<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def main():
    random = numpy.random.Generator(numpy.random.PCG64(20261129))
    f64 = random.standard_normal((V, D))
    # Extremes: a zero row, signed zero, subnormals and the largest values of F16.
    f64[3] = 0
    f64[4] = [-0.0, 6e-8, -3.1e-5, 65504, -65504]
    f32 = f64.astype("<f4")
    f16 = f64.astype("<f2")
    bf16 = bfloat16_bits(f32)
    rows = {"F32": f32, "F16": f16, "BF16": bf16, "F64": f64.astype("<f8")}
    names = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}
    in_memory = {"F32": "F32", "F16": "F16", "BF16": "BF16", "F64": "F32"}

    # 8 bits: integers of 40 times the value, floats rounded by ml_dtypes. Row 4 holds their extremes.
    small = numpy.where(numpy.abs(f64) < 100, f64, 0)
    for name, safetensors_name, dtype, scale, extremes in [
        ("I8", "int8", numpy.int8, 40, [-128, 127, -1, 1, 0]),
        ("U8", "uint8", numpy.uint8, 40, [255, 128, 127, 1, 0]),
        ("F8_E4M3", "float8_e4m3fn", ml_dtypes.float8_e4m3fn, 1, [-0.0, 2**-9, -7 * 2**-9, 448, -448]),
        ("F8_E5M2", "float8_e5m2", ml_dtypes.float8_e5m2, 1, [-0.0, 2**-16, -3 * 2**-16, 57344, -57344]),
    ]:
        values = small * scale
        if scale != 1:
            values = numpy.clip(numpy.rint(values), *(-128, 127) if name == "I8" else (0, 255))
        values[3] = 0
        values[4] = extremes
        rows[name] = values.astype(dtype)
        assert (rows[name][4].astype("f8") == extremes).all()
        names[name] = safetensors_name
        in_memory[name] = name

    expected, refused = [], []

    def expect(file, options, source_dtype, keys=()):
        dtype = in_memory[source_dtype]
        data = rows[dtype].tobytes()
        expected.append((file, options, V, D, dtype, source_dtype, data.hex(), fingerprint(dtype, V, D, data, keys)))

    def tensor(dtype):
        return {"dtype": names[dtype], "shape": [V, D], "data": rows[dtype].tobytes()}

    for dtype in rows:
        file = f"{dtype.lower()}.safetensors"
        (HERE / file).write_bytes(safetensors.serialize({"embeddings": tensor(dtype)}, {"format": "np"}))
        expect(file, "", dtype)
        file = f"{dtype.lower()}.raw"
        (HERE / file).write_bytes(rows[dtype].tobytes())
        expect(file, f"format=raw,dtype={dtype},dim={D}", dtype)

    # A table among others of a model: sizes that leave F32 data unaligned, a scalar, an empty tensor, a second 2-D float one.
    many = {
        "embeddings.word": tensor("F32"),
        "position": {"dtype": "float16", "shape": [2, 3], "data": bytes(12)},
        "ids": {"dtype": "int64", "shape": [3], "data": bytes(24)},
        "mask": {"dtype": "bool", "shape": [3], "data": b"\1\0\1"},
        "scale": {"dtype": "float32", "shape": [], "data": bytes(4)},
        "empty": {"dtype": "float32", "shape": [0, 4], "data": b""},
        "naïve": {"dtype": "uint8", "shape": [1], "data": b"\7"},
    }
    (HERE / "many.safetensors").write_bytes(safetensors.serialize(many, {"note": "seven tensors"}))
    expect("many.safetensors", "tensor=embeddings.word", "F32")

    (HERE / "keys.txt").write_text("\n".join(KEYS) + "\n", encoding="utf-8")
    expect("f32.safetensors", "vocab=keys.txt", "F32", KEYS)

    # numpy.save chooses version 1.0; write_array can be told.
    for file, array, version, dtype in [
        ("f4.npy", f32, (1, 0), "F32"),
        ("f2.npy", f16, (1, 0), "F16"),
        ("f8.npy", f64.astype("<f8"), (1, 0), "F64"),
        ("f4-big-endian.npy", f32.astype(">f4"), (1, 0), "F32"),
        ("f2-big-endian.npy", f16.astype(">f2"), (1, 0), "F16"),
        ("f8-big-endian.npy", f64.astype(">f8"), (1, 0), "F64"),
        ("f4-v2.npy", f32, (2, 0), "F32"),
        ("f4-v3.npy", f32, (3, 0), "F32"),
        ("i1.npy", rows["I8"], (1, 0), "I8"),
        ("u1.npy", rows["U8"], (1, 0), "U8"),
    ]:
        with open(HERE / file, "wb") as out:
            numpy.lib.format.write_array(out, array, version=version)
        expect(file, "", dtype)
    for file, array, message in [
        ("fortran.npy", numpy.asfortranarray(f32), "Fortran order"),
        ("rank1.npy", f32[0], "rank 1, shape (5,)"),
        ("rank3.npy", f32.reshape(1, V, D), "rank 3, shape (1, 7, 5)"),
        ("int.npy", numpy.arange(6, dtype="<i4").reshape(2, 3), '"<i4"'),
        ("e4m3.npy", rows["F8_E4M3"], '"<V1" (as 8-bit floats are saved: use safetensors)'),
        ("bool.npy", numpy.array([[True, False]]), '"|b1"'),
        ("no-rows.npy", f32[:0], "table has 0 rows of width 5"),
        ("structured.npy", numpy.zeros((2, 3), [("a", "<f4")]), "structured"),
        ("objects.npy", numpy.array([[1, None]], dtype=object), "objects"),
    ]:
        numpy.save(HERE / file, array, allow_pickle=True)
        refused.append((file, message))

    for extension, dtype in [("fbin", "F32"), ("f16bin", "F16"), ("u8bin", "U8"), ("i8bin", "I8")]:
        (HERE / f"table.{extension}").write_bytes(struct.pack("<II", V, D) + rows[dtype].tobytes())
        expect(f"table.{extension}", "", dtype)
    for extension, dtype in [("fvecs", "F32"), ("bvecs", "U8")]:
        with_widths = b"".join(struct.pack("<i", D) + row.tobytes() for row in rows[dtype])
        (HERE / f"table.{extension}").write_bytes(with_widths)
        expect(f"table.{extension}", "", dtype)
    # A matrix of bytes beside one of floats.
    (HERE / "quantised.safetensors").write_bytes(safetensors.serialize({"e": tensor("BF16"), "e.codes": tensor("I8")}))
    expect("quantised.safetensors", "", "BF16")
    expect("quantised.safetensors", "tensor=e.codes", "I8")

    # Over several blocks, rows across their borders; made by the test itself from the formula.
    count = 30011 * 100
    mixed = (numpy.arange(count, dtype="<u8") * 2654435761) & 0xFFFFFFFF
    large = (mixed >> 8).astype("<f4").tobytes()
    expected.append((GENERATED, "", 30011, 100, "F32", "F32", "", fingerprint("F32", 30011, 100, large)))

    for file, lines in (("expected.tsv", expected), ("refused.tsv", refused)):
        (HERE / file).write_text("".join("\t".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
