from pathlib import Path

import numpy as np
import pytest

from varigraph.data.link_tables import LinkBlock, LinkTable
from varigraph.errors import FileError

PATH = Path("links")


def block(*rows, nodes=()):
    sources, targets, scores = zip(*rows, strict=True) if rows else ((), (), ())
    return LinkBlock(range(1, len(rows) + 1), sources, targets, scores, nodes)


def test_names_count_in_the_order_of_their_mention_across_blocks():
    blocks = [
        block(("b", "a", "1"), ("a", "c", "1"), nodes=["z", "a"]),
        block(nodes=["y", "z"]),
        block(("d", "b", "0.5")),
    ]
    table = LinkTable.of(blocks, PATH, None)
    assert table.names == ["z", "a", "b", "c", "y", "d"]
    assert table.ends.tolist() == [[2, 1], [1, 3], [5, 2]]
    assert table.probs.tolist() == [1, 1, 0.5]


@pytest.mark.parametrize("blocks", [[], [block()], [block(nodes=["a"])]])
def test_no_links_are_refused(blocks):
    with pytest.raises(FileError, match="no links"):
        LinkTable.of(blocks, PATH, None)


def merged_one_by_one(ends, probs):
    """Links in the order of their first row, and the counts, by the definition."""
    rows = {}
    for (u, v), prob in zip(ends.tolist(), probs.tolist(), strict=True):
        if u != v:
            rows.setdefault(frozenset((u, v)), []).append((u, v, prob))
    best = [(*same[0][:2], max(prob for *_, prob in same)) for same in rows.values()]
    counts = {
        "lines": len(probs),
        "links": sum(prob > 0 for *_, prob in best),
        "duplicates": sum(len(same) - 1 for same in rows.values()),
        "conflicts": sum(
            prob < max(p for *_, p in same) for same in rows.values() for *_, prob in same
        ),
        "self_links": sum(u == v for u, v in ends.tolist()),
        "impossible": sum(prob == 0 for *_, prob in best),
    }
    return [row for row in best if row[2] > 0], counts


@pytest.mark.parametrize("nodes", [1, 2, 5, 40])
@pytest.mark.parametrize("lines", [1, 7, 500])
def test_merging_agrees_with_one_by_one(nodes, lines):
    draw = np.random.default_rng(lines + nodes)
    ends = draw.integers(0, nodes, (lines, 2))
    probs = draw.choice([0, 0.25, 0.5, 1.0], lines)
    table = LinkTable([f"n{n}" for n in range(nodes)], ends, probs)
    found, reading = table.merged()
    links, counts = merged_one_by_one(ends, probs)
    assert [(u, v, p) for (u, v), p in zip(found.ends.tolist(), found.probs, strict=True)] == links
    assert vars(reading) == counts
    assert np.array_equal(table.ends, ends)  # the table itself stays as it is
