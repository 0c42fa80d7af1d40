import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from varigraph.baselines.drop_connect_layer import MaskedLinks
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages

#: One-way links, a loop, a link that is listed twice, and a node that has none.
LINKS = torch.tensor([[0, 1, 2, 3, 0, 2, 2, 4], [1, 0, 2, 1, 3, 4, 4, 0]])
PROB = torch.tensor([0.3, 0.9, 0.5, 0.7, 0.2, 0.4, 0.4, 1.0]).double()


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).double()


def graph(**others):
    return Data(x=draw(6, 4), edge_index=LINKS, **others)


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_the_sum_is_that_of_a_loop(blocks):
    links = MaskedLinks(graph(), blocks=blocks)
    messages, mask = draw(6, blocks, 5), draw(len(links.weight), blocks)
    by_hand = torch.zeros(6, 5).double()
    for link, (source, target) in enumerate(links.edge_index.T.tolist()):
        for block in range(blocks):
            weight = links.weight[link] * mask[link, block]
            by_hand[target] += weight * messages[source, block]
    assert_close(links.sum(messages, mask), by_hand)


@pytest.mark.parametrize("blocks", [1, 2])
def test_gradients_agree_with_finite_differences(blocks):
    links = MaskedLinks(graph(), blocks=blocks)
    messages = draw(6, blocks, 3).requires_grad_()
    mask = draw(len(links.weight), blocks).requires_grad_()
    assert torch.autograd.gradcheck(links.sum, (messages, mask))


@pytest.mark.parametrize("uncertain", [False, True])
def test_without_masks_messages_are_weighed_as_in_a_gcn(uncertain):
    data = graph(edge_prob=PROB) if uncertain else graph()
    conv = GCNConv(4, 3, bias=False).double()
    messages = conv.lin(data.x)[:, None]
    links = MaskedLinks(data, blocks=1)
    chances = LinkProbabilities(LINKS, PROB if uncertain else torch.ones_like(PROB), 6)
    with scaled_messages(conv, chances):
        by_gcn = conv(data.x, LINKS)
    assert_close(links.sum(messages, torch.ones(len(links.weight), 1).double()), by_gcn)


def test_a_graph_without_links_has_loops_only():
    alone = Data(x=draw(3, 2), edge_index=torch.empty(2, 0, dtype=torch.long))
    links = MaskedLinks(alone, blocks=2)
    messages = draw(3, 2, 4)
    assert_close(links.sum(messages, torch.ones(3, 2).double()), messages.sum(1))
