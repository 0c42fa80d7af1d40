"""Which columns of a table of links hold the two ends and the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import Literal, TypeAlias

from varigraph.data.link_blocks import is_number
from varigraph.errors import FileError

#: A column by its name in the header, or by its number, counted from 0.
Column: TypeAlias = str | int
#: The column of the score; None where it goes without saying, False where there is none to read.
ScoreColumn: TypeAlias = Column | Literal[False] | None
#: How a file of STRING begins, and what it calls the score that all evidence together gives.
STRING_ENDS, STRING_SCORE, STRING_CERTAIN = ["protein1", "protein2"], "combined_score", 1000.0
#: Names of columns in a message.
LISTED = 20


@dataclass(frozen=True)
class Wanted:
    """What the caller asks for.

    Args:
        score: the column of the score; None for the third of three, or that of STRING; False if
            scores are not wanted.
        ends: the columns of the ends.
    """

    score: ScoreColumn
    ends: tuple[Column, Column]

    @property
    def by_name(self) -> bool:
        """Whether a header is needed to find the columns."""
        return any(isinstance(column, str) for column in (self.score, *self.ends))


@dataclass(frozen=True)
class Columns:
    """Where things stand in each row of a file.

    Args:
        source: number of the column of one end.
        target: that of the other end.
        score: that of the score; None if scores are not wanted.
        width: how many columns there are.
        header: whether the first row names the columns.
        certain: the score of a certain link.
    """

    source: int
    target: int
    score: int | None
    width: int
    header: bool
    certain: float


@dataclass(frozen=True)
class FirstRow:
    """The first row of a file, from which the columns are known.

    Args:
        path: the file, for messages.
        line: number of the row's line.
        fields: what stands in it.
        names_columns: whether this kind of file always has a header.
    """

    path: Path
    line: int
    fields: Sequence[str]
    names_columns: bool

    def columns(self, wanted: Wanted) -> Columns:
        """Where the wanted columns are.

        Raises:
            FileError: if one of them does not exist, or it is unclear which is meant.
        """
        header = self.names_columns or wanted.by_name or self._of_string
        score = None
        if wanted.score is not False:
            score = self._place(self._score(wanted.score, header), header)
        source, target = (self._place(end, header) for end in wanted.ends)
        if len({source, target, score}) < 3:
            raise self._error(
                f"the ends are columns {source} and {target}, the score is column {score}",
                "give three different columns by ends= and score=",
            )
        numeric = source if score is None else score  # a header does not name a column 0.9 or 17
        if header and not self._asked(wanted) and is_number(self.fields[numeric]):
            raise self._error(
                f"the names of the columns belong here, not the number {self.fields[numeric]}",
                "add a first line such as from,to,confidence",
            )
        certain = STRING_CERTAIN if self._of_string else 1.0
        return Columns(source, target, score, len(self.fields), header, certain)

    @staticmethod
    def _asked(wanted: Wanted) -> bool:
        """Whether the caller knows the name of the column that would betray a missing header."""
        return isinstance(wanted.ends[0] if wanted.score is False else wanted.score, str)

    @property
    def _of_string(self) -> bool:
        return list(self.fields[:2]) == STRING_ENDS and STRING_SCORE in self.fields

    def _score(self, score: Column | None, header: bool) -> Column:
        if score is not None:
            return score
        if self._of_string:
            return STRING_SCORE
        if header:
            raise self._error(
                f"it is unclear which column is the score; {self._listed()}",
                f"say which: score={self.fields[-1]!r}",
            )
        if len(self.fields) != 3:
            raise self._error(
                f"{len(self.fields)} columns instead of three: {shortened(' '.join(self.fields))}",
                "say which column is the score, counted from 0: score=3, or score=False if none "
                "is; a file whose fields are separated by commas is called .csv",
            )
        return 2

    def _place(self, column: Column, header: bool) -> int:
        if isinstance(column, int):
            if column < len(self.fields):
                return column
            raise self._error(
                f"there is no column {column}; {self._listed() if header else self._counted()}",
                f"count from 0 to {len(self.fields) - 1}",
            )
        if self.fields.count(column) == 1:
            return self.fields.index(column)
        which = "more than one column is" if column in self.fields else "no column is"
        raise self._error(
            f"{which} called {column!r}; {self._listed()}",
            "give one of these names, or the number of the column, counted from 0",
        )

    def _counted(self) -> str:
        return f"there are {len(self.fields)}"

    def _listed(self) -> str:
        more = ", ..." if len(self.fields) > LISTED else ""
        return f"there are {', '.join(map(shortened, self.fields[:LISTED]))}{more}"

    def _error(self, problem: str, remedy: str) -> FileError:
        return FileError(self.path, problem, remedy, line=self.line)
