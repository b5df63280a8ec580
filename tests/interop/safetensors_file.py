"""Reads a tensor of a safetensors file with numpy alone: 8 bytes of header length, a JSON header, then the bytes."""
import json
import struct

import numpy as np

DTYPES = {"F16": "<f2", "F32": "<f4"}


def read(path, name):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    entry = json.loads(content[8:8 + length])[name]
    begin, end = entry["data_offsets"]
    data = content[8 + length + begin:8 + length + end]
    return np.frombuffer(data, DTYPES[entry["dtype"]]).reshape(entry["shape"])
