import pytest

from varigraph.studies.paper import TABLES, note, published


def test_every_table_has_the_four_levels():
    assert set(TABLES) == {"cora", "computers", "pubmed"}
    assert all(list(table) == [0, 2.5, 5, 12] for table in TABLES.values())


def test_accuracies_are_shares_that_fall_with_noise():
    for table in TABLES.values():
        accuracies = [row.accuracy for row in table.values()]
        assert accuracies == sorted(accuracies, reverse=True)
        assert 0 < min(accuracies) <= max(accuracies) < 1


@pytest.mark.parametrize("dataset", TABLES)
def test_every_data_set_has_its_note(dataset):
    assert note(dataset).startswith("paper: ")
    assert "logits" in note(dataset)


def test_what_was_not_published_is_none():
    assert published("citeseer", 0) is None
    assert published("cora", 3) is None
    assert published("cora", 0).per_class_nll is None
