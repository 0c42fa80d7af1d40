"""The scripts in examples/ run and what they say is true; the notebooks are the same code, run."""

import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pytest
import torch

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
KILOBYTES = 1000


class Run(NamedTuple):
    names: dict
    printed: str
    folder: Path

    def __getattr__(self, name):
        return self.names[name]


def run(name, folder):
    plt.switch_backend("Agg")
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as printed,
        torch.random.fork_rng(devices=[]),
    ):
        patch.chdir(folder)
        names = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    plt.close("all")
    return Run(names, printed.getvalue(), folder)


@pytest.fixture(scope="module")
def sensors(tmp_path_factory):
    return run("sensors", tmp_path_factory.mktemp("sensors"))


@pytest.fixture(scope="module")
def citations(tmp_path_factory):
    return run("citations", tmp_path_factory.mktemp("citations"))


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    return run("molecules", tmp_path_factory.mktemp("molecules"))


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    return run("grid", tmp_path_factory.mktemp("grid"))


@pytest.fixture(scope="module")
def proteins(real_data, tmp_path_factory):
    return run("proteins", tmp_path_factory.mktemp("proteins"))


def inside(mean, var, value):  # [days, stations] each
    """What is within 90 % intervals, one share for each day."""
    return ((value - mean).abs() <= 1.6449 * var.sqrt()).double()


class TestSensors:
    def test_each_station_hears_the_nearest(self, sensors):
        stations = sensors.stations
        source, target = stations.edge_index
        for station in range(0, sensors.STATIONS, 10):
            distance = (stations.pos - stations.pos[station]).norm(dim=1)
            nearest = distance.argsort()[1 : sensors.NEIGHBOURS + 1]
            assert set(source[target == station].tolist()) == set(nearest.tolist())

    def test_hidden_readings_do_not_reach_the_network(self, sensors):
        readings = torch.rand(2, sensors.STATIONS)
        hidden = sensors.stations.silent.expand(2, -1)
        graph = sensors.seen(sensors.stations, readings, hidden)
        other = sensors.seen(sensors.stations, readings + 5 * hidden, hidden)
        assert torch.equal(graph.x, other.x)
        assert torch.equal(graph.x_var[:, 0] == 0, hidden.flatten())
        assert not graph.x_var[:, 1:].any()

    def test_error_bars_are_the_spread_of_new_measurements(self, sensors):
        ideal = sensors.ideal.total.sqrt().squeeze(1) / sensors.moved
        assert abs(ideal - 1).max() < 5 / (2 * sensors.DRAWS) ** 0.5  # std errors of a spread
        today = sensors.error_bar / sensors.moved
        assert today.median().item() == pytest.approx(1, abs=0.05)
        assert abs(today - 1).max() < 0.3

    def test_intervals_hold_the_answers_of_perfect_instruments(self, sensors):
        shape = sensors.TEST_DAYS, sensors.SILENT
        parts = sensors.found.mean, sensors.noise, sensors.undisturbed
        share = inside(*(part.view(shape) for part in parts)).mean(dim=1)  # [days]
        std_error = share.std() / len(share) ** 0.5
        assert abs(share.mean() - 0.9) < 4 * std_error
        assert std_error < 0.01

    def test_they_hold_the_temperature_only_once_calibrated(self, sensors):
        shape = sensors.TEST_DAYS, sensors.SILENT
        mean, total, value = (
            part.view(shape)
            for part in (sensors.found.mean, sensors.found.total, sensors.temperature)
        )
        assert inside(mean, total, value).mean() < 0.75
        low, high = (end.view(shape) for end in sensors.calibrated.interval(0.9))
        share = ((low <= value) & (value <= high)).double()
        assert 0.89 <= share.mean() <= 0.91

    def test_the_blamed_instrument_moves_the_answers_most(self, sensors):
        today, model, worst = sensors.today, sensors.model, sensors.worst
        draw, draws = torch.Generator().manual_seed(3), 100
        moved = {}
        for bad in (sensors.stations.noise == sensors.BAD_NOISE).nonzero().squeeze(1).tolist():
            x = today.x.repeat(draws, 1, 1)
            x[:, bad, 0] += sensors.BAD_NOISE * torch.randn(draws, generator=draw)
            with torch.no_grad():
                answers = torch.stack([model(row, today.edge_index) for row in x])
            moved[bad] = answers[:, sensors.silent].var(dim=0).sum().item()
        assert max(moved, key=moved.get) == worst

    def test_only_one_reading_is_replaced(self, sensors):
        changed = (sensors.fixed.x != sensors.today.x).any(dim=1)
        assert changed.nonzero().flatten().tolist() == [sensors.worst]
        assert sensors.stations.noise[sensors.worst] == sensors.BAD_NOISE

    def test_replacing_it_lowers_error_bar_and_spread(self, sensors):
        place = sensors.place
        assert sensors.after[place] < 0.8 * sensors.error_bar[place]
        assert sensors.moved_after[place] < 0.8 * sensors.moved[place]

    def test_the_figure_is_small(self, sensors):
        assert (sensors.folder / "sensors.png").stat().st_size < 100 * KILOBYTES


