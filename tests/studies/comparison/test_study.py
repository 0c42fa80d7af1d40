import csv
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from studies.comparison import fakes
from studies.comparison.conftest import FAST
from varigraph.errors import OptionError, VarigraphError
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.studies.comparison import paper_study
from varigraph.studies.comparison import study as module

CELLS = {
    *(
        f"cells/held-out/computers/{name}/seed-{seed}"
        for name in ("mc-dropout", "first-order")
        for seed in (0, 1)
    ),
    *(f"cells/paper/computers/bgnn/seed-{seed}" for seed in (0, 1)),
}
#: Processes that are spawned import the script, so it must be a file.
SCRIPT = """
import sys
from studies.comparison import conftest, fakes
from varigraph.studies.comparison import paper_study

if __name__ == "__main__":
    out, root = sys.argv[1:]
    options = {**conftest.FAST, "seeds": 5, "jobs": 2}
    paper_study((5,), out=out, root=root, methods=(fakes.SLOW,), **options)
"""


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_one_folder_holds_everything(whole):
    assert set(whole.made) == CELLS
    assert files_of(whole.folder) == {
        *(f"{cell}.json" for cell in CELLS),
        *("config.json", "results.json", "results.csv", "tables.md", "tables.tex"),
        *("table-5.md", "table-5.tex"),
    }


def test_a_study_that_is_there_is_named_with_both_ways_on(study):
    first = study(1, quick=True)
    with pytest.raises(OptionError, match="holds a study already") as refused:
        study(1, quick=True)
    assert "--resume" in refused.value.remedy
    assert "--fresh" in refused.value.remedy
    assert study(1, quick=True, resume=True).tables == first.tables
    with pytest.raises(OptionError, match="choose one of the two"):
        study(1, quick=True, resume=True, fresh=True)


def test_resuming_a_finished_study_makes_nothing(study, tmp_path, numbers):
    first = study()
    before = fakes.fits(first.folder)
    again = study(resume=True)
    assert again.made == ()
    assert fakes.fits(first.folder) == before
    assert again.results == first.results  # seconds too: they are read back
    assert numbers(again) == numbers(first)


def test_fresh_makes_everything_anew_and_removes_nothing_else(study):
    first = study()
    (first.folder / "notes.txt").write_text("mine")
    again = study(fresh=True)
    assert set(again.made) == CELLS
    assert (first.folder / "notes.txt").read_text() == "mine"


def test_more_seeds_need_only_what_is_new(study):
    study(seeds=1)
    more = study(seeds=2, resume=True)
    assert set(more.made) == {cell for cell in CELLS if cell.endswith("seed-1")}


