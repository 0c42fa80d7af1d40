"""What is written: whole or not at all, by one process at a time, known by what made it."""

from varigraph.files.locks import locked
from varigraph.files.whole_file import (
    check_name,
    check_target,
    csv_text,
    replacing,
    write_csv,
    write_json,
    write_text,
)

__all__ = [
    "check_name",
    "check_target",
    "csv_text",
    "locked",
    "replacing",
    "write_csv",
    "write_json",
    "write_text",
]
