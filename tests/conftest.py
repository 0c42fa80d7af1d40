"""Fixtures for every folder of tests."""

import errno
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

# Kernels run without a GPU: Triton interprets them, which it decides when it is imported.
os.environ.setdefault("TRITON_INTERPRET", "1")
# Processes of pytest-xdist are told how wide the terminal is; commands under test have none.
os.environ.pop("COLUMNS", None)

import varigraph as vg


@pytest.fixture
def full_disk():
    """Within it, the disk is full when a file is to reach it."""

    def refuse(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextmanager
    def full():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", refuse)
            yield

    return full


@pytest.fixture
def small_disk():
    """Within it, no file can grow beyond so many bytes."""
    resource = pytest.importorskip("resource", reason="limits of POSIX")

    @contextmanager
    def limited(size=50_000):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


@pytest.fixture(scope="session")
def real_data():
    """The folder of the data sets that are not shipped."""
    folder = os.environ.get("VARIGRAPH_DATA")
    if not folder:
        pytest.skip("set VARIGRAPH_DATA to a folder that holds PubMed/raw, CiteSeer/raw, ...")
    return Path(folder)


@pytest.fixture(scope="session")
def stored(real_data, tmp_path_factory):
    """Data sets of that folder by name, each read once; to be looked at, not changed."""
    graphs = {}

    def get(name):
        if name not in graphs:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
                graphs[name] = vg.load(name, root=real_data)
        return graphs[name]

    return get
