"""The command line.  Commands are imported only when they run, so that `--help` and `version` are quick."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING

import click

from foretold.errors import ForetoldError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Set by the scripts of `foretold completion`, whose shells then run this program at each TAB.
COMPLETE = "_FORETOLD_COMPLETE"

_COMMANDS = {
    "serve": ("foretold.cli.serve", "Run the node: cache, model and API."),
    "ask": ("foretold.cli.ask", "Ask once, stream the answer, say miss or hit and how long."),
    "cache": ("foretold.cli.cache", "Look at what is kept, and purge it."),
    "models": ("foretold.cli.models", "Keep models in a bucket or a folder, bring them here, check and load them."),
    "config": ("foretold.cli.config", "Check, show and explain the settings."),
    "deploy": ("foretold.cli.deploy", "Put the edge Worker on Cloudflare."),
    "edge": ("foretold.cli.edge", "Run the edge on this machine, warm its KV, export it."),
    "doctor": ("foretold.cli.doctor", "Check the whole set-up and say what to do."),
    "completion": ("foretold.cli.completion", "Print the script that completes commands in your shell."),
    "version": ("foretold.cli.version", "Version of this program and of its engine."),
}

_EPILOG = """\b
Examples:
  foretold serve                                  run a node with the bundled model
  foretold ask smollm2-135m "Why is the sky blue?"  ask it, twice: a miss, then a hit
  foretold cache stats                            what the cache did so far
  foretold doctor                                 is everything as it should be?

\b
Exit codes: 0 done, 1 failed, 2 wrong use, 3 settings not valid, 4 credential, 5 node or upstream
unreachable, 6 not found, 7 taken, 8 finished and found a fault, 130 Ctrl-C, 143 asked to stop."""


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # From the table as well: whoever presses a key waits for it.
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=says) for name, (_, says) in _COMMANDS.items() if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, _COMMANDS, n=3, cutoff=0.3)
            hint = f"  Did you mean {', '.join(near)}?" if near else ""
            ctx.fail(f"there is no command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table: a command's module is not worth importing for one line.
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in _COMMANDS.items()])


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Foretold remembers what AI models answer, so that nobody waits or pays for the same answer twice."""


def main() -> None:
    """Runs a command and ends the process."""
    try:
        _run()
    except SystemExit as ended:
        if "obstore" in sys.modules and isinstance(ended.code, int):
            _leave_at_once(ended.code)
        raise


def _leave_at_once(code: int) -> None:
    """Ends the process without taking down the interpreter: where threads of obstore still run, that aborts now and
    then.
    """
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # nobody reads any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _run() -> None:
    """An error is told in two lines and an exit code, never as a traceback."""
    try:
        result = cli(standalone_mode=False, complete_var=COMPLETE)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except click.ClickException as e:
        if os.environ.get("FORETOLD_OUTPUT") == "json":
            from foretold.cli.words import tell

            tell(e.format_message(), code="wrong_use", exit_code=e.exit_code)
        else:
            e.show()
        sys.exit(e.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except ForetoldError as e:
        from foretold.cli.words import exit_code_of, tell_error

        tell_error(e)
        sys.exit(exit_code_of(e))
    sys.exit(result if isinstance(result, int) else 0)
