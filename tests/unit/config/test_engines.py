"""Settings of models that a program or a function of whoever runs the node answers for."""

from __future__ import annotations

import pytest

from foretold.config import load
from foretold.config.example import shown
from foretold.errors import ConfigError
from foretold.models.configured import own_manifest, own_of
from foretold.models.manifest import SMOLLM2, revision

COMMAND = """
engine = "command"
command = ["llama-server", "--port", "{port}"]
revision = "one"
memory = "1 GiB"
context = 4096
"""
PYTHON = """
engine = "python"
callable = "answers:reply"
revision = "one"
memory = "1 GiB"
context = 4096
"""


def model(text: str, *more: str, without: str = ""):
    lines = [line for line in text.splitlines() if not (without and line.startswith(without))]
    return load("\n".join(["[models.m]", *lines, *more])).models[0]


@pytest.mark.parametrize("text", [COMMAND, PYTHON])
def test_what_the_settings_say_is_all_that_is_known_of_it(text):
    manifest = own_manifest(model(text, 'capabilities = ["chat", "tools"]', 'languages = ["vi"]', "parallel = 3"))

    assert (manifest.memory_bytes, manifest.context, manifest.parallel) == (2**30, 4096, 3)
    assert (manifest.capabilities, manifest.languages) == ({"chat", "tools"}, ("vi",))
    assert (manifest.files, manifest.size_bytes) == ((), 0)


def test_its_revision_is_in_the_key_and_so_is_what_limits_its_answers():
    one = revision(own_manifest(model(COMMAND)))

    assert one == revision(own_manifest(model(COMMAND, "parallel = 7", 'silence = "9 s"')))
    assert one != revision(own_manifest(model(COMMAND.replace('"one"', '"two"'))))
    assert one != revision(own_manifest(model(COMMAND, "max_tokens = 9")))
    assert one != revision(own_manifest(model(PYTHON)))


def test_the_revisions_of_models_with_files_are_what_they_were():
    assert revision(SMOLLM2).startswith("4ad9059dca79")


@pytest.mark.parametrize("text", [COMMAND, PYTHON])
@pytest.mark.parametrize("name", ["revision", "memory", "context"])
def test_what_has_to_be_said_is_asked_for_by_name(text, name):
    with pytest.raises(ConfigError, match=rf"models\.m: `{name}` is missing: "):
        model(text, without=name)


def test_a_command_and_a_callable_have_to_be_said():
    with pytest.raises(ConfigError, match="`command` is missing: the program that answers"):
        model(COMMAND, without="command")
    with pytest.raises(ConfigError, match="`callable` is missing: the function that answers"):
        model(PYTHON, without="callable")


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        (COMMAND, 'source = "s3://models/team"', "models.m.source: engine 'command' has none: it belongs to gguf"),
        (COMMAND, 'callable = "a:b"', "models.m.callable: engine 'command' has none: it belongs to python"),
        (COMMAND, "threads = 2", "models.m.threads: engine 'command' has none: it belongs to gguf"),
        (PYTHON, 'kv = "q8_0"', "models.m.kv: engine 'python' has none: it belongs to gguf"),
        (COMMAND, 'ready = "health"', "models.m.ready: is 'health': give a path, such as /health"),
        (PYTHON, 'ready = "/health"', "models.m.ready: engine 'python' has none: it belongs to command"),
        ("", 'memory = "1 GiB"', "models.m.memory: engine 'gguf' has none: it belongs to command and python"),
        ("", 'command = ["sh"]', "models.m.command: engine 'gguf' has none: it belongs to command"),
        (COMMAND, 'capabilities = ["tools"]', "give chat, completion, or both, and perhaps tools"),
        (COMMAND, 'capabilities = ["sing"]', "give chat, completion, or both, and perhaps tools"),
        (COMMAND, 'environment = { "A B" = "1" }', "'A B' is no name of a variable"),
        (COMMAND, "environment = { A = 1 }", "give a table of texts"),
        ("", 'engine = "echo"', 'give one of "gguf", "command", "python"'),
    ],
)
def test_what_does_not_belong_together_is_an_error_that_names_it(text, more, says):
    with pytest.raises(ConfigError) as wrong:
        model(text, more)

    assert says in str(wrong.value)


@pytest.mark.parametrize("words", ['["llama-server"]', '["a", "{port}", "{socket}"]', '["a", "{socket"]'])
def test_a_command_is_told_where_to_listen_in_one_way(words):
    with pytest.raises(ConfigError, match=r"models\.m\.command: where is it to listen\?"):
        model(COMMAND.replace('["llama-server", "--port", "{port}"]', words))


@pytest.mark.parametrize("name", ["answers", "answers:", ":reply", "a b:c", "a:b:c", "../a:b", "a-b:c"])
def test_a_callable_is_a_module_and_a_function_of_it(name):
    with pytest.raises(ConfigError, match="give a module and a function of it"):
        model(PYTHON.replace("answers:reply", name))


def test_secrets_for_a_program_come_from_outside_and_are_never_shown(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf-secret")
    config = load(f'[models.m]\n{COMMAND}\nenvironment = {{ HF_TOKEN = {{ env = "HF_TOKEN" }}, A = "1" }}')
    own = own_of(config.models[0])

    assert own is not None
    assert own.environment == (("HF_TOKEN", "hf-secret"), ("A", "1"))
    assert "hf-secret" not in repr(own)
    assert "hf-secret" not in str(shown(config))
    assert "hf-secret" not in repr(config)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('sleep = "500 ms"', 'give at least "1 s"'),
        ('sleep = "5 min"\nkeep_alive = "5 min"', "it is unloaded before it sleeps"),
        ('sleep = "5 min"\nkeep_alive = 0', "it is unloaded before it sleeps"),
    ],
)
def test_a_sleep_that_never_comes_is_an_error(more, says):
    with pytest.raises(ConfigError, match=rf"models\.m\.sleep: {says}"):
        model("", more)


def test_a_model_sleeps_before_it_is_unloaded_or_without_ever_being_unloaded():
    assert model("", 'sleep = "1 min"\nkeep_alive = "5 min"').sleep == 60
    assert model("", 'sleep = "1 min"').sleep == 60
    assert model("", "keep_alive = 0").sleep == 0