class TestCitations:
    def test_brute_force_agrees(self, citations):
        for row in citations.audit.rows:
            assert row.logits.median == pytest.approx(1, abs=0.05)
            assert row.coverage == pytest.approx(0.9, abs=0.02)

    def test_the_least_certain_are_refused(self, citations):
        uncertainty = torch.rand(50, generator=torch.Generator().manual_seed(0))
        kept = citations.accepted(uncertainty)
        assert kept.sum() == 45
        assert uncertainty[kept].max() < uncertainty[~kept].min()

    @pytest.mark.parametrize("by", ["by variance", "by trust"])
    def test_refusing_makes_the_rest_more_often_right(self, citations, by):
        right, kept = citations.right, citations.kept[by]
        assert right[kept].float().mean() > right.float().mean() + 0.01

    def test_doubtful_links_are_a_cause(self, citations):
        assert citations.doubtful.link_quality.auc > 0.8
        assert citations.pred.by_source["links"].abs().max() == 0
        assert citations.with_links.by_source["links"].mean() > 0
        assert citations.with_links.total.mean() > citations.pred.total.mean()

    def test_page_and_figure_are_written(self, citations):
        assert "<title>Cora" in (citations.folder / "cora.html").read_text(encoding="utf-8")
        assert (citations.folder / "citations.png").stat().st_size < 100 * KILOBYTES


class TestMolecules:
    def test_bonds_and_charges_are_possible(self, molecules):
        for one in molecules.candidates[:50]:
            bonds = one.edge_index[0].bincount(minlength=one.num_nodes)
            allowed = [molecules.VALENCE[element] for element in one.element.tolist()]
            assert (bonds <= torch.tensor(allowed)).all()
            assert bonds.min() >= 1
            assert one.charge.sum().item() == pytest.approx(0, abs=1e-5)

    def test_solubility_is_that_of_elements_charged_bonds_and_size(self, molecules):
        for one in molecules.known[:20]:
            value = sum(molecules.LIKES_WATER[element].item() for element in one.element.tolist())
            for source, target in one.edge_index.t().tolist():  # each bond twice
                value += 6 * max(0.0, -(one.charge[source] * one.charge[target]).item())
            value -= 0.01 * one.num_nodes**2
            assert molecules.solubility(one) == pytest.approx(value, abs=1e-4)

    def test_intervals_hold_the_answers_for_exact_charges(self, molecules):
        std_error = (0.9 * 0.1 / molecules.CANDIDATES) ** 0.5
        assert abs(molecules.inside - 0.9) < 3 * std_error

    def test_as_many_decisions_turn_over_as_expected(self, molecules):
        left, chances = molecules.found["most likely to turn"]
        for count, chance in zip(left, chances, strict=True):
            std = (chance * (1 - chance)).sum().sqrt().item()
            assert abs(count - chance.sum().item()) < 3 * std

    def test_choosing_what_may_turn_over_settles_more_decisions(self, molecules):
        left = {name: counts[-1] for name, (counts, _) in molecules.found.items()}
        start = molecules.found["at random"][0][0]
        settled = {name: start - count for name, count in left.items()}
        assert settled["most likely to turn"] > 2 * settled["at random"]
        assert settled["most likely to turn"] > 2 * settled["largest error bar"]

    def test_the_figure_is_small(self, molecules):
        assert (molecules.folder / "molecules.png").stat().st_size < 100 * KILOBYTES


