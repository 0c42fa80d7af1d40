import pytest

from varigraph.data.graph_parts import NOISE, intended


@pytest.mark.parametrize(
    ("known", "names"),
    [
        (
            "edge_prob",
            "edge_probs edge_probability edge_probabilities edgeprob Edge_Prob egde_prob edge_porb "
            "edge_prb edge_pro edge-prob edges_prob",
        ),
        ("x_var", "x_vars x_variance xvar X_VAR x__var x_varr x_var_ x_variances"),
    ],
)
def test_misspelt_noise_is_recognised(known, names):
    assert {name: intended(name) for name in names.split()} == dict.fromkeys(names.split(), known)


@pytest.mark.parametrize(
    "name",
    [
        *NOISE,
        *("x", "y", "edge_index", "edge_attr", "edge_weight", "edge_type", "edge_label", "batch"),
        *("x_val", "x_test", "x_mean", "var", "prob", "pos", "train_mask", "name", "edge_pos", ""),
        *("edge_props", "node_names", "class_names", "num_nodes", "adj_t", "edge_time", "ptr"),
    ],
)
def test_names_that_mean_something_else_are_left_alone(name):
    assert intended(name) is None
