"""The command line: `lamina serve`, `tenants`, `keys`, `purge`, `erase`, `report`, `explain`, `warm` and more.

A command is one module with a click command and one line in COMMANDS; it is imported when it is used. Exit status:
0 done, 1 failed, 2 used wrongly.
"""

import importlib
from importlib.metadata import version

import click

COMMANDS: dict[str, str] = {
    "serve": "gateway.cli.serve:serve",
    "tenants": "gateway.cli.tenants:tenants",
    "keys": "gateway.cli.keys:keys",
    "tokens": "gateway.cli.tokens:tokens",
    "limits": "gateway.cli.limits:limits",
    "modes": "gateway.cli.modes:modes",
    "audit": "gateway.cli.audit:audit",
    "purge": "gateway.cli.purge:purge",
    "entries": "gateway.cli.entries:entries",
    "versions": "gateway.cli.versions:versions",
    "erase": "gateway.cli.erase:erase",
    "encryption": "gateway.cli.encryption:encryption",
    "report": "gateway.cli.report:report",
    "engine": "gateway.cli.engine:engine",
    "explain": "gateway.cli.explain:explain",
    "warm": "gateway.cli.warm:warm",
    "replay": "gateway.cli.replay:replay",
    "doctor": "gateway.cli.doctor:doctor",
    "plan": "gateway.cli.plan:plan",
    "ledger": "gateway.cli.ledger:ledger",
    "break-even": "gateway.cli.ledger:pays",
    "completion": "gateway.cli.completion:completion",
    "stack": "gateway.cli.stack:stack",
}


class LazyCommands(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("lamina"), prog_name="lamina")
def lamina() -> None:
    """Answers from a cache what has been answered before, and asks a model for the rest."""
