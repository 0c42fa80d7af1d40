"""Every operator against the matrix that it stands for, all of its answers written out in full."""

import pytest
import torch

from varigraph.moments.attention import HeadJacobian, HeadSum, ScoreSum, WeightSum, WithinGroups
from varigraph.moments.cotangents import Cotangents
from varigraph.moments.differentiated import Corrected, RowJacobian
from varigraph.moments.graph_norms import LessShared, Shared
from varigraph.moments.tape import Arranged, Columns, Dense, Operator, Scale, Sum
from varigraph.sparse import Sparse

NODES, IN, OUT, OUTPUTS = 5, 3, 4, 2
GENERATOR = torch.Generator().manual_seed(0)


def random(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


WEIGHT, SLOPES, FACTOR, LINKS = random(OUT, IN), random(NODES, IN), random(IN), random(NODES, NODES)
MAPS, LEFT, RIGHT = random(NODES, OUT, IN), random(NODES, IN, 2), random(NODES, 2, IN)
LINKS *= torch.rand(NODES, NODES, generator=GENERATOR) < 0.5


def sparse(matrix):
    rows, columns = matrix.nonzero(as_tuple=True)
    return Sparse(rows, columns, matrix[rows, columns], tuple(matrix.shape))


def beside(first, width):
    """The matrix that puts numbers into some of more columns."""
    place = torch.zeros(width, IN, dtype=torch.float64)
    place[first : first + IN] = torch.eye(IN, dtype=torch.float64)
    return place


def at_every_node(matrix):  # [out, in] -> [nodes, out, nodes, in]
    return torch.einsum("uv,oi->uovi", torch.eye(NODES, dtype=torch.float64), matrix)


def arranged(pick, place, width):
    """The matrix that puts some columns at some places."""
    matrix = torch.zeros(width, IN, dtype=torch.float64)
    matrix[place, pick] = 1
    return matrix


#: Links from senders to receivers, sorted by receivers; weights of three heads, messages of six.
RECEIVER, SENDER = torch.tensor([0, 0, 2, 3, 3]), torch.tensor([1, 4, 2, 0, 4])
HEADS, MESSAGES = random(len(SENDER), IN), random(NODES, 2 * IN)
GROUP, SHARE = torch.tensor([1, 0, 1, 4, 0]), random(NODES, IN)


GRAPH = torch.tensor([1, 0, 1, NODES + 2, 0])  # most graphs have no nodes
TERMS = [random(2, NODES, IN), random(2, NODES, IN)]


def same_graph():
    return (GRAPH[:, None] == GRAPH).double()


def less_shared(*across):
    """By sums over nodes of the same graph, of the same feature or of all."""
    eye = torch.eye(IN, dtype=torch.float64)
    matrix = at_every_node(eye)
    for (to, of), over in zip(TERMS, across, strict=True):
        features = torch.ones(IN, IN, dtype=torch.float64) if over else eye
        matrix -= torch.einsum("uo,uv,oi,vi->uovi", to, same_graph(), features, of)
    return SLOPES[:, :, None, None] * matrix


def taken(*across):
    terms = [Shared(*each, across=over) for each, over in zip(TERMS, across, strict=True)]
    return LessShared(SLOPES, tuple(terms), GRAPH, int(GRAPH.max()) + 1, sparse(same_graph()))


def sum_of_heads():
    matrix = torch.zeros(NODES, IN, NODES, IN, dtype=torch.float64)
    for link, (receiver, sender) in enumerate(zip(RECEIVER, SENDER, strict=True)):
        matrix[receiver, range(IN), sender, range(IN)] += HEADS[link]
    return matrix


def sum_of_weights():
    matrix = torch.zeros(NODES, 2 * IN, len(SENDER), IN, dtype=torch.float64)
    for link, (receiver, sender) in enumerate(zip(RECEIVER, SENDER, strict=True)):
        for column in range(2 * IN):
            matrix[receiver, column, link, column // 2] = MESSAGES[sender, column]
    return matrix


#: Messages and slopes of scores of the five links; maps of three heads from one number to two.
LETTERS, KEYS, WIDE_KEYS = random(5, 2 * IN), random(5, IN, 1), random(5, IN, IN)
BY_HEAD = random(NODES, IN, 2, 1)


def sum_of_scores(apart):
    matrix = torch.zeros(NODES, 2 * IN, NODES, IN, dtype=torch.float64)
    for link, (receiver, sender) in enumerate(zip(RECEIVER, SENDER, strict=True)):
        for column in range(2 * IN):
            head = column // 2
            slope = KEYS[link, head, 0] * torch.eye(IN).double()[head]
            slope = slope if apart else WIDE_KEYS[link, head]
            matrix[receiver, column, sender] += LETTERS[link, column] * slope
    return matrix


def within_groups():
    matrix = torch.zeros(NODES, IN, NODES, IN, dtype=torch.float64)
    for e in range(NODES):
        for f in range(NODES):
            same = float(GROUP[e] == GROUP[f])
            entry = SHARE[e] * (float(e == f) - same * SHARE[f])
            matrix[e, range(IN), f, range(IN)] = entry
    return matrix


def listed(rows, columns, shape):
    order = rows.argsort(stable=True)
    ones = torch.ones(len(rows), dtype=torch.float64)
    return Sparse(rows[order], columns[order], ones, shape)


EVERY = torch.arange(NODES)
#: Each operator, the features of its child, and all of its numbers: [nodes, out, nodes, in].
OPERATORS = {
    "dense": (Dense(WEIGHT), OUT, at_every_node(WEIGHT)),
    "slopes": (
        Scale(SLOPES),
        IN,
        torch.einsum("uv,ui,oi->uovi", torch.eye(NODES).double(), SLOPES, torch.eye(IN).double()),
    ),
    "factor": (Scale(FACTOR), IN, at_every_node(torch.diag(FACTOR))),
    "a row": (Scale(FACTOR[None]), IN, at_every_node(torch.diag(FACTOR))),
    "a number": (
        Scale(torch.tensor(2.5, dtype=torch.float64)),
        IN,
        at_every_node(2.5 * torch.eye(IN, dtype=torch.float64)),
    ),
    "first columns": (Columns(0), 5, at_every_node(beside(0, 5))),
    "last columns": (Columns(2), 5, at_every_node(beside(2, 5))),
    "rows": (
        RowJacobian(MAPS),
        OUT,
        torch.einsum("uv,uoi->uovi", torch.eye(NODES, dtype=torch.float64), MAPS),
    ),
    "directions": (
        Corrected(SLOPES, LEFT, RIGHT),
        IN,
        torch.einsum(
            "uv,uoi->uovi",
            torch.eye(NODES, dtype=torch.float64),
            torch.diag_embed(SLOPES) + LEFT @ RIGHT,
        ),
    ),
    "arranged": (
        Arranged(torch.tensor([2, 0, 2]), torch.tensor([0, 3, 4])),
        5,
        at_every_node(arranged([2, 0, 2], [0, 3, 4], 5)),
    ),
    "heads": (
        HeadSum(HEADS, listed(RECEIVER, SENDER, (NODES, NODES))),
        IN,
        sum_of_heads(),
    ),
    "weights": (
        WeightSum(MESSAGES, SENDER, listed(RECEIVER, EVERY, (NODES, len(SENDER)))),
        2 * IN,
        sum_of_weights(),
    ),
    "scores of heads apart": (
        ScoreSum(LETTERS, KEYS, listed(RECEIVER, SENDER, (NODES, NODES))),
        2 * IN,
        sum_of_scores(apart=True),
    ),
    "scores of all columns": (
        ScoreSum(LETTERS, WIDE_KEYS, listed(RECEIVER, SENDER, (NODES, NODES)), apart=False),
        2 * IN,
        sum_of_scores(apart=False),
    ),
    "rows by heads": (
        HeadJacobian(BY_HEAD),
        2 * IN,
        torch.einsum(
            "uv,uoi->uovi",
            torch.eye(NODES, dtype=torch.float64),
            torch.stack([torch.block_diag(*each) for each in BY_HEAD]),
        ),
    ),
    "within groups": (
        WithinGroups(SHARE, listed(GROUP, EVERY, (NODES, NODES)), GROUP),
        IN,
        within_groups(),
    ),
    "less what graphs share": (taken(False, False), IN, less_shared(False, False)),
    "less what numbers share": (taken(True, True), IN, less_shared(True, True)),
    "less what either share": (taken(False, True), IN, less_shared(False, True)),
    "sum": (
        Sum(sparse(LINKS)),
        IN,
        torch.einsum("uv,oi->uovi", LINKS, torch.eye(IN, dtype=torch.float64)),
    ),
}
each_operator = pytest.mark.parametrize("name", OPERATORS)


def every_pair(values):  # [rows, nodes, outputs, features]
    rows, nodes = values.shape[:2]
    row = torch.arange(rows).repeat_interleave(nodes)
    return Cotangents(row, torch.arange(nodes).repeat(rows), values.flatten(0, 1), nodes, rows)


def written_out(pairs):  # -> [rows, nodes, outputs, features]
    dense = torch.zeros(pairs.rows, pairs.nodes, *pairs.values.shape[1:], dtype=torch.float64)
    dense[pairs.row, pairs.column] = pairs.values
    return dense


@each_operator
def test_cotangents_go_back_by_the_matrix(name):
    operator, width, matrix = OPERATORS[name]
    cotangents = random(NODES, NODES, OUTPUTS, width)
    want = torch.einsum("ruao,uovi->rvai", cotangents, matrix)
    found = operator.back(every_pair(cotangents), IN)
    assert torch.allclose(written_out(found), want)


@each_operator
def test_covariances_go_forward_by_the_matrix(name):
    operator, width, matrix = OPERATORS[name]
    covariances = random(NODES, NODES, OUTPUTS, IN)
    want = torch.einsum("rvai,uovi->ruao", covariances, matrix)
    wanted = every_pair(torch.zeros_like(want))
    found = operator.forward(every_pair(covariances), wanted, width)
    assert torch.allclose(written_out(wanted.with_values(found)), want)


@each_operator
def test_tangents_are_pushed_within_a_node_only(name):
    operator, width, matrix = OPERATORS[name]
    nodes, tangents = torch.tensor([3, 0, 3]), random(3, IN)
    found = operator.push(tangents, nodes, width)
    if not operator.local:
        assert found is None
        return
    want = torch.einsum("noi,ni->no", matrix[nodes, :, nodes], tangents)
    assert torch.allclose(found, want)


@each_operator
@pytest.mark.parametrize("tied", [False, True])
def test_covariances_of_each_node(name, tied):
    operator, width, matrix = OPERATORS[name]
    root = random(NODES, IN, IN)
    block = root @ root.mT
    given = block if tied else block.diagonal(dim1=1, dim2=2)
    before = block if tied else torch.diag_embed(given)
    want = torch.einsum("uovi,vij,upvj->uop", matrix, before, matrix)
    found = operator.blocks(given.clone(), random(NODES, IN), width, None)
    assert operator.ties or found.dim() == given.dim()
    assert torch.allclose(found if found.dim() == 3 else torch.diag_embed(found), want)


@each_operator
def test_blocks_are_written_over_what_they_come_from(name):
    operator, width, _ = OPERATORS[name]
    block, mean = random(NODES, IN, IN), random(NODES, IN)
    want = operator.blocks(block.clone(), mean, width, None)
    if operator.overwrites(NODES):
        assert operator.blocks(block, mean, width, block) is block
        assert torch.equal(block, want)


def test_noise_of_each_node_and_feature_goes_through_a_map():
    var = torch.rand(NODES, IN, generator=GENERATOR, dtype=torch.float64)
    found = Dense(WEIGHT).blocks(var, random(NODES, IN), OUT, None)
    assert torch.allclose(found, WEIGHT @ torch.diag_embed(var) @ WEIGHT.T)


def test_an_operator_that_answers_nothing_cannot_be_made():
    class Unknown(Operator):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unknown()


@pytest.mark.parametrize("name", ["heads", "scores of heads apart", "scores of all columns",
                                  "rows by heads"])  # fmt: skip
def test_columns_of_noise_are_seen_by_the_matrix(name):
    operator, width, matrix = OPERATORS[name]
    root = random(IN, 2)
    found = operator.of_root(root)
    every = torch.arange(NODES)
    at = (
        (every, every)
        if operator.matrix is None
        else (operator.matrix.rows, operator.matrix.columns)
    )
    dense = torch.zeros(NODES, NODES, 2, width, dtype=torch.float64)
    dense.index_put_(at, found, accumulate=True)
    assert torch.allclose(dense, torch.einsum("uovi,ir->uvro", matrix, root))


@pytest.mark.parametrize("name", ["slopes", "factor", "a number", "within groups"])
def test_sums_by_messages_respond_to_what_was_before(name):
    operator, _, matrix = OPERATORS[name]
    message = random(NODES, 2 * IN)  # two numbers for each of three heads
    letters = torch.zeros(NODES, 2 * IN, NODES, IN, dtype=torch.float64)
    for row in range(NODES):
        for column in range(2 * IN):
            letters[GROUP[row], column, row, column // 2] += message[row, column]
    want = torch.einsum("gcri,risj->gcsj", letters, matrix)
    found = operator.of_message(message, GROUP)
    for row in range(NODES):
        for column in range(2 * IN):
            assert torch.isclose(found[row, column], want[GROUP[row], column, row, column // 2])


def test_messages_of_other_groups_are_not_moved():
    operator, message = OPERATORS["within groups"][0], random(NODES, 2 * IN)
    assert operator.of_message(message, (GROUP + 1) % NODES) is None


def test_a_sum_says_which_rows_it_picks():
    picked = torch.tensor([3, 0, 3])
    ones = torch.ones(3, dtype=torch.float64)
    assert torch.equal(Sum(Sparse(torch.arange(3), picked, ones, (3, NODES))).picks, picked)
    assert Sum(Sparse(torch.arange(3), picked, 2 * ones, (3, NODES))).picks is None
    assert Sum(Sparse(torch.tensor([0, 0, 1]), picked, ones, (3, NODES))).picks is None


@pytest.mark.parametrize("across", [(False, False), (True, True), (False, True)])
def test_variances_of_what_graphs_share(across):
    var = torch.rand(NODES, IN, generator=GENERATOR, dtype=torch.float64)
    want = torch.einsum("uovi,vi->uo", less_shared(*across).square(), var)
    assert torch.allclose(taken(*across).variances(var), want)
