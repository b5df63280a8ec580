#!/usr/bin/env python3
"""Writes gensim.inc: what gensim answers for the sample table, beside what the server is then asked.

    python3 -m venv venv && venv/bin/pip install gensim numpy safetensors
    venv/bin/python tests/server/service/golden/make_gensim.py

The versions that made the file stand at its head; the cases are drawn with seed 20261130. gensim computes in float32.
"""
import pathlib
import random

import gensim
import numpy
from gensim.models import KeyedVectors
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE = HERE.parents[3] / "deploy" / "sample"
TOP = 10


def load():
    (rows,) = load_file(SAMPLE / "words.safetensors").values()
    words = (SAMPLE / "words.vocab.txt").read_text(encoding="utf-8").split("\n")[: len(rows)]
    vectors = KeyedVectors(rows.shape[1])
    vectors.add_vectors(words, rows.astype(numpy.float32))
    return vectors


def text(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def number(value):
    return repr(float(numpy.float32(value)))


def pairs(values):
    return "{" + ", ".join("{%s, %s}" % (text(word), number(value)) for word, value in values) + "}"


def words_of(values):
    return "{" + ", ".join(text(word) for word in values) + "}"


def main():
    vectors = load()
    draw = random.Random(20261130)
    frequent = [word for word in vectors.index_to_key[:3000] if word.isalpha()]
    lines = [
        f"// Made by make_gensim.py with gensim {gensim.__version__}, numpy {numpy.__version__} from deploy/sample.",
        "// clang-format off",
        "// positive, negative (word, weight), rows searched (0: all), what most_similar found.",
        "const MostSimilar kMostSimilar[] = {",
    ]

    def most_similar(positive, negative, restrict=None):
        found = vectors.most_similar(positive=positive, negative=[(word, -weight) for word, weight in negative],
                                     topn=TOP, restrict_vocab=restrict)
        lines.append("  {%s, %s, %d,\n   %s}," % (pairs(positive), pairs(negative), restrict or 0, pairs(found)))

    most_similar([("king", 1.0), ("woman", 1.0)], [("man", 1.0)])
    most_similar([("paris", 1.0), ("germany", 1.0)], [("france", 1.0)])
    most_similar([("computer", 1.0)], [])
    most_similar([("king", 1.0), ("woman", 1.0)], [("man", 1.0)], 1000)
    for i in range(36):
        chosen = draw.sample(frequent, 7)
        weight = (lambda: 1.0) if i % 3 == 0 else (lambda: round(draw.uniform(0.05, 3), 3))
        positive = [(word, weight()) for word in chosen[: draw.randint(1, 4)]]
        negative = [(word, weight()) for word in chosen[4: 4 + draw.randint(0, 3)]]
        most_similar(positive, negative, draw.choice([None, None, 500, 4000]))
    lines += ["};", "", "// left, right, n_similarity.", "const NSimilarity kNSimilarity[] = {"]
    for _ in range(24):
        left, right = draw.sample(frequent, draw.randint(1, 5)), draw.sample(frequent, draw.randint(1, 5))
        lines.append("  {%s, %s, %s}," % (words_of(left), words_of(right), number(vectors.n_similarity(left, right))))
    lines += ["};", "", "// words, rank_by_centrality of them: doesnt_match names the last.",
              "const Centrality kCentrality[] = {"]
    groups = [["breakfast", "cereal", "dinner", "lunch"], ["red", "green", "blue", "monday", "yellow"],
              ["france", "germany", "italy", "piano"], ["cat", "dog", "horse", "car", "sheep"]]
    groups += [draw.sample(frequent, draw.randint(2, 8)) for _ in range(20)]
    for group in groups:
        group = [word for word in group if word in vectors]
        ranked = [(word, score) for score, word in vectors.rank_by_centrality(group)]
        assert ranked[-1][0] == vectors.doesnt_match(group)
        lines.append("  {%s,\n   %s}," % (words_of(group), pairs(ranked)))
    lines += ["};", "// clang-format on"]
    (HERE / "gensim.inc").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
