import pytest

from varigraph.data.graphml import CHUNK, graphml
from varigraph.errors import FileError

KEY = '<key id="d0" for="edge" attr.name="p" attr.type="double"/>'
EDGE = '<edge source="a" target="b"><data key="d0">0.5</data></edge>'


def write(folder, body, *, key=KEY, head='<?xml version="1.0" encoding="UTF-8"?>'):
    path = folder / "graph.graphml"
    space = 'xmlns="http://graphml.graphdrawing.org/xmlns"'
    text = f"{head}\n<graphml {space}>\n{key}\n<graph>\n{body}\n</graph>\n</graphml>\n"
    path.write_text(text, encoding="utf-8")
    return path


def parts(path, score="p"):
    """(line, source, target, score) of each link, and the nodes that are listed."""
    blocks = list(graphml(path, score))
    rows = [
        row
        for block in blocks
        for row in zip(block.lines, block.sources, block.targets, block.scores, strict=True)
    ]
    return rows, [node for block in blocks for node in block.nodes]


def refusal(path, score="p"):
    with pytest.raises(FileError) as caught:
        parts(path, score)
    return caught.value


def test_edges_have_line_numbers_and_nodes_their_order(tmp_path):
    body = f'<node id="z"/>\n<node id="a"/>\n\n{EDGE}\n<edge source="b" target="&lt;c&gt;">\n'
    body += '<data key="d0"> 0.<!-- half -->25\n</data></edge>'
    rows, nodes = parts(write(tmp_path, body))
    assert rows == [(8, "a", "b", "0.5"), (9, "b", "<c>", "0.25")]
    assert nodes == ["z", "a"]


def test_other_data_is_not_mistaken_for_the_score(tmp_path):
    key = KEY + (
        '<key id="d1" for="edge" attr.name="q"><default>0.1</default></key>'
        '<key id="d2" for="node" attr.name="p"><default>0.2</default></key>'
        '<key id="d3" for="all" attr.name="r"/>'
    )
    body = (
        '<node id="a"><data key="d2">0.3</data><data key="d3">0.4</data></node>'
        '<edge source="a" target="b"><data key="d1">0.6</data><data key="d0">0.7</data>'
        '<data key="d3">0.8</data></edge>'
    )
    path = write(tmp_path, body, key=key)
    assert parts(path) == ([(5, "a", "b", "0.7")], ["a"])
    assert parts(path, "q")[0] == [(5, "a", "b", "0.6")]
    assert parts(path, "r")[0] == [(5, "a", "b", "0.8")]


def test_one_name_may_have_two_keys(tmp_path):
    key = KEY + '<key id="d1" for="edge" attr.name="p" attr.type="long"/>'
    body = EDGE + '<edge source="b" target="c"><data key="d1">1</data></edge>'
    rows, _ = parts(write(tmp_path, body, key=key))
    assert [row[3] for row in rows] == ["0.5", "1"]


def test_defaults_stand_in(tmp_path):
    key = KEY.replace("/>", "><default>0.75</default></key>")
    rows, _ = parts(write(tmp_path, EDGE + '<edge source="b" target="c"/>', key=key))
    assert [row[3] for row in rows] == ["0.5", "0.75"]


def test_prefixes_and_other_encodings_are_read(tmp_path):
    path = tmp_path / "graph.graphml"
    text = (
        '<?xml version="1.0" encoding="iso-8859-1"?><g:graphml xmlns:g="urn:x">'
        '<g:key id="d0" for="edge" attr.name="p"/><g:graph><g:edge source="\u00fc" target="b">'
        '<g:data key="d0">0.5</g:data></g:edge></g:graph></g:graphml>'
    )
    path.write_bytes(text.encode("iso-8859-1"))
    assert parts(path)[0] == [(1, "\u00fc", "b", "0.5")]


def test_long_files_are_read_piece_by_piece(tmp_path):
    count = 3 * CHUNK // len(EDGE)
    path = write(tmp_path, "\n".join([EDGE] * count))
    assert len(list(graphml(path, "p"))) > 3
    rows, _ = parts(path)
    assert rows == [(5 + n, "a", "b", "0.5") for n in range(count)]


BOMB = '<!DOCTYPE b [<!ENTITY x "lol"><!ENTITY y "&x;&x;&x;">]>'
OUTSIDE = '<!DOCTYPE b [<!ENTITY x SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize("doctype", [BOMB, OUTSIDE, '<!DOCTYPE b SYSTEM "b.dtd">'])
def test_document_types_are_refused_before_they_act(tmp_path, doctype):
    path = write(tmp_path, EDGE, head=f'<?xml version="1.0"?>\n{doctype}')
    error = refusal(path)
    assert error.line == 2
    assert "declares a document type" in error.problem


@pytest.mark.parametrize(
    ("body", "line", "problem"),
    [
        ('<edge source="a"/>', 5, "target= is missing"),
        ('\n<edge target="a"/>', 6, "source= is missing"),
        ('<edge source="" target="a"/>', 5, "source= is missing"),
        ("<node/>", 5, "id= is missing"),
        ('\n\n<edge source="a" target="b"/>', 7, "the edge 'a' - 'b' has no 'p'"),
        (f"{EDGE}\n<hyperedge/>", 6, "hyperedge"),
        ('<node id="a"><graph/></node>', 5, "second graph"),
        (f"{EDGE}</graph>\n<graph>", 6, "second graph"),
        (f"{EDGE}\n<edge source=", 7, "not XML: not well-formed"),
        (f"{EDGE}\n&nothing;", 6, "not XML: undefined entity"),
        (f"{EDGE}\n</edge>", 6, "not XML: mismatched tag"),
    ],
)
def test_what_is_not_a_plain_graph_is_named(tmp_path, body, line, problem):
    error = refusal(write(tmp_path, body))
    assert problem in error.problem
    assert error.line == line


@pytest.mark.parametrize(
    ("content", "line"), [(b"", 1), (b"a b 0.5\n", 1), (b"<graphml>\n\xff", 2)]
)
def test_what_is_not_xml_is_named(tmp_path, content, line):
    path = tmp_path / "graph.graphml"
    path.write_bytes(content)
    error = refusal(path)
    assert "this is not XML" in error.problem
    assert error.line == line


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    path = write(tmp_path, EDGE)
    path.write_bytes(path.read_bytes()[:-12])
    assert "not XML" in refusal(path).problem


def test_other_xml_is_refused(tmp_path):
    path = tmp_path / "graph.xml"
    path.write_text("<gexf/>")
    assert "holds <gexf>, not <graphml>" in refusal(path).problem


@pytest.mark.parametrize(("key", "known"), [(KEY, "'p'"), ("", "none")])
@pytest.mark.parametrize("score", ["confidence", None])
def test_attributes_that_are_not_there_are_named(tmp_path, key, known, score):
    error = refusal(write(tmp_path, "", key=key), score)
    assert f"score={score!r} is no attribute of edges; they have {known}" in error.problem
    assert error.line == 4
