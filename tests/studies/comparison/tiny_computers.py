"""A data set of 60 nodes in the format of Computers, so that a cell takes no time."""

import numpy as np
import scipy.sparse as sp

NODES, FEATURES, CLASSES = 60, 8, 3


def write_computers(root):
    raw = root / "Computers" / "raw"
    raw.mkdir(parents=True)
    draw = np.random.default_rng(0)
    labels = np.arange(NODES) % CLASSES
    alike = labels[:, None] == labels[None]
    links = sp.csr_matrix(np.triu(draw.random((NODES, NODES)) < np.where(alike, 0.3, 0.05), 1))
    words = draw.random((NODES, FEATURES)) < np.where(
        np.arange(FEATURES) % CLASSES == labels[:, None], 0.7, 0.2
    )
    words = sp.csr_matrix(words)
    np.savez(
        raw / "amazon_electronics_computers.npz",
        adj_data=np.ones(links.nnz, dtype=np.float32),
        adj_indices=links.indices,
        adj_indptr=links.indptr,
        adj_shape=np.array(links.shape),
        attr_data=np.ones(words.nnz, dtype=np.float32),
        attr_indices=words.indices,
        attr_indptr=words.indptr,
        attr_shape=np.array(words.shape),
        labels=labels,
    )
    return root