@pytest.fixture(scope="module")
def settings(grid):
    """Answers for all 256 ways to set the switches that do not report, and their chances."""
    answers, readings = [], grid.readings
    ways = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * grid.SILENT)  # [ways, switches]
    for way in ways:
        kept = torch.ones(grid.lines.size(1), dtype=torch.bool)
        kept[grid.silent] = way.bool()
        lines = grid.lines[:, kept]
        links = torch.cat([lines, lines.flip(0)], dim=1)
        with torch.no_grad():
            answers.append(grid.model(readings.x, links)[grid.where, 0])
    chance = torch.where(ways == 1, grid.CLOSED, 1 - grid.CLOSED).prod(dim=1)
    return ways, chance.double(), torch.stack(answers).double()


class TestGrid:
    def test_angles_obey_the_flow_of_power(self, grid):
        closed = grid.lines[:, grid.closed > 0].t().tolist()
        flow = torch.zeros(grid.BUSES)
        for one, two in closed:
            flow[one] += grid.angle[one] - grid.angle[two]
            flow[two] += grid.angle[two] - grid.angle[one]
        assert torch.allclose(flow, grid.power, atol=1e-3)

    def test_no_bus_is_ever_cut_off(self, grid):
        reached, new = {0}, {0}
        while new:
            ends = [set(line) for line in grid.fixed.t().tolist()]
            new = set().union(*(line for line in ends if line & reached)) - reached
            reached |= new
        assert len(reached) == grid.BUSES

    def test_the_part_of_the_lines_is_that_over_all_ways_to_set_them(self, grid, settings):
        _, chance, answer = settings
        mean = (chance[:, None] * answer).sum(dim=0)
        exact = (chance[:, None] * (answer - mean) ** 2).sum(dim=0)
        found = grid.pred.by_source["links"][:, 0].double()
        # First order in single lines: what several do together is missing at some quieter buses,
        # by up to a quarter. The two buses that the example is about, and the sum, are right.
        worst = exact.argsort(descending=True)[:2]
        assert torch.allclose(found[worst], exact[worst], rtol=0.05)
        assert torch.allclose(found.sum(), exact.sum(), rtol=0.05)

    def test_no_other_call_would_have_left_less_doubt(self, grid, settings):
        ways, chance, answer = settings
        left = []
        for switch in range(grid.SILENT):
            rest = 0.0
            for state in (0, 1):
                part = ways[:, switch] == state
                weight = (chance[part] / chance[part].sum())[:, None]
                mean = (weight * answer[part]).sum(dim=0)
                var = (weight * (answer[part] - mean) ** 2).sum()
                rest += float(chance[part].sum() * var)
            left.append(rest)
        assert grid.line == grid.silent[left.index(min(left))]

    def test_the_call_helps_where_the_doubt_was(self, grid):
        truth = grid.angle[grid.where][grid.worst]
        assert grid.after.std[grid.worst] < 0.3 * grid.pred.std[grid.worst]
        before, after = (abs(p.mean[grid.worst, 0] - truth) for p in (grid.pred, grid.after))
        assert after < before / 4

    def test_the_figure_is_small(self, grid):
        assert (grid.folder / "grid.png").stat().st_size < 100 * KILOBYTES


