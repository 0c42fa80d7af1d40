import pytest
import torch
from torch_geometric.data import Data


@pytest.fixture
def graph():
    """Two groups of 40 nodes; links stay within a group and features point to it."""
    draw = torch.Generator().manual_seed(3)
    y = torch.arange(80) % 2
    links = torch.randint(40, (2, 300), generator=draw) * 2 + torch.arange(300) % 2
    x = torch.randn(80, 6, generator=draw) + y[:, None]
    part = torch.arange(80) % 5
    return Data(
        x=x,
        edge_index=links,
        y=y,
        train_mask=part < 3,
        val_mask=part == 3,
        test_mask=part == 4,
    )
