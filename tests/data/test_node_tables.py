"""Graphs from two tables, as a spreadsheet writes them."""

import pytest

import varigraph as vg
from varigraph.data import DroppedLinksWarning
from varigraph.errors import FileError

NODES = "node,heat,heat_std,wind,y,split\na,1.5,0.5,3,warm,train\nb,2,0.1,4,cold,test\nc,0,0,5,,\n"
LINKS = "from,to,probability\na,b,0.9\nc,b,0.4\n"


@pytest.fixture
def read(tmp_path):
    def reading(nodes=NODES, links=LINKS):
        files = tmp_path / "nodes.csv", tmp_path / "links.csv"
        for file, text in zip(files, (nodes, links), strict=True):
            file.write_text(text, encoding="utf-8")
        return vg.read_tables(*files)

    return reading


def test_everything_stands_where_the_library_looks_for_it(read):
    graph = read()
    assert graph.node_names == ["a", "b", "c"]
    assert graph.feature_names == ["heat", "wind"]
    assert graph.x.tolist() == [[1.5, 3], [2, 4], [0, 5]]
    assert graph.x_var.flatten().tolist() == pytest.approx([0.25, 0, 0.01, 0, 0, 0])
    assert graph.edge_index.tolist() == [[0, 2, 1, 1], [1, 1, 0, 2]]
    assert graph.edge_prob.tolist() == pytest.approx([0.9, 0.4, 0.9, 0.4])
    assert (graph.class_names, graph.y.tolist()) == (["cold", "warm"], [1, 0, -1])
    assert graph.train_mask.tolist() == [True, False, False]
    assert graph.val_mask.tolist() == [False] * 3
    assert graph.test_mask.tolist() == [False, True, False]


def test_what_a_table_lacks_the_graph_lacks(read):
    graph = read("node,t\na,1\nb,2\n", "u,v\na,b\n")
    assert set(graph.keys()) == {"x", "edge_index", "node_names", "feature_names"}


@pytest.mark.parametrize(
    ("column", "truth"),
    [(("0", "2", ""), [0, 2, -1]), (("1.5", "-2", "3"), [1.5, -2, 3])],
    ids=["classes", "values"],
)
def test_the_truth_is_a_class_or_a_value(read, column, truth):
    rows = "".join(f"{name},1,{y}\n" for name, y in zip("abc", column, strict=True))
    assert read(f"node,t,y\n{rows}").y.tolist() == truth


def test_a_value_that_is_not_known_is_nan(read):
    y = read("node,t,y\na,1,0.5\nb,1,\nc,1,2\n").y
    assert y.isnan().tolist() == [False, True, False]


def test_a_variance_is_taken_as_it_is(read):
    assert read("node,t,t_var\na,1,4\nb,1,0\nc,1,1\n").x_var.tolist() == [[4], [0], [1]]


def test_a_table_of_links_that_we_wrote_is_read(read):
    links = "from,to,measured,computed,difference,disagrees\na,b,0.9,0.1,-0.8,yes\n"
    assert read(links=links).edge_prob.tolist() == pytest.approx([0.9, 0.9])


@pytest.mark.parametrize(
    ("nodes", "problem", "remedy"),
    [
        ("t,u\n1,2\n", "line 1: no column is called 'node'", "node,temperature"),
        ("node,t,t\na,1,2\n", "columns are called 't'", "name of its own"),
        ("node,t\n", "no nodes", "one line"),
        ("node\na\n", "no feature", "column of numbers"),
        ("node,t\na,1\na,2\n", "line 3: a node 'a' stands in line 2", "one line"),
        ("node,t\na,\nb,2\n", "line 2: t is missing", "t_var how good that is"),
        ("node,t\na,1\nb,NaN\n", "line 3: t is missing", "leave the node out"),
        ("node,t\na,warm\n", "line 2: t is 'warm', which is no finite number", "correct it"),
        ("node,t\na,1e999\n", "no finite number", "correct it"),
        ("node,t,t_std\na,1,-1\n", "line 2: t_std is below 0", "0 or more"),
        ("node,t,t_std,t_var\na,1,1,1\n", "both a variance and", "leave t_var or t_std out"),
        ("node,t,u_std\na,1,1\n", "u_std says how noisy u is, but there is no column u", "add u"),
        ("node,t,split\na,1,learn\n", "line 2: 'learn' is no split", "train, val, test"),
        ("node,t\na,1,2\n", "line 2: too many fields", "complete or remove"),
    ],
)
def test_mistakes_are_named(read, nodes, problem, remedy):
    with pytest.raises(FileError) as caught:
        read(nodes)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        ("from,to\na,d\n", "there is no node 'd' in nodes.csv"),
        ("from,to,weight\na,b,2\n", "the column 'weight' has no meaning"),
        ("from,to,probability\na,b,2\n", "which is not between 0 and 1"),
    ],
)
def test_links_that_cannot_be_right_are_named(read, links, problem):
    with pytest.raises(FileError, match=problem):
        read(links=links)


def test_links_that_are_left_out_are_counted(read):
    with pytest.warns(DroppedLinksWarning, match="1 self link dropped"):
        read(links="from,to\na,b\nc,c\n")
