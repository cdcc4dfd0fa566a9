"""What TAB offers, in the real shells.  `make test` installs those that are missing."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.program import command, environment, run, serving

BASH = """
source <(foretold completion bash)
COMP_WORDS=({words})
COMP_CWORD=$(({count} - 1))
_foretold_completion foretold
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


async def typed(shell: str, script: str, home: Path, **more: str) -> list[str]:
    """The lines that a script prints in a shell that finds the program as `foretold`."""
    assert shutil.which(shell), f"{shell} is missing: install it, or run `make test`, which does"
    folder = home / "bin"
    if not folder.exists():
        folder.mkdir()
        program = folder / "foretold"
        program.write_text(f'#!/bin/sh\nexec {" ".join(command())} "$@"\n')
        program.chmod(0o755)
    told = environment(home, more)
    process = await asyncio.create_subprocess_exec(
        shell,
        *{"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell],
        "-c",
        script,
        env={**told, "PATH": f"{folder}{os.pathsep}{told['PATH']}", "HOME": str(home)},
        cwd=home,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert err == b""
    return out.decode().split("\n")[:-1]


async def in_bash(words: list[str], home: Path, **more: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    return await typed("bash", BASH.format(words=quoted, count=len(words)), home, **more)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["foretold", "c"], ["cache", "config", "completion"]),
        (["foretold", "cache", ""], ["get", "purge", "stats"]),
        (["foretold", "completion", ""], ["bash", "zsh", "fish"]),
        (["foretold", "doctor", "--c"], ["--config"]),
        (["foretold", "ask", "sm"], ["smollm2-135m"]),
        (["foretold", "cache", "purge", "--model", "sm"], ["smollm2-135m"]),
    ],
    ids=lambda words: " ".join(words),
)
async def test_bash_completes_commands_options_and_models(tmp_path, words, offered):
    assert await in_bash(words, tmp_path) == offered


async def test_bash_completes_the_kinds_of_a_purge(tmp_path):
    offered = await in_bash(["foretold", "cache", "purge", "--"], tmp_path)

    assert {"--key", "--model", "--revision", "--tag", "--tenant", "--namespace", "--everything"} <= set(offered)


async def test_bash_is_registered_and_completes_files_itself(tmp_path):
    (tmp_path / "other.toml").write_text("")
    asked = "source <(foretold completion bash); complete -p foretold"
    offered = await run(
        "doctor",
        home=tmp_path,
        _FORETOLD_COMPLETE="bash_complete",
        COMP_WORDS="foretold doctor --config oth",
        COMP_CWORD="3",
    )

    assert await typed("bash", asked, tmp_path) == ["complete -o nosort -F _foretold_completion foretold"]
    assert offered.out == "file,oth\n"


async def test_models_of_a_running_node_are_offered(upstream, tmp_path):
    routes = '[[routes]]\nname = "r"\nmodels = ["gpt-4.1", "gpt-*"]\nupstream = "up"\n'
    async with serving(tmp_path, f'undeclared = "off"\n[upstreams.up]\nurl = "{upstream.url}"\n{routes}') as node:
        offered = await in_bash(["foretold", "ask", "g"], tmp_path, FORETOLD_URL=node.url)

    assert offered == ["gpt-4.1"]


async def test_without_a_node_the_models_of_the_settings_are_offered(tmp_path):
    routes = '[[routes]]\nname = "r"\nmodels = ["gpt-4.1", "gpt-*"]\nupstream = "up"\n'
    (tmp_path / "foretold.toml").write_text(f'[upstreams.up]\nurl = "http://127.0.0.1:9/v1"\n{routes}')

    assert await in_bash(["foretold", "ask", "g"], tmp_path, FORETOLD_URL="http://127.0.0.1:9") == ["gpt-4.1"]


async def test_broken_settings_print_nothing_into_the_command_that_is_typed(tmp_path):
    (tmp_path / "foretold.toml").write_text("[server\n")

    assert await in_bash(["foretold", "ask", "g"], tmp_path, FORETOLD_URL="http://127.0.0.1:9") == [""]


async def test_fish_completes_commands_options_and_models(tmp_path):
    (tmp_path / "foretold.fish").write_text((await run("completion", "fish", home=tmp_path)).out)

    async def offered(line: str) -> list[str]:
        found = await typed("fish", f"source foretold.fish; complete -C '{line}'", tmp_path)
        return [candidate.split("\t")[0] for candidate in found]

    assert await offered("foretold c") == ["cache", "completion", "config"]
    assert await offered("foretold ask sm") == ["smollm2-135m"]
    assert "--everything" in await offered("foretold cache purge --")


async def test_zsh_takes_the_script_and_registers_it(tmp_path):
    script = "autoload -Uz compinit && compinit -u -D; source <(foretold completion zsh); print $_comps[foretold]"

    assert await typed("zsh", script, tmp_path) == ["_foretold_completion"]


async def test_zsh_is_told_the_candidates_with_their_sentence(tmp_path):
    told = await run(home=tmp_path, _FORETOLD_COMPLETE="zsh_complete", COMP_WORDS="foretold do", COMP_CWORD="1")

    assert told.out.split("\n")[:3] == ["plain", "doctor", "Check the whole set-up and say what to do."]


async def test_a_shell_without_completion_is_said_so(tmp_path):
    ended = await run("completion", "powershell", home=tmp_path)

    assert ended.code == 2
    assert "there is no completion for 'powershell': there is one for bash, zsh, fish" in ended.err
