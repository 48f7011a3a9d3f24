"""Shell completion: the script, and what it asks the program for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import lamina

PROGRAM = Path(sys.executable).with_name("lamina")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_prints_the_shells_own_script(shell: str) -> None:
    done = CliRunner().invoke(lamina, ["completion", shell])
    assert done.exit_code == 0
    assert "_LAMINA_COMPLETE" in done.output


def test_an_unknown_shell_is_refused() -> None:
    assert CliRunner().invoke(lamina, ["completion", "cmd"]).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(("words", "offered"), [("lamina pu", "purge"), ("lamina ledger --d", "--days")])
def test_commands_and_options_are_completed(words: str, offered: str) -> None:
    asked = {"_LAMINA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [str(PROGRAM)], env={"PATH": os.environ["PATH"], **asked}, capture_output=True, text=True, check=False
    )
    assert f"plain,{offered}" in done.stdout.split("\n")
