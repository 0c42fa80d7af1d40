"""Links from GraphML, read as a stream: the tree is never built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from reprlib import repr as shortened
from typing import Literal
from xml.parsers import expat

from varigraph.data.link_tables import LinkBlock
from varigraph.data.opened_files import opened
from varigraph.errors import FileError

#: Bytes that are parsed at a time: too few links for the garbage collector to wake up.
CHUNK = 1 << 16
#: Bytes of one tag or comment, or characters of one score: all are kept until it ends.
LONGEST = 1 << 20


def graphml(
    path: Path, score: str | Literal[False] | None, *, optional: bool = False
) -> Iterator[LinkBlock]:
    """The links of a GraphML file in blocks, in the order of the file; names are node ids.

    Args:
        path: the file, gzipped or not.
        score: the edge attribute that holds the score, by its ``attr.name``; False if scores are
            not wanted.
        optional: whether edges without any attribute will do where no score is named.

    Raises:
        FileError: if it is not GraphML, declares a document type (which could name other files or
            grow without bound), has other than one graph, or an edge lacks an end or its score.
    """
    edges = _Edges(path, score, optional=optional)
    with opened(path) as stream:
        while chunk := stream.read(CHUNK):
            edges.parse(chunk)
            yield edges.collected()
    edges.parse(b"", last=True)
    yield edges.collected()


class _Edges:
    """Collects nodes, links and scores from what the parser calls out."""

    def __init__(self, path: Path, score: str | Literal[False] | None, *, optional: bool) -> None:
        self._path, self._score, self._optional = path, score, optional
        self._attributes: dict[str, str] = {}  # edge attributes: their names by their keys
        self._key = ""  # the one that is being declared
        self._default: str | None = None
        self._keys: set[str] | None = None  # those of the score, known once the graph begins
        self._edge: tuple[int, str, str] | None = None
        self._value: str | None = None
        self._text: list[str] | None = None  # None where text is of no interest
        self._length = 0  # of that text
        self._nodes: list[str] = []
        self._links: list[tuple[int, str, str, str]] = []
        self._starts: dict[str, Callable[[dict[str, str]], None]] = {}
        self._ends: dict[str, Callable[[], None]] = {}
        # By expat itself: ElementTree tells no line numbers and lets document types pass.
        self._parser, self._given = expat.ParserCreate(), 0
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._start_doctype
        self._parser.StartElementHandler = self._start_root

    def parse(self, chunk: bytes, *, last: bool = False) -> None:
        """Goes on with the next bytes of the file."""
        self._given += len(chunk)
        try:
            self._parser.Parse(chunk, last)
        except FileError:
            raise
        except (LookupError, ValueError) as error:  # by the codec of that name, or for lack of one
            raise self._error(
                f"its encoding cannot be read: {error}",
                'save it as UTF-8, beginning with <?xml version="1.0" encoding="UTF-8"?>',
            ) from error
        except expat.ExpatError as error:
            raise FileError(
                self._path,
                f"this is not XML: {expat.ErrorString(error.code)}",
                "fetch or write the file again; only GraphML is called .graphml or .xml",
                line=error.lineno,
            ) from error
        if self._given - self._parser.CurrentByteIndex > LONGEST:
            raise self._error(
                f"a tag or comment has more than {LONGEST:,} bytes", "save the file again"
            )

    def collected(self) -> LinkBlock:
        """The nodes and links since the last call."""
        columns = zip(*self._links, strict=True) if self._links else ((), (), (), ())
        lines, sources, targets, scores = columns
        nodes, self._nodes, self._links = self._nodes, [], []
        return LinkBlock(lines, sources, targets, None if self._score is False else scores, nodes)

    def _start_doctype(self, *_: object) -> None:
        raise self._error(
            "the file declares a document type, which GraphML does not need",
            "remove the <!DOCTYPE ...> declaration, if you trust the file",
        )

    def _start_root(self, tag: str, _: dict[str, str]) -> None:
        prefix, colon, name = tag.rpartition(":")
        if name != "graphml":
            raise self._error(f"the file holds <{tag}>, not <graphml>", "save it as GraphML")
        starts = {
            "key": self._start_key,
            "default": self._start_text,
            "graph": self._start_graph,
            "node": self._start_node,
            "edge": self._start_edge,
            "data": self._start_data,
            "hyperedge": self._start_hyperedge,
        }
        ends = {"default": self._end_default, "data": self._end_data, "edge": self._end_edge}
        self._starts = {prefix + colon + name: start for name, start in starts.items()}
        self._ends = {prefix + colon + name: end for name, end in ends.items()}
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if start := self._starts.get(tag):
            start(attributes)

    def _end(self, tag: str) -> None:
        if end := self._ends.get(tag):
            end()

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)
            self._length += len(text)
            if self._length > LONGEST:
                raise self._error(f"a score has more than {LONGEST:,} characters", "correct it")

    def _start_key(self, attributes: dict[str, str]) -> None:
        self._key = self._named(attributes, "id")
        if attributes.get("for", "all") in {"edge", "all"}:
            self._attributes[self._key] = attributes.get("attr.name", self._key)

    def _start_text(self, _: dict[str, str]) -> None:
        self._text, self._length = [], 0

    def _start_graph(self, _: dict[str, str]) -> None:
        if self._keys is not None:
            raise self._error("this is the second graph of the file", "keep one graph to a file")
        if self._optional and self._score is None and not self._attributes:
            self._score = False
        self._keys = {key for key, name in self._attributes.items() if name == self._score}
        if not self._keys and self._score is not False:
            known = ", ".join(sorted(map(repr, self._attributes.values()))) or "none"
            raise self._error(
                f"score={self._score!r} is no attribute of edges; they have {known}",
                "name the one that holds the score, such as score='confidence'",
            )

    def _start_node(self, attributes: dict[str, str]) -> None:
        self._nodes.append(self._named(attributes, "id"))

    def _start_edge(self, attributes: dict[str, str]) -> None:
        if self._edge is not None:
            raise self._error("an <edge> stands within another", "close the first by </edge>")
        ends = self._named(attributes, "source"), self._named(attributes, "target")
        self._edge, self._value = (self._parser.CurrentLineNumber, *ends), None

    def _start_data(self, attributes: dict[str, str]) -> None:
        if self._edge and self._keys and attributes.get("key") in self._keys:
            self._start_text(attributes)

    def _start_hyperedge(self, _: dict[str, str]) -> None:
        raise self._error("a <hyperedge> has any number of ends", "replace it by edges")

    def _end_default(self) -> None:
        text = self._finished()
        if self._attributes.get(self._key) == self._score:
            self._default = text

    def _end_data(self) -> None:
        if self._text is not None:
            self._value = self._finished()

    def _end_edge(self) -> None:
        assert self._edge is not None
        value = self._default if self._value is None else self._value
        if value is None and self._score is not False:
            line, source, target = self._edge
            raise FileError(
                self._path,
                f"the edge {shortened(source)} - {shortened(target)} has no {self._score!r}",
                "add it, or a <default> for all edges to its <key>",
                line=line,
            )
        self._links.append((*self._edge, value or ""))
        self._edge = None

    def _finished(self) -> str:
        text, self._text = "".join(self._text or ()).strip(), None
        return text

    def _named(self, attributes: dict[str, str], name: str) -> str:
        if value := attributes.get(name):
            return value
        raise self._error(f"{name}= is missing", f"complete the element by {name}=")

    def _error(self, problem: str, remedy: str) -> FileError:
        return FileError(self._path, problem, remedy, line=self._parser.CurrentLineNumber)