@pytest.mark.real_data
class TestProteins:
    def test_labels_are_those_of_exactly_one_complex(self, proteins):
        graph, file = proteins.graph, proteins.FILES / "krogan2006_complexes.txt"
        complexes = proteins.largest_complexes(file, graph.node_names)
        for name, label in zip(graph.node_names, graph.y.tolist(), strict=True):
            homes = [number for number, members in enumerate(complexes) if name in members]
            assert label == (homes[0] if len(homes) == 1 else proteins.UNLABELLED)

    def test_masks_share_out_the_labelled_proteins(self, proteins):
        graph = proteins.graph
        masks = torch.stack([graph.train_mask, graph.val_mask, graph.test_mask])
        assert torch.equal(masks.sum(dim=0) == 1, graph.y != proteins.UNLABELLED)
        assert masks.sum(dim=0).max() == 1
        assert graph.test_mask.sum() > 50

    def test_features_are_finite_and_the_same_again(self, proteins):
        graph = proteins.graph
        assert graph.x.isfinite().all()
        assert torch.equal(proteins.structure(proteins.expected_adjacency(graph)), graph.x)

    def test_degree_and_clustering_agree_with_their_definitions(self, proteins):
        adjacency = proteins.expected_adjacency(proteins.graph)
        dense = torch.from_numpy(adjacency.toarray())
        degree, pairs = dense.sum(dim=1), dense.sum(dim=1) ** 2 - (dense**2).sum(dim=1)
        near = [p.nonzero().squeeze(1) for p in dense]
        triangles = torch.stack(
            [p[n] @ dense[n][:, n] @ p[n] for p, n in zip(dense, near, strict=True)]
        )
        clustering = torch.where(pairs > 1e-9, triangles / pairs, 0)
        for column, expected in enumerate([degree.log1p(), clustering]):
            standard = (expected - expected.mean()) / expected.std(correction=0)
            assert torch.allclose(proteins.graph.x[:, column].double(), standard, atol=1e-5)

    def test_coordinates_are_eigenvectors_with_their_largest_entry_positive(self, proteins):
        adjacency = proteins.expected_adjacency(proteins.graph)
        vectors = proteins.coordinates(adjacency)
        values = ((adjacency @ vectors) * vectors).sum(axis=0)
        assert abs(adjacency @ vectors - vectors * values).max() < 1e-6
        assert (vectors.max(axis=0) == abs(vectors).max(axis=0)).all()

    def test_training_leaves_the_global_random_state(self, proteins):
        before = torch.get_rng_state()
        again = proteins.trained(proteins.graph, seed=0)
        assert torch.equal(torch.get_rng_state(), before)
        for one, two in zip(proteins.model.parameters(), again.parameters(), strict=True):
            assert torch.equal(one, two)

    def test_accuracy_beats_the_majority_class_clearly(self, proteins):
        graph, pred = proteins.graph, proteins.pred
        assert proteins.majority(graph) < 0.3
        assert proteins.accuracy(pred.mean, graph) > proteins.majority(graph) + 0.4

    def test_all_variance_is_due_to_the_links(self, proteins):
        shares = proteins.shares(proteins.pred)
        assert shares["links"] > 0
        assert shares["features"] == 0
        assert sum(shares.values()) == pytest.approx(1)
        assert float(proteins.pred.by_source["features"].abs().max()) == 0

    def test_the_report_names_the_doubtful_and_what_to_verify(self, proteins):
        graph, lines = proteins.graph, proteins.printed.splitlines()
        assert lines[0] == "7123 lines, 7123 links"
        assert lines[1].startswith("2708 proteins")
        assert lines[3].startswith("variance due to features 0%, links ")
        shown = [line.split()[0] for line in lines[5:15]]
        tested = {graph.node_names[node] for node in graph.test_mask.nonzero().squeeze(1)}
        assert set(shown) <= tested
        assert f"node {shown[0]}, probability of class" in lines[15]
        assert "verify: link " in proteins.printed
