#!/usr/bin/env python3
"""Writes widened.inc: the float32 bits of all 256 codes of each 8-bit dtype, by numpy and ml_dtypes.

NaN is written as 0x7fc00000, whatever its sign and payload: neither is part of the format's promise.
    pip install numpy==1.26.4 ml_dtypes==0.5.4 && python3 make_widened.py > widened.inc
"""
import ml_dtypes
import numpy

CODES = numpy.arange(256, dtype=numpy.uint8)
TYPES = {
    "I8": numpy.int8,
    "U8": numpy.uint8,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}


def main():
    print(f"// By make_widened.py with numpy {numpy.__version__} and ml_dtypes {ml_dtypes.__version__}: name, bits of code 0, 1, ...")
    for name, dtype in TYPES.items():
        values = CODES.view(dtype).astype(numpy.float32)
        bits = numpy.where(numpy.isnan(values), 0x7FC00000, values.view(numpy.uint32))
        words = [f"0x{word:08x}" for word in bits]
        print(f'{{"{name}", {{')
        for begin in range(0, 256, 10):
            print("    " + ", ".join(words[begin:begin + 10]) + ",")
        print("}},")


main()
