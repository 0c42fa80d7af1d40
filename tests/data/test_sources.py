import pytest
from torch_geometric.datasets import Amazon, Planetoid

from data.tiny_photo import write_photo
from varigraph.data.data_sets import DATA_SETS, raw_folder
from varigraph.errors import DatasetError

PHOTO = DATA_SETS["photo"]


READERS = {"citeseer": Planetoid, "pubmed": Planetoid, "computers": Amazon, "photo": Amazon}


@pytest.mark.parametrize("name", DATA_SETS)
def test_files_and_addresses_are_those_of_torch_geometric(name):
    reader = READERS[name].__new__(READERS[name])  # its __init__ would read the disk
    reader.name = DATA_SETS[name].folder
    expected = reader.raw_file_names
    assert list(DATA_SETS[name].files) == ([expected] if isinstance(expected, str) else expected)
    assert DATA_SETS[name].address == reader.url.rstrip("/")


def test_citations_are_row_normalised_and_products_are_not():
    assert {name for name in DATA_SETS if DATA_SETS[name].row_normalised} == {"citeseer", "pubmed"}


def test_every_file_has_a_checksum_but_that_of_photo():
    without = {name for name in DATA_SETS if None in DATA_SETS[name].files.values()}
    assert without == {"photo"}
    known = [sha for source in DATA_SETS.values() for sha in source.files.values() if sha]
    assert len(set(known)) == len(known) == 17
    assert {len(bytes.fromhex(sha)) for sha in known} == {32}


def test_root_comes_before_the_environment_and_both_before_the_cache(
    photo, tmp_path, cache, monkeypatch
):
    other = write_photo(tmp_path / "other")
    write_photo(cache)
    monkeypatch.setenv("VARIGRAPH_DATA", str(other))
    assert raw_folder(PHOTO, root=photo) == photo / "Photo" / "raw"
    assert raw_folder(PHOTO) == other / "Photo" / "raw"
    monkeypatch.delenv("VARIGRAPH_DATA")
    assert raw_folder(PHOTO) == cache / "Photo" / "raw"


def test_the_cache_helps_out_where_root_lacks_the_set(photo, cache):
    (photo / "Photo").rename(photo / "Elsewhere")
    assert raw_folder(PHOTO, root=str(photo)) is None
    write_photo(cache)
    assert raw_folder(PHOTO, root=str(photo)) == cache / "Photo" / "raw"


def test_a_root_that_is_no_folder_is_refused(tmp_path, monkeypatch):
    with pytest.raises(DatasetError) as caught:
        raw_folder(PHOTO, root=tmp_path / "typo")
    assert caught.value.problem == f"root={str(tmp_path / 'typo')!r} is not a folder"
    assert "Photo/raw" in caught.value.remedy
    monkeypatch.setenv("VARIGRAPH_DATA", "/no/such/folder")
    with pytest.raises(DatasetError, match=r"\$VARIGRAPH_DATA='/no/such/folder' is not a folder"):
        raw_folder(PHOTO)


def test_an_incomplete_folder_is_refused_before_anything_is_downloaded_into_it(tmp_path):
    raw = tmp_path / "root" / "PubMed" / "raw"
    raw.mkdir(parents=True)
    for name in list(DATA_SETS["pubmed"].files)[:-2]:
        (raw / name).touch()
    with pytest.raises(DatasetError) as caught:
        raw_folder(DATA_SETS["pubmed"], root=tmp_path / "root")
    assert caught.value.problem == f"{raw} lacks ind.pubmed.graph, ind.pubmed.test.index"
    assert "remove that folder" in caught.value.remedy
