import gzip
import time
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

import varigraph as vg
from varigraph.data import DroppedLinksWarning, Reading, check_graph
from varigraph.errors import FileError, OptionError


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(path, *args, **options):
    with pytest.raises(FileError) as caught:
        vg.read_links(path, *args, **options)
    assert str(path) in caught.value.problem
    return caught.value


def as_dict(graph):
    """Probabilities by the names of the ends, in both directions."""
    ends = graph.edge_index.t().tolist()
    pairs = [(graph.node_names[u], graph.node_names[v]) for u, v in ends]
    assert len(set(pairs)) == len(pairs)  # nothing is listed twice
    return dict(zip(pairs, graph.edge_prob.tolist(), strict=True))


def one_by_one(rows):
    """What should be read from rows (a, b, probability): the definition, line by line."""
    names, best = [], {}
    for a, b, prob in rows:
        names += [name for name in (a, b) if name not in names]
        if a != b:
            key = frozenset((a, b))
            best[key] = max(prob, best.get(key, 0))
    both_ways = {}
    for key, prob in best.items():
        a, b = key
        if prob > 0:
            both_ways[a, b] = both_ways[b, a] = float(np.float32(prob))
    return list(dict.fromkeys(names)), both_ways


def quietly(path, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedLinksWarning)
        return vg.read_links(path, *args, **options)


