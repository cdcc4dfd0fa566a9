"""`foretold serve`"""

from __future__ import annotations

from pathlib import Path

import click

from foretold.cli.settings import config_option, read_config


@click.command("serve", short_help="Run the node: cache, model and API.")
@config_option
@click.option("--host", help="Listen here instead of server.host.")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen here instead of server.port; 0 for any free port.")
@click.option("--json", "as_json", is_flag=True, help="Say where the node listens as one JSON line on stdout.")
def command(config_file: Path | None, host: str | None, port: int | None, as_json: bool) -> int:
    """Runs a node until Ctrl-C: answers known queries from its cache, new ones through a model.

    SIGHUP, or `foretold config reload`, reads the settings anew.

    \b
    Examples:
      foretold serve
      foretold serve --port 8080
      foretold serve --config /etc/foretold.toml --json
    """
    import asyncio
    import dataclasses

    from foretold.cli.running import run
    from foretold.config.checking import check_reach
    from foretold.config.settings import Config

    def read() -> Config:
        config = read_config(config_file)
        here = config.server
        here = dataclasses.replace(
            here, host=here.host if host is None else host, port=here.port if port is None else port
        )
        config = dataclasses.replace(config, server=here)
        check_reach(config)
        return config

    config = read()
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run(config, read=read, as_json=as_json))
    except ImportError:
        return asyncio.run(run(config, read=read, as_json=as_json))
