"""The command that explains options."""

from __future__ import annotations

import json
import textwrap
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
    """Explain options: all, or those with all these words in their key or meaning."""
    from hudi_py.config.docs import reference
    from hudi_py.config.options import ALL

    for option in ALL:
        told = reference(option)
        text = " ".join([*option.keys, told["meaning"]]).lower()
        if all(word.lower() in text for word in words):
            click.echo(json.dumps(told) if as_json else _shown(told))


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
