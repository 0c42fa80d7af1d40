import pytest
import torch

from varigraph.choices import DATASETS
from varigraph.data import load
from varigraph.errors import DatasetError

PARTS = {"x", "edge_index", "y", "train_mask", "val_mask", "test_mask"}


@pytest.fixture(scope="module")
def cora():
    return load("cora")


def assert_links_are_in_order(graph):
    source, target = graph.edge_index
    key = source * graph.num_nodes + target
    assert (key.diff() > 0).all()  # sorted, none twice
    assert torch.equal((target * graph.num_nodes + source).sort().values, key)  # both directions
    assert (source != target).all()


def test_cora_has_its_parts_and_no_others(cora):
    assert set(cora.keys()) == PARTS | {"class_names"}
    assert cora.x.shape == (2708, 1433)
    assert cora.x.dtype == torch.float32
    assert cora.y.dtype == torch.int64
    assert_links_are_in_order(cora)


def test_cora_rows_sum_to_one(cora):
    torch.testing.assert_close(cora.x.sum(dim=1), torch.ones(2708))


def test_cora_needs_no_folder_at_all(monkeypatch, cache):
    monkeypatch.setenv("VARIGRAPH_DATA", "/no/such/folder")
    assert load("cora", root="/no/such/folder").num_nodes == 2708
    assert not cache.exists()


def test_the_seed_decides_the_split_alone(cora):
    other = load("cora", seed=1)
    assert not torch.equal(cora.train_mask, other.train_mask)
    assert torch.equal(load("Cora", seed=1).test_mask, other.test_mask)
    assert torch.equal(cora.x, other.x)


def test_loading_leaves_the_global_random_state(photo):
    before = torch.random.get_rng_state()
    load("photo", root=photo)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_changing_one_graph_leaves_the_next(photo):
    load("photo", root=photo).x.zero_()
    assert load("photo", root=photo).x.sum() == 5


def test_a_set_from_disk_has_the_same_parts(photo):
    graph = load("PHOTO", root=photo)
    assert set(graph.keys()) == PARTS
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.x.tolist() == [[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert graph.y.tolist() == [0, 1, 1, 0, 0]
    assert [graph[part].sum().item() for part in ("train_mask", "val_mask", "test_mask")] == [
        3,
        0,
        2,
    ]


def test_the_environment_names_the_root(photo, monkeypatch):
    monkeypatch.setenv("VARIGRAPH_DATA", str(photo))
    assert load("photo").num_nodes == 5


def test_known_names():
    assert DATASETS == ("cora", "citeseer", "pubmed", "computers", "photo")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("CORRA", "load('cora')"),
        ("Amazon Computers", "load('computers')"),
        ("qm9", "such as load("),
    ],
)
def test_an_unknown_name_is_answered_by_the_known_and_the_nearest(name, remedy):
    with pytest.raises(DatasetError) as caught:
        load(name)
    assert caught.value.problem == (
        f"no data set is called {name!r}; known are cora, citeseer, pubmed, computers, photo"
    )
    assert remedy in caught.value.remedy


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "shape", "edges", "classes"),
    [
        ("citeseer", (3327, 3703), 9104, 6),
        ("pubmed", (19717, 500), 88648, 3),
        ("computers", (13752, 767), 491722, 10),
    ],
)
def test_real_sets_have_their_published_sizes(stored, name, shape, edges, classes):
    graph = stored(name)
    assert set(graph.keys()) == PARTS
    assert graph.x.shape == shape
    assert graph.x.dtype == torch.float32
    assert graph.num_edges == edges
    assert graph.y.unique().tolist() == list(range(classes))
    assert_links_are_in_order(graph)


@pytest.mark.real_data
def test_pubmed_rows_sum_to_one(stored):
    torch.testing.assert_close(stored("pubmed").x.sum(dim=1), torch.ones(19717))


@pytest.mark.real_data
def test_citeseer_keeps_its_nodes_without_words_or_links(stored):
    graph = stored("citeseer")
    total = graph.x.sum(dim=1)
    empty = total == 0
    assert empty.sum() == 15
    torch.testing.assert_close(total[~empty], torch.ones(3327 - 15))
    assert 3327 - graph.edge_index.unique().numel() == 48


@pytest.mark.real_data
def test_computers_stays_binary(stored):
    assert stored("computers").x.unique().tolist() == [0, 1]


@pytest.mark.real_data
def test_cora_is_planetoids_cora_in_another_order(real_data, cora):
    from torch_geometric.io import read_planetoid_data
    from torch_geometric.utils import degree

    if not (real_data / "Cora" / "raw").is_dir():
        pytest.skip("VARIGRAPH_DATA holds no Cora/raw to compare with")
    other = read_planetoid_data(str(real_data / "Cora" / "raw"), "cora")
    assert torch.equal(
        (cora.x > 0).sum(dim=0), (other.x > 0).sum(dim=0)
    )  # the same words, in order
    both = []
    for graph in (cora, other):
        words, links = (graph.x > 0).sum(dim=1), degree(graph.edge_index[0], graph.num_nodes)
        both.append(
            torch.stack([graph.y, words, links.long()], dim=1).unique(dim=0, return_counts=True)
        )
    assert torch.equal(both[0][0], both[1][0])
    assert torch.equal(both[0][1], both[1][1])
