"""`lamina completion`."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_LAMINA_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Prints what makes SHELL complete commands and options.

    For bash: `eval "$(lamina completion bash)"` in ~/.bashrc; the same for zsh in ~/.zshrc; for fish
    `lamina completion fish > ~/.config/fish/completions/lamina.fish`.
    """
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101  (narrowing: the choices are click's own)
    click.echo(made(ctx.find_root().command, {}, "lamina", _VARIABLE).source())
