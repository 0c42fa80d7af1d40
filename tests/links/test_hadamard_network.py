import pytest
import torch

from varigraph.links.hadamard import DROPPED, INPUTS, HadamardNetwork
from varigraph.links.methods import Messages

LINKS = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
NEIGHBOURS = Messages(LINKS, nodes=7).all()


def network(seed=0):
    return HadamardNetwork(width=16, generator=torch.Generator().manual_seed(seed))


def inputs(seed=1):
    return torch.randn(7, INPUTS, generator=torch.Generator().manual_seed(seed))


def test_the_order_of_the_ends_makes_no_difference():
    net = network().eval()
    h = net.encoded(inputs(), NEIGHBOURS)
    pairs = torch.tensor([[0, 5, 3], [2, 6, 1]])
    assert torch.equal(net.judged(h, pairs), net.judged(h, pairs.flip(0)))


def test_messages_travel_two_steps_and_no_further():
    net = network().eval()
    x = inputs()
    before = net.encoded(x, NEIGHBOURS)
    x[0] += 1
    moved = (net.encoded(x, NEIGHBOURS) - before).abs().sum(dim=1)
    assert bool((moved[:3] > 1e-4).all())
    assert moved[3:].tolist() == [0.0] * 4


@pytest.mark.parametrize("shape", [(1000, 130), (333, 7)])
def test_dropout_leaves_out_its_share_and_keeps_the_mean(shape):
    net = network().train()
    dropped = net._dropped(torch.ones(shape))
    share, count = DROPPED / 256, dropped.numel()
    noise = 5 * (share * (1 - share) / count) ** 0.5
    assert float((dropped == 0).double().mean()) == pytest.approx(share, abs=noise)
    assert dropped.max().item() == pytest.approx(1 / (1 - share))
    columns = (dropped == 0).double().mean(dim=0)
    assert columns.std() < 2 * (share * (1 - share) / shape[0]) ** 0.5
    assert net.eval()._dropped(torch.ones(shape)).min() == 1


def test_the_generator_decides_and_torch_s_own_is_left_alone():
    state = torch.get_rng_state()
    one, again, other = network(), network(), network(seed=5)
    assert torch.equal(one.own[0].weight, again.own[0].weight)
    assert not torch.equal(one.own[0].weight, other.own[0].weight)
    ours, theirs = (net.train().encoded(inputs(), NEIGHBOURS) for net in (one, again))
    assert torch.equal(ours, theirs)
    assert torch.equal(torch.get_rng_state(), state)
