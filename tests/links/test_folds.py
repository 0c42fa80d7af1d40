import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from links.scorers import random_graph
from varigraph.errors import GraphError
from varigraph.links.folds import divided
from varigraph.links.link_pairs import link_pairs, pair_numbers


def numbers(pairs):
    found = pair_numbers(pairs).tolist()
    assert len(set(found)) == len(found)
    return set(found)


@given(
    nodes=st.integers(30, 60),
    density=st.floats(0.15, 0.5),
    folds=st.integers(2, 6),
    contrast=st.integers(1, 4),
    seed=st.integers(0, 10**9),
)
@settings(max_examples=40, deadline=None)
def test_no_pair_is_judged_by_who_has_seen_it(nodes, density, folds, contrast, seed):
    possible = nodes * (nodes - 1) // 2
    links = link_pairs(random_graph(nodes, int(density * possible), seed), nodes=nodes)
    parts = divided(links, folds=folds, contrast=contrast, seed=seed)
    linked, judged, judged_others = numbers(links.pairs), set(), set()
    for number in range(folds):
        fold = parts[number]
        train, held, scored = (numbers(part.pairs) for part in (fold.train, fold.held, fold.scored))
        assert not train & held
        assert not train & scored
        assert not held & scored
        for part in (fold.train, fold.held, fold.scored):
            assert numbers(part.pairs[:, part.real]) <= linked
            assert not numbers(part.pairs[:, ~part.real]) & linked
        assert numbers(fold.structure) == train & linked
        assert (train | held | scored) >= linked
        here = numbers(fold.scored.pairs[:, fold.scored.real])
        others = numbers(fold.scored.pairs[:, ~fold.scored.real])
        assert not here & judged
        assert not others & judged_others
        assert abs(len(here) - len(links) / folds) < 1
        assert abs(len(others) - len(links) / folds) < 1
        assert len(held & linked) == -(-(len(links) - len(here)) // 10)
        judged |= here
        judged_others |= others
    assert judged == linked
    assert len(judged_others) == len(linked)


@pytest.mark.parametrize(("contrast", "extra"), [(1, 0), (3, 200), (9, 800), (90, 4750)])
def test_more_non_links_to_learn_from_as_far_as_there_are_any(contrast, extra):
    links = link_pairs(random_graph(100, 100), nodes=100)
    parts = divided(links, folds=5, contrast=contrast)
    assert parts.extra.size(1) == extra
    fold, plain = parts[0], divided(links, folds=5)[0]
    assert torch.equal(fold.scored.pairs, plain.scored.pairs)
    assert torch.equal(fold.held.pairs, plain.held.pairs)
    assert torch.equal(fold.structure, plain.structure)
    assert int((~fold.train.real).sum()) == 72 + parts.extra.size(1)
    assert int((~fold.scored.real).sum()) == int(fold.scored.real.sum()) == 20


def test_scored_pairs_come_in_the_order_of_their_fold():
    links = link_pairs(random_graph(100, 103), nodes=100)
    parts = divided(links, folds=4, seed=5)
    for number in range(4):
        scored = parts[number].scored
        here, others = parts.fold_of_link == number, parts.fold_of_other == number
        assert torch.equal(scored.pairs[:, scored.real], parts.links[:, here])
        assert torch.equal(scored.pairs[:, ~scored.real], parts.others[:, others])


def test_the_seed_decides_everything():
    links = link_pairs(random_graph(100, 200), nodes=100)

    def drawn(seed):
        parts = divided(links, folds=4, seed=seed)
        both = [parts[number] for number in (1, 2)]
        return [parts.others, parts.fold_of_link, *(fold.held.pairs for fold in both)], [
            fold.seed for fold in both
        ]

    one, again, other = drawn(3), drawn(3), drawn(4)
    assert all(torch.equal(a, b) for a, b in zip(one[0], again[0], strict=True))
    assert one[1] == again[1]
    assert not any(torch.equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    assert len({*one[1], *other[1]}) == 4


@pytest.mark.parametrize(
    ("links", "folds", "remedy"),
    [(0, 5, "at least 20 links"), (19, 2, "at least 20 links"), (49, 5, "at most 4 folds")],
)
def test_too_few_links_are_refused(links, folds, remedy):
    edges = random_graph(40, links)
    with pytest.raises(GraphError) as caught:
        divided(link_pairs(edges, nodes=40), folds=folds)
    assert f"the graph has {links} links, too few for {folds} folds" in caught.value.problem
    assert remedy in caught.value.remedy
