"""The group of all verbs: under ``--json`` a command that cannot be read is told as JSON too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from varigraph.cli.mistakes import print_mistake

JSON = "--json"
#: What typer raises for a command that it cannot read; it is exported only as this base.
UsageError: Any = typer.BadParameter.__base__


class Verbs(TyperGroup):
    """Verbs whose mistakes in options and arguments obey ``--json``, as those of the work do."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """What typer does, with other words for a usage error."""
        words = list(sys.argv[1:] if args is None else args)
        ours = standalone_mode and JSON in words
        call = partial(super().main, words, prog_name, complete_var, **extra)
        if not ours:
            return call(standalone_mode=standalone_mode, windows_expand_args=windows_expand_args)
        try:
            code = call(standalone_mode=False)
        except UsageError as error:
            print_mistake("UsageError", error.format_message(), f"{error.ctx.command_path} --help")
            sys.exit(error.exit_code)
        sys.exit(code or 0)
