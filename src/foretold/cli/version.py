"""`foretold version`"""

from __future__ import annotations

import click

from foretold import __version__


@click.command("version", short_help="Version of this program and of its engine.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(as_json: bool) -> None:
    """The version of this program, of Python and of the engine.

    \b
    Examples:
      foretold version
      foretold version --json
    """
    if as_json:
        import json
        import platform
        from importlib import metadata

        engine = f"xllamacpp {metadata.version('xllamacpp')}"
        click.echo(json.dumps({"version": __version__, "python": platform.python_version(), "engine": engine}))
    else:
        click.echo(f"foretold {__version__}")
