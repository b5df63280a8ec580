"""Where packages from PyPI and npm are kept between runs: outside the tree."""
import os


def folder(name):
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(caches, "embedding-server", name)
