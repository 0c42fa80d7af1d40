"""Draws by number are those of the whole, row by row."""

import numpy as np
import pytest
import torch

from varigraph.errors import ModelError
from varigraph.prediction.masks import Site, draw_masks
from varigraph.prediction.numbering import Numbering, drawn_at, numbered
from varigraph.prediction.sampled.draws import normals

ROWS = 420
NODES, LINKS = np.array([3, 7, 8, 100, 0, 41]), np.array([1, 2, 50, 33, 9, 200, 4, 5])
PART = Numbering(NODES, LINKS, all_links=300, between=LINKS[:7], all_between=290)
KEY = 12345678901234567890123


def test_words_are_those_of_numpys_generator():
    stream = np.random.Philox(key=KEY, counter=[0, 4, 5, 6]).random_raw(4 * ROWS)
    rows = np.array([0, 419, 17])
    found = drawn_at(rows, 4, np.uint64, (4, 5, 6), key=KEY)
    assert (found == stream.reshape(ROWS, 4)[rows]).all()


@pytest.mark.parametrize("width", [1, 5, 16, 37, 64])
def test_rows_have_the_draws_that_they_have_in_the_whole(width):
    def masks(rows, some=None):
        site = Site(torch.Size([rows, width]), 0.3)
        return draw_masks(site, 2, range(5, 7), seed=KEY, rows=some)

    whole, noise = masks(ROWS), normals((ROWS, width), 9, seed=7)
    loops = [*LINKS, *(300 + NODES)]
    between = [*LINKS[:7], *(290 + NODES)]
    with numbered(PART):
        assert torch.equal(masks(6), whole[:, NODES])
        assert torch.equal(masks(6, slice(2, 4)), whole[:, NODES[2:4]])
        assert torch.equal(masks(8), whole[:, LINKS])
        assert torch.equal(masks(14), whole[:, loops])
        assert torch.equal(masks(13), whole[:, between])
        assert torch.equal(normals((6, width), 9, seed=7), noise[NODES])


def test_rows_of_something_else_are_refused():
    with numbered(PART), pytest.raises(ModelError, match="5 rows are drawn for"):
        normals((5, 2), 0, seed=0)
