import gzip
import os

import pytest

from varigraph.data.opened_files import opened
from varigraph.errors import FileError

TEXT = b"a b 0.5\n" * 1000


def refusal(path):
    with pytest.raises(FileError) as caught, opened(path) as stream:
        stream.read()
    return caught.value


@pytest.mark.parametrize("name", ["links.txt", "links.gz"])
@pytest.mark.parametrize("content", [TEXT, gzip.compress(TEXT)], ids=["plain", "gzip"])
def test_content_decides_about_gzip_not_the_name(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with opened(path) as stream:
        assert stream.read() == TEXT


def test_an_empty_file_is_empty(tmp_path):
    path = tmp_path / "links.gz"
    path.touch()
    with opened(path) as stream:
        assert stream.read() == b""


def test_gzip_that_is_cut_off_or_damaged_is_refused(tmp_path):
    path, packed = tmp_path / "links.gz", bytearray(gzip.compress(os.urandom(5000)))
    path.write_bytes(packed[:-100])
    assert "cut off or damaged" in refusal(path).problem
    packed[2000:2040] = bytes(40)
    path.write_bytes(packed)
    error = refusal(path)
    assert "cut off or damaged" in error.problem
    assert error.remedy == "fetch the file again"


def test_errors_of_the_system_are_passed_on_in_words(tmp_path):
    path = tmp_path / ("x" * 300)  # longer than file systems allow
    error = refusal(path)
    assert "it cannot be read: " in error.problem
    assert (error.path, error.line) == (path, None)