def test_a_study_stopped_in_its_third_cell_goes_on(study, whole, numbers, tmp_path):
    methods = (fakes.MILD, fakes.BOLD, fakes.STOPPING, fakes.PAPERS)
    with pytest.raises(KeyboardInterrupt):
        study(methods=methods)
    done = fakes.fits(tmp_path / "study")
    assert len(done) == 2
    assert not (tmp_path / "study" / "results.json").exists()
    resumed = study(methods=methods, resume=True)
    again = fakes.fits(tmp_path / "study")
    assert again[:2] == done
    assert (
        len(again) == len(set(again)) + 2
    )  # each cell once; bgnn and first-order are the same fake
    without = [row for row in numbers(resumed) if row.method != "stopping"]
    assert without == numbers(whole)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_killed_study_goes_on_and_leaves_no_process(study, numbers, tmp_path, root):
    folder = tmp_path / "study"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    tests = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder), str(root)],
        env={**os.environ, "PYTHONPATH": tests},
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while len(list(folder.rglob("seed-*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    finished = {
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("seed-*.json")
    }
    assert 2 <= len(finished) < 5
    assert _gone(process.pid)
    resumed = study(methods=(fakes.SLOW,), seeds=5, resume=True)
    assert {*resumed.made} | finished == {
        f"cells/held-out/computers/slow/seed-{s}" for s in range(5)
    }
    assert not finished & {*resumed.made}
    untouched = study(methods=(fakes.SLOW,), seeds=5, folder=tmp_path / "other")
    assert numbers(resumed) == numbers(untouched)


def _gone(group):
    """Whether every process of a group ends soon."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_a_damaged_cell_is_made_anew(study, numbers, whole):
    folder = study().folder
    texts = {cell: (folder / f"{cell}.json").read_text() for cell in sorted(CELLS)}
    broken, cut, foreign, *_ = texts
    (folder / f"{broken}.json").write_text("{")
    (folder / f"{foreign}.json").write_text(texts[cut])
    less = json.loads(texts[cut])
    (folder / f"{cut}.json").write_text(json.dumps({**less, "levels": less["levels"][:3]}))
    with pytest.warns(UnusedFileWarning):
        mended = study(resume=True)
    assert {*mended.made} == {broken, cut, foreign}
    assert numbers(mended) == numbers(whole)


def test_numbers_do_not_depend_on_the_number_of_processes(study, whole, numbers, tmp_path):
    two = study(jobs=2)
    assert {*two.made} == CELLS
    assert len(fakes.fits(tmp_path / "study")) == len(CELLS)
    assert numbers(two) == numbers(whole)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_mistake_in_a_cell_is_told_and_the_others_are_kept(study, jobs, tmp_path):
    with pytest.raises(VarigraphError, match="the model is a fake") as told:
        study(methods=(fakes.MILD, fakes.MISTAKEN), jobs=jobs)
    assert told.value.remedy == "take a real one"
    resumed = study(methods=(fakes.MILD,), resume=True)
    assert len(fakes.fits(tmp_path / "study")) == 2
    assert len(resumed.results.cells) == 2


def test_a_method_that_knows_the_noise_is_trained_for_every_level(study, tmp_path):
    study(methods=(fakes.KNOWING,), seeds=1)
    assert fakes.fits(tmp_path / "study") == [
        f"computers-0-{scale}" for scale in (10.0, 12.5, 15.0, 22.0)
    ]


def test_table_1_needs_no_training(study):
    found = study(1, quick=True)
    assert found.made == ()
    assert list(found.tables) == [1]
    assert "2,708" in (found.folder / "table-1.md").read_text()


def test_tables_are_the_means_of_results_json(whole):
    stored = json.loads((whole.folder / "results.json").read_text())
    (held_out,) = [t for t in stored["tables"]["5"] if t["title"] == "Table 5. Computers, held-out"]
    assert len(held_out["rows"]) == 2 * 4
    names = {"accuracy": "accuracy", "loss": "cross_entropy", "variance": "total"}
    for row in held_out["rows"]:
        cells = dict(zip(held_out["header"], row, strict=True))
        levels = [
            level["scores"]
            for cell in stored["cells"]
            if (cell["protocol"], cell["method"]) == ("held-out", cells["method"])
            for level in cell["levels"]
            if f"{level['noise']:g} %" == cells["noise"]
        ]
        assert len(levels) == 2 == int(cells["seeds"])
        for column, metric in names.items():
            values = [100 * s[metric] if metric == "accuracy" else s[metric] for s in levels]
            mean, spread = (float(text) for text in cells[column].split(" ± "))
            assert mean == pytest.approx(statistics.mean(values), abs=0.006, rel=0.05)
            assert spread == pytest.approx(statistics.stdev(values), abs=0.006, rel=0.5)


def test_the_long_list_has_every_number_once(whole):
    with (whole.folder / "results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    places = {tuple(v for k, v in row.items() if k != "value") for row in rows}
    metrics = {row["metric"] for row in rows}
    assert len(places) == len(rows) == len(CELLS) * 4 * len(metrics)
    assert {"accuracy", "brier", "ece", "auroc", "confidence_auroc"} <= metrics


def test_progress_counts_to_the_end(study):
    steps = []
    study(progress=steps.append)
    assert [step.done for step in steps] == list(range(1, len(CELLS) + 1))
    assert {step.total for step in steps} == {len(CELLS)}
    assert steps[-1].seconds_left == 0
    assert all(step.seconds_left > 0 for step in steps[:-1])


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"seeds": 0}, "seeds is 0"),
        ({"samples": 1}, "samples is 1"),
        ({"jobs": 0}, "jobs is 0"),
        ({"links": "maybe"}, "links is 'maybe'"),
        ({"wanted": (7,)}, "no table 7"),
        ({"wanted": (5,), "quick": True}, "table 5 is about computers"),
    ],
)
def test_mistakes_are_found_before_anything_is_written(tmp_path, options, culprit):
    with pytest.raises(OptionError, match=culprit):
        paper_study(**{**FAST, "out": tmp_path / "study", **options})
    assert not (tmp_path / "study").exists()


def test_other_options_need_another_folder(study):
    study(1, quick=True)
    with pytest.raises(OptionError, match="samples 3, not 4"):
        study(1, quick=True, samples=4, resume=True)


def test_a_folder_of_something_else_is_left_alone(study, tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "config.json").write_text('{"dataset": "cora"}')
    for options in ({}, {"resume": True}, {"fresh": True}):
        with pytest.raises(OptionError, match="something else"):
            study(1, quick=True, **options)
    assert files_of(tmp_path / "study") == {"config.json"}


def test_the_document_names_protocols_seeds_and_machine(whole):
    text = (whole.folder / "tables.md").read_text()
    assert text == whole.text
    for words in ("**held-out**", "**paper**", "Seeds: 2", f"{os.cpu_count()} cores", "torch"):
        assert words in text
    assert module.results(whole)["cells"] == list(whole.results.cells)


def test_the_document_says_which_tables_are_left_out(study, whole):
    assert "Not in this run: table 2, 3, 4, 5, 6." in study(1, quick=True).text
    made = {part.title[6] for parts in whole.tables.values() for part in parts}
    assert all(f"table {number}" not in whole.text.split("\n")[2] for number in made)
