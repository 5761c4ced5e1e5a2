"""The command that explains options."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from hudi_py.cli.declare import Documented

_WIDTH = 100


def add_to(main: click.Group) -> None:
    """Adds the command to the program."""
    main.add_command(options)


@click.command("options", cls=Documented, examples=["hudi-py options clean", "hudi-py options record key --json"])
@click.argument("words", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def options(words: tuple[str, ...], as_json: bool) -> None:
    """Explain options: all, or those with all these words in their key or meaning, the best matches first."""
    from hudi_py.config.docs import reference
    from hudi_py.config.options import ALL

    known = [(option, reference(option)) for option in ALL if not option.internal]
    lowered = [word.lower() for word in words]
    ranked = [(_rank(lowered, " ".join(option.keys), told["meaning"].lower()), told) for option, told in known]
    for rank, told in sorted(ranked, key=lambda pair: pair[0]):
        if rank < _NO_MATCH:
            click.echo(json.dumps(told) if as_json else _shown(told))


_NO_MATCH = 4


def _rank(words: Sequence[str], keys: str, meaning: str) -> int:
    """Rates how an option matches, by its worst word: 0 for a part of a key, 1 for a text within one, 2 for a word of
    the meaning, 3 for a text within that."""
    places = (set(re.split(r"[._ ]", keys)), keys, set(re.findall(r"\w+", meaning)), meaning)
    ranks = [next((rank for rank, place in enumerate(places) if word in place), _NO_MATCH) for word in words]
    return max(ranks, default=0)


def _shown(told: dict[str, Any]) -> str:
    meaning = {"refused": "Refused: ", "harmless": "No effect: "}.get(told["treated"], "") + told["meaning"]
    lines = [told["option"], *textwrap.wrap(meaning, _WIDTH, initial_indent="  ", subsequent_indent="  ")]
    for name in ("default", "values", "accepted", "also", "since", "example"):
        value = told.get(name)
        if value not in (None, [], ""):
            text = (
                ", ".join(value)
                if isinstance(value, list)
                else str(value).lower()
                if isinstance(value, bool)
                else str(value)
            )
            lines.append(f"  {name}: {text}")
    return "\n".join(lines) + "\n"
