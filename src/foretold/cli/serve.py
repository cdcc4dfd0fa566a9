"""`foretold serve`"""

from __future__ import annotations

from pathlib import Path

import click

from foretold.cli.settings import config_option


@click.command("serve", short_help="Run the node: cache, model and API.")
@config_option
@click.option("--host", help="Listen here instead of server.host.")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen here instead of server.port; 0 for any free port.")
@click.option("--workers", type=click.IntRange(1, 64), help="Processes that answer, instead of server.workers.")
@click.option("--json", "as_json", is_flag=True, help="Say where the node listens as one JSON line on stdout.")
def command(config_file: Path | None, host: str | None, port: int | None, workers: int | None, as_json: bool) -> int:
    """Runs a node until Ctrl-C: answers known queries from its cache, new ones through a model.

    SIGHUP, or `foretold config reload`, reads the settings anew.

    \b
    Examples:
      foretold serve
      foretold serve --port 8080
      foretold serve --workers 4
      foretold serve --config /etc/foretold.toml --json
    """
    import asyncio

    from foretold.cli.settings import read_text
    from foretold.workers.beginning import Given, config_of

    given = Given(host, port, workers)
    text, file = read_text(config_file)
    config = config_of(text, file, given)
    if config.server.workers > 1:
        from foretold.cli import supervising

        return asyncio.run(
            supervising.run(config, text=text, given=given, read=lambda: read_text(config_file)[0], as_json=as_json)
        )

    from foretold.cli.running import run

    one = run(config, read=lambda: config_of(*read_text(config_file), given), as_json=as_json)
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(one)
    except ImportError:
        return asyncio.run(one)
