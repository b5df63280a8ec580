#!/usr/bin/env python3
"""Writes the golden tables that hold or need keys beside this script, by the formats' own tools, from the rows of f32.raw.

Made with Python 3.11, gensim 4.3.3, numpy 1.26.4, safetensors 0.5.3, tokenizers 0.23.3, xxhash 4.1.0 (PyPI), no randomness:
    pip install gensim==4.3.3 'scipy<1.13' numpy==1.26.4 safetensors==0.5.3 tokenizers==0.23.3 xxhash==4.1.0
    python3 make_keyed_tables.py

keyed.tsv has one line per table: file, table options, format, the fingerprint (XXH3-128 by the xxhash package) of the rows and
the keys that the tools wrote. The rows are those of f32.raw in each of them.
"""

import json
import pathlib
import struct

import gensim
import numpy
import safetensors
import tokenizers

from make_tables import D, KEYS, V, fingerprint

HERE = pathlib.Path(__file__).resolve().parent
# gensim's and numpy's text writers part fields by spaces, and so does the reader of gensim: no key with a space there.
PLAIN = [key.replace(" ", "_") for key in KEYS]


def main():
    rows = numpy.fromfile(HERE / "f32.raw", dtype="<f4").reshape(V, D)
    lines = []

    def expect(file, options, kind, keys):
        lines.append((file, options, kind, fingerprint("F32", V, D, rows.tobytes(), keys)))

    vectors = gensim.models.KeyedVectors(vector_size=D)
    vectors.add_vectors(PLAIN, rows)
    vectors.save_word2vec_format(str(HERE / "gensim.bin"), binary=True)
    expect("gensim.bin", "", "word2vec", PLAIN)
    vectors.save_word2vec_format(str(HERE / "gensim.vec"), binary=False)
    expect("gensim.vec", "", "word2vec-text", PLAIN)
    vectors.save_word2vec_format(str(HERE / "gensim-glove.txt"), binary=False, write_header=False)
    expect("gensim-glove.txt", "", "glove", PLAIN)

    # word2vec.c, lines 550 to 554: fprintf("%lld %lld\n"), then for each word fprintf("%s "), fwrite of each float, fprintf("\n").
    with open(HERE / "word2vec-c.bin", "wb") as out:
        out.write(f"{V} {D}\n".encode())
        for key, row in zip(PLAIN, rows):
            out.write(key.encode() + b" " + row.tobytes() + b"\n")
    expect("word2vec-c.bin", "", "word2vec", PLAIN)

    # GloVe's glove.c: fprintf("%s"), then " %lf" for each; here with the digits that bring a float32 back, by numpy.
    with open(HERE / "numpy-glove.txt", "wb") as out:
        for key, row in zip(KEYS, rows):
            out.write(key.encode() + b" ")
            numpy.savetxt(out, row[None], fmt="%.9g")
    expect("numpy-glove.txt", "", "glove", KEYS)

    # A set: safetensors writes the files, the index is what transformers writes beside them.
    def tensor(array):
        return {"dtype": array.dtype.name, "shape": list(array.shape), "data": array.tobytes()}

    shards = {
        "set-00001-of-00002.safetensors": {"model.norm.weight": numpy.ones(D, "float32")},
        "set-00002-of-00002.safetensors": {"model.embed_tokens.weight": rows, "lm_head.bias": numpy.zeros(V, "float32")},
    }
    for file, tensors in shards.items():
        data = safetensors.serialize({name: tensor(array) for name, array in tensors.items()}, {"format": "pt"})
        (HERE / file).write_bytes(data)
    index = {
        "metadata": {"total_size": sum(a.nbytes for t in shards.values() for a in t.values())},
        "weight_map": {name: file for file, tensors in shards.items() for name in tensors},
    }
    (HERE / "set.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    expect("set.safetensors.index.json", "", "safetensors", [])
    expect("set.safetensors.index.json", "tensor=model.embed_tokens.weight,vocab=keys.txt", "safetensors", KEYS)

    # Vocabularies of tokenizers, each with fewer tokens than the table has rows.
    ids = {key: i for i, key in enumerate(KEYS[:5])}

    def keys_of(tokenizer):
        return [tokenizer.id_to_token(i) or "" for i in range(V)]

    def padded(keys):
        # A table with keys writes a length of 0 for a row without one.
        return keys + [""] * (V - len(keys))

    models = {
        "wordlevel": tokenizers.models.WordLevel(ids, unk_token="the"),
        "bpe": tokenizers.models.BPE(ids, []),
        "wordpiece": tokenizers.models.WordPiece(ids, unk_token="the"),
        "unigram": tokenizers.models.Unigram([(key, -float(i)) for i, key in enumerate(KEYS[:5])], 0),
    }
    for name, model in models.items():
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.add_special_tokens(["<|end|>", "of"])
        tokenizer.save(str(HERE / f"{name}-tokenizer.json"))
        expect("f32.safetensors", f"vocab={name}-tokenizer.json", "safetensors", padded(keys_of(tokenizer)))
    models["bpe"].save(str(HERE), "bpe")
    (HERE / "bpe-merges.txt").unlink()
    expect("f32.safetensors", "vocab=bpe-vocab.json", "safetensors", padded(KEYS[:5]))

    (HERE / "keyed.tsv").write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
