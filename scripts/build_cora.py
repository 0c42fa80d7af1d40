"""Builds src/varigraph/data/cora.npz, the Cora citation graph that ships with varigraph.

The source is the PyPI package graphdatascience 2.2 (Apache-2.0), which holds Cora as two small
parquet files. From the root of the repository:

    pip download --no-deps graphdatascience==2.2
    python scripts/build_cora.py graphdatascience-2.2-py3-none-any.whl

The argument is the wheel or any folder that holds the two files. The same input gives the same
bytes; the sha256 printed at the end is the one in varigraph/data/graphs.py.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pyarrow import parquet

from varigraph.data.graphs import CORA_CLASSES

Array = npt.NDArray[Any]

NODES, LINKS = "cora_nodes.parquet.gzip", "cora_rels.parquet.gzip"
TARGET = Path(__file__).parents[1] / "src/varigraph/data/cora.npz"

# Position = number in the column `subject`, from serialize_cora.py in the same package.
SUBJECTS = (
    "Neural_Networks",
    "Rule_Learning",
    "Reinforcement_Learning",
    "Probabilistic_Methods",
    "Theory",
    "Genetic_Algorithms",
    "Case_Based",
)


def content(source: Path, name: str) -> bytes:
    if source.is_dir():
        found = sorted(source.rglob(name))
        if not found:
            raise SystemExit(f"no {name} under {source}")
        return found[0].read_bytes()
    with zipfile.ZipFile(source) as wheel:
        member = next((m for m in wheel.namelist() if m.endswith("/" + name)), None)
        if member is None:
            raise SystemExit(f"no {name} in {source}")
        return wheel.read(member)


def arrays(nodes: bytes, links: bytes) -> dict[str, Array]:
    papers, cites = (parquet.read_table(io.BytesIO(table)) for table in (nodes, links))
    position = {int(paper): row for row, paper in enumerate(papers["nodeId"].to_numpy())}
    ends = [
        [position[int(paper)] for paper in cites[column].to_numpy()]
        for column in ("sourceNodeId", "targetNodeId")
    ]
    words = np.array(papers["features"].to_pylist(), dtype=bool)  # [nodes, words]
    labels = [CORA_CLASSES.index(SUBJECTS[subject]) for subject in papers["subject"].to_numpy()]
    return {
        "links": undirected(np.array(ends)).astype("<u2"),  # [2, links]
        "labels": np.array(labels, dtype="u1"),  # [nodes]
        "words": words.nonzero()[1].astype("<u2"),  # columns of the ones, row after row
        "word_start": np.concatenate([[0], words.sum(1).cumsum()]).astype("<u2"),  # [nodes + 1]
        "word_count": np.array(words.shape[1], dtype="<u2"),
    }


def undirected(ends: Array) -> Array:
    """Every link once, smaller end first, in order, without self-loops."""
    low, high = np.sort(ends, axis=0)
    return np.unique(np.stack([low, high])[:, low != high], axis=1)


def archive(content: Mapping[str, Array]) -> bytes:
    """An .npz whose bytes depend on nothing but the arrays.

    Stored, not deflated: compressors differ between zlib versions, and wheels are compressed
    anyway. The date and system of every member are fixed for the same reason.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as npz:
        for name, array in content.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3
            body = io.BytesIO()
            np.lib.format.write_array(body, array, allow_pickle=False)
            npz.writestr(member, body.getvalue())
    return packed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="the graphdatascience 2.2 wheel, or a folder")
    source = parser.parse_args().source
    packed = archive(arrays(content(source, NODES), content(source, LINKS)))
    TARGET.write_bytes(packed)
    print(f"{TARGET.name}: {len(packed):,} bytes, sha256 {hashlib.sha256(packed).hexdigest()}")


if __name__ == "__main__":
    main()
