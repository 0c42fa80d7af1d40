import pytest
import torch
from scipy.stats import chi2

from varigraph.errors import OptionError
from varigraph.training.batch import NeighbourSampler

FAILURE_RATE = 1e-6  # share of generators for which a right sampler fails the test of uniformity


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def links():
    return torch.randint(60, (2, 700), generator=generator(7))


def targets(links, sample):
    return links[1, sample.edges]


def test_only_links_of_the_graph_in_the_new_numbers(links):
    sample = NeighbourSampler(links, 60, (3, 2)).sample(torch.tensor([5, 0, 17]), generator())
    assert sample.nodes[sample.edge_index].equal(links[:, sample.edges])
    assert sample.edges.unique().numel() == sample.edges.numel()


def test_seeds_come_first_and_nodes_once(links):
    seeds = torch.tensor([5, 0, 17])
    sample = NeighbourSampler(links, 60, (3, 2)).sample(seeds, generator())
    assert sample.nodes[:3].equal(seeds)
    assert sample.nodes.unique().numel() == sample.nodes.numel()


def test_at_most_fanout_links_per_node(links):
    seeds = torch.tensor([5, 0, 17])
    sample = NeighbourSampler(links, 60, (4, 2)).sample(seeds, generator())
    count = targets(links, sample).bincount(minlength=60)
    degree = links[1].bincount(minlength=60)
    assert count[seeds].equal(degree[seeds].clamp_max(4))
    rest = torch.ones(60, dtype=torch.bool).index_fill(0, seeds, False)
    assert (count[rest] <= 2).all()


def test_a_large_fanout_keeps_everything(links):
    sample = NeighbourSampler(links, 60, (700, 700)).sample(torch.arange(60), generator())
    assert sample.edges.sort().values.equal(torch.arange(700))


def test_every_neighbour_is_as_likely_as_any_other():
    star = torch.stack([torch.arange(1, 13), torch.zeros(12, dtype=torch.long)])
    # One graph of many stars: every star draws 5 of its 12 neighbours independently.
    stars = 4000
    shift = torch.arange(stars) * 13
    links = (star[:, None] + shift[:, None]).reshape(2, -1)
    sample = NeighbourSampler(links, 13 * stars, (5,)).sample(shift, generator())
    count = (links[0, sample.edges] % 13).bincount(minlength=13)[1:].double()
    expected = stars * 5 / 12
    # Draws without replacement vary less than a multinomial: by (12 - 5) / (12 - 1) = 7/11.
    statistic = float(((count - expected) ** 2).sum() / expected) / (7 / 11)
    assert statistic < chi2.isf(FAILURE_RATE, df=11)
    assert statistic > chi2.ppf(FAILURE_RATE, df=11)


def test_the_generator_decides(links):
    sampler, seeds = NeighbourSampler(links, 60, (3, 2)), torch.tensor([1, 2])
    one, same, other = (sampler.sample(seeds, generator(s)) for s in (1, 1, 2))
    assert one.edges.equal(same.edges)
    assert not one.edges.equal(other.edges)


def test_nodes_without_neighbours():
    sampler = NeighbourSampler(torch.empty(2, 0, dtype=torch.long), 3, (2, 2))
    sample = sampler.sample(torch.tensor([2, 1]), generator())
    assert sample.nodes.tolist() == [2, 1]
    assert sample.edge_index.shape == (2, 0)


def test_the_other_flow(links):
    seeds = torch.tensor([5, 0])
    sampler = NeighbourSampler(links, 60, (2,), "target_to_source")
    sample = sampler.sample(seeds, generator())
    assert sample.nodes[sample.edge_index].equal(links[:, sample.edges])
    assert set(links[0, sample.edges].tolist()) == {5, 0}


def test_mistakes_are_explained(links):
    with pytest.raises(OptionError, match="fanouts"):
        NeighbourSampler(links, 60, ())
    with pytest.raises(OptionError, match="fanouts"):
        NeighbourSampler(links, 60, (0,))
    with pytest.raises(OptionError, match="twice"):
        NeighbourSampler(links, 60, (2,)).sample(torch.tensor([1, 1]), generator())
