import pytest
from torch_geometric.datasets import Amazon, Planetoid

from data.tiny_photo import write_photo
from varigraph.data.sources import SOURCES, raw_folder
from varigraph.errors import DatasetError

PHOTO = SOURCES["photo"]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_the_files_are_those_the_reader_asks_for(source):
    reader = source.reader.__new__(source.reader)  # its __init__ would read the disk
    reader.name = source.folder
    expected = reader.raw_file_names
    assert list(source.files) == ([expected] if isinstance(expected, str) else expected)


def test_citations_are_row_normalised_and_products_are_not():
    assert {s.reader for s in SOURCES.values() if s.row_normalised} == {Planetoid}
    assert {s.reader for s in SOURCES.values() if not s.row_normalised} == {Amazon}


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
    for name in SOURCES["pubmed"].files[:-2]:
        (raw / name).touch()
    with pytest.raises(DatasetError) as caught:
        raw_folder(SOURCES["pubmed"], root=tmp_path / "root")
    assert caught.value.problem == f"{raw} lacks ind.pubmed.graph, ind.pubmed.test.index"
    assert "remove that folder" in caught.value.remedy