KINDS = {
    "spaces.txt": (" ", "", {}),
    "tabs.tsv": ("\t", "", {}),
    "string.txt": (" ", "protein1 protein2 combined_score\n", {}),
    "commas.csv": (",", "from,to,confidence\n", {"score": "confidence"}),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("rows", [1, 40, 3000])
def test_files_are_read_as_one_by_one(tmp_path, name, packed, rows):
    separator, header, options = KINDS[name]
    draw = np.random.default_rng(rows)
    ends, scores = draw.integers(0, max(2, rows // 8), (rows, 2)), draw.integers(0, 1001, rows)
    certain = 1000 if "string" in name else 1
    lines = [(f"P{a}", f"P{b}", s / 1000) for (a, b), s in zip(ends, scores, strict=True)]
    text = header + "".join(f"{a}{separator}{b}{separator}{p * certain:g}\n" for a, b, p in lines)
    path = write(tmp_path, name + ".gz" * packed, gzip.compress(text.encode()) if packed else text)
    graph = quietly(path, **options)
    names, probs = one_by_one(lines)
    assert graph.node_names == names
    assert graph.num_nodes == len(names)
    assert as_dict(graph) == pytest.approx(probs, abs=1e-7)
    reading = graph.reading
    assert reading.lines == rows
    assert reading.links == len(probs) // 2
    assert reading.self_links == sum(a == b for a, b, _ in lines)
    parts = reading.links + reading.duplicates + reading.self_links + reading.impossible
    assert parts == rows


BARE = {
    "two.txt": "b a\na c\na b\n",
    "four.tsv": "b\ta\t0\tx\na\tc\tnone\ty\na\tb\t7\tz\n",
    "table.csv": "from,to,note\nb,a,-\na,c,-\na,b,-\n",
    "string.txt": "protein1 protein2 combined_score\nb a 5\na c 999\na b 0\n",
    "bare.graphml": "<graphml><graph><edge source='b' target='a'/><edge source='a' target='c'/>"
    "<edge source='a' target='b'/></graph></graphml>",
}


@pytest.mark.parametrize("name", BARE)
def test_without_scores_every_line_is_a_link(tmp_path, name):
    graph = vg.read_links(write(tmp_path, name, BARE[name]), score=False)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert graph.node_names == ["b", "a", "c"]
    assert "edge_prob" not in graph
    assert graph.reading == Reading(3, 2, 1, 0, 0, 0)


def test_without_scores_there_is_nothing_to_scale(tmp_path):
    with pytest.raises(OptionError, match="score=False"):
        vg.read_links(write(tmp_path, "two.txt", "a b\n"), score=False, scale=2)


def test_two_columns_are_refused_with_the_way_out(tmp_path):
    error = refusal(write(tmp_path, "two.txt", "a b\n"))
    assert "2 columns instead of three" in error.problem
    assert "score=False" in error.remedy


def test_both_directions_have_the_same_float32_number(tmp_path):
    path = write(tmp_path, "links.tsv", "b\ta\t0.1\na\tc\t0.7\n")
    graph = vg.read_links(path)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert graph.edge_index.dtype == torch.int64
    assert graph.edge_prob.dtype == torch.float32
    assert torch.equal(graph.edge_prob, torch.tensor([0.1, 0.7, 0.1, 0.7]))
    assert graph.node_names == ["b", "a", "c"]
    assert graph.reading == Reading(2, 2, 0, 0, 0, 0)


def test_what_is_read_can_be_predicted_on(tmp_path):
    graph = quietly(write(tmp_path, "links.tsv", "a b 0.1\na c 0\nc c 1\nb c 1\nb d 1e-60\n"))
    graph.x = torch.ones(graph.num_nodes, 1)
    check_graph(graph)  # which refuses links of probability 0
    assert graph.node_names == ["a", "b", "c", "d"]
    assert graph.reading == Reading(5, 2, 0, 0, 1, 2)


@pytest.mark.real_data
def test_the_yeast_network_agrees_with_networkx(real_data):
    path = real_data / "links" / "krogan2006_core.tsv"
    graph = vg.read_links(path)
    oracle = nx.read_weighted_edgelist(path)
    assert graph.node_names == list(oracle)
    assert graph.reading == Reading(7123, 7123, 0, 0, 0, 0)
    found = as_dict(graph)
    assert len(found) == 2 * 7123
    for u, v, weight in oracle.edges(data="weight"):
        assert found[u, v] == found[v, u] == float(np.float32(weight))


def test_networkx_graphml_is_read_back(tmp_path):
    graph = nx.gnp_random_graph(40, 0.2, seed=1)
    draw = np.random.default_rng(0)
    for u, v in graph.edges:
        graph.edges[u, v].update(confidence=round(draw.uniform(0.01, 1), 3), kind="seen")
    graph.add_node("alone", kind="node")
    path = tmp_path / "graph.graphml"
    nx.write_graphml(graph, path)
    found = vg.read_links(path, score="confidence")
    assert found.node_names == [str(node) for node in graph]
    expected = {(str(u), str(v)): p for u, v, p in graph.edges(data="confidence")}
    expected |= {(v, u): p for (u, v), p in expected.items()}
    assert as_dict(found) == pytest.approx(expected, abs=1e-7)


def test_duplicates_that_agree_are_merged_in_silence(tmp_path):
    path = write(tmp_path, "links.txt", "a b 0.5\nb a 0.50\na b 5e-1\nb c 1\n")
    graph = vg.read_links(path)  # a warning would be an error here
    assert graph.reading == Reading(4, 2, 2, 0, 0, 0)
    assert graph.reading.lossless
    assert str(graph.reading) == "4 lines, 2 links, 2 duplicates merged"


def test_a_loss_is_warned_about_once_where_the_caller_stands(tmp_path):
    path = write(tmp_path, "links.txt", "a b 0.5\nb a 0.75\na a 0.9\nb b 1\nc a 0\na b 0.75\n")
    with pytest.warns(DroppedLinksWarning) as caught:
        graph = vg.read_links(path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert str(caught[0].message) == f"{path}: {graph.reading}"
    assert graph.reading == Reading(6, 1, 2, 1, 2, 1)
    assert not graph.reading.lossless
    assert as_dict(graph) == {("a", "b"): 0.75, ("b", "a"): 0.75}
    assert str(graph.reading) == (
        "6 lines, 1 link, 2 duplicates merged, 1 of them with a lower score, which was dropped, "
        "2 self links dropped, 1 link of score 0 dropped"
    )


def test_a_file_of_self_links_gives_nodes_without_links(tmp_path):
    graph = quietly(write(tmp_path, "links.txt", "a a 0.5\nb b 0.5\n"))
    assert (graph.num_nodes, graph.edge_index.shape, graph.edge_prob.shape) == (2, (2, 0), (0,))


def test_a_path_may_be_text_and_begin_at_home(tmp_path, monkeypatch):
    write(tmp_path, "links.txt", "a b 0.5\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert vg.read_links("~/links.txt").num_nodes == 2


@pytest.mark.parametrize(
    ("text", "options", "prob"),
    [
        ("a b 850\n", {"scale": 1000}, 0.85),
        ("a b 0.85\n", {"scale": 2}, 0.425),
        ("protein1 protein2 combined_score\na b 850\n", {}, 0.85),
        ("protein1 protein2 combined_score\na b 850\n", {"scale": 900}, 850 / 900),
        ("protein1 protein2 database combined_score\na b 300 850\n", {"score": "database"}, 0.3),
        ("protein1 protein2 database combined_score\na b 300 850\n", {}, 0.85),
        ("protein1 protein2 database combined_score\na b 300 850\n", {"score": 2}, 0.3),
    ],
)
def test_scores_are_divided_by_that_of_a_certain_link(tmp_path, text, options, prob):
    graph = vg.read_links(write(tmp_path, "links.txt", text), **options)
    assert graph.edge_prob.tolist() == pytest.approx([prob, prob], abs=1e-7)
    assert graph.node_names == ["a", "b"]


@pytest.mark.parametrize("line", [1, 2, 999_999, 1_000_000])
def test_one_broken_line_of_a_million_is_named(tmp_path, line):
    lines = ["ENSP01 ENSP02 0.5\n"] * 1_000_000
    lines[line - 1] = "ENSP01 ENSP02 1.7\n"
    path = write(tmp_path, "links.txt", "".join(lines))
    begin = time.process_time()
    error = refusal(path)
    assert time.process_time() - begin < 20
    assert error.line == line
    assert error.problem == (
        f"{path}, line {line}: the score '1.7' makes a probability of 1.7, "
        "which is not between 0 and 1"
    )
    assert "scale=" in error.remedy


@pytest.mark.parametrize("score", ["-0.1", "1.0000001", "nan", "inf", "-inf", "NaN", "1e999"])
@pytest.mark.parametrize("name", KINDS)
def test_numbers_that_are_no_probabilities_are_refused(tmp_path, name, score):
    separator, header, options = KINDS[name]
    path = write(tmp_path, name, f"{header}a{separator}b{separator}{score}\n")
    error = refusal(path, scale=1, **options)
    assert error.line == 1 + bool(header)
    assert repr(score) in error.problem


@pytest.mark.parametrize("score", ["high", "0,5", "0.9_5", "0x1p-1", "½", "--"])
def test_text_is_no_score(tmp_path, score):
    error = refusal(write(tmp_path, "links.txt", f"# comment\n\na b 0.5\na c {score}\n"))
    assert error.line == 4
    assert f"the score {score!r} is not a number" in error.problem


def test_a_long_culprit_is_shortened(tmp_path):
    path = write(tmp_path, "links.txt", f"a b {'x' * 10_000}\n")
    assert len(refusal(path).problem) < len(str(path)) + 200


@pytest.mark.parametrize("text", ["", "\n \n", "# nothing\n"])
def test_an_empty_file_is_refused(tmp_path, text):
    error = refusal(write(tmp_path, "links.txt", text))
    assert "no links in this file" in error.problem


@pytest.mark.parametrize("header", ["protein1 protein2 combined_score\n", "from to p\n"])
def test_a_header_alone_is_refused(tmp_path, header):
    path = write(tmp_path, "links.txt", header)
    error = refusal(path, score="p") if "from" in header else refusal(path)
    assert "no links in this file" in error.problem


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    error = refusal(tmp_path / "no" / "links.txt")
    assert "there is no such file" in error.problem
    assert str(tmp_path) in error.remedy
    assert "this is a folder" in refusal(tmp_path).problem
    assert isinstance(error, vg.VarigraphError)


@pytest.mark.parametrize("score", [-1, True, 1.5, ("a",)])
def test_a_score_that_is_no_column_is_refused(score):
    with pytest.raises(OptionError, match="score="):
        vg.read_links("links.txt", score)


@pytest.mark.parametrize("ends", [("a",), "ab", (0, 1, 2), (0, -1), (0, None), [0, 1]])
def test_ends_that_are_not_two_columns_are_refused(ends):
    with pytest.raises(OptionError, match="ends="):
        vg.read_links("links.txt", ends=ends)


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), True, "1000"])
def test_a_scale_that_is_no_score_is_refused(scale):
    with pytest.raises(OptionError, match="scale="):
        vg.read_links("links.txt", scale=scale)


@pytest.mark.parametrize("options", [{"score": 2}, {"score": "p", "ends": ("source", "target")}])
def test_graphml_has_no_columns(options):
    with pytest.raises(OptionError, match="no columns"):
        vg.read_links(Path("links.graphml.gz"), **options)
