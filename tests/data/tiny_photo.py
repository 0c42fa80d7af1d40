import numpy as np


def write_photo(root, *, first_label=0):
    raw = root / "Photo" / "raw"
    raw.mkdir(parents=True)
    np.savez(
        raw / "amazon_electronics_photo.npz",
        # Links 0-1 (both ways), 1-2 (one way), 3-3 (a self-loop); node 4 is alone.
        adj_data=np.ones(4, dtype=np.float32),
        adj_indices=np.array([1, 0, 2, 3]),
        adj_indptr=np.array([0, 1, 3, 3, 4, 4]),
        adj_shape=np.array([5, 5]),
        attr_data=np.ones(5, dtype=np.float32),
        attr_indices=np.array([0, 1, 2, 0, 1]),
        attr_indptr=np.array([0, 3, 4, 5, 5, 5]),
        attr_shape=np.array([5, 3]),
        labels=np.array([first_label, 1, 1, 0, 0]),
    )
    return root
