from __future__ import annotations

from pathlib import Path

import pytest

from foretold.deploy.modules import collect
from foretold.errors import ConfigError


def _write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_js", ".js")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "entry.js"


def test_all_that_the_entry_imports_is_collected_however_far(tmp_path):
    entry = _write(
        tmp_path,
        entry_js='import { a } from "./contract/a.js";\nexport * from "./b.js";\nimport "./c.js";\n',
        contract__a_js='import {\n  deep,\n  deeper,\n} from "./deep.js";\nexport const a = deep;\n',
        contract__deep_js="import b from '../b.js';\nexport const deep = b, deeper = 1;\n",
        b_js='export { default } from "./c.js";\n',
        c_js="export default 1;\n",
        unused_js="throw new Error();\n",
    )

    modules = collect(entry)

    assert [m.name for m in modules] == ["entry.js", "b.js", "c.js", "contract/a.js", "contract/deep.js"]
    assert {m.content_type for m in modules} == {"application/javascript+module"}


def test_modules_that_import_each_other_are_collected_once(tmp_path):
    entry = _write(tmp_path, entry_js='import "./b.js";\n', b_js='import "./entry.js";\n')

    assert [m.name for m in collect(entry)] == ["entry.js", "b.js"]


def test_parts_of_the_runtime_are_no_files(tmp_path):
    entry = _write(tmp_path, entry_js='import { WorkerEntrypoint } from "cloudflare:workers";\nimport "node:buffer";\n')

    assert len(collect(entry)) == 1


def test_a_late_import_is_collected_and_one_in_a_comment_is_not(tmp_path):
    entry = _write(
        tmp_path,
        entry_js='const later = () => import("./b.js");\n// import("./gone.js")\n/**\n * @type {import("./gone.js").T}\n */\n',
        b_js="",
    )

    assert [m.name for m in collect(entry)] == ["entry.js", "b.js"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('import "./gone.js";\n', "entry.js imports 'gone.js', which can't be read: No such file"),
        ('import hono from "hono";\n', "imports 'hono': a Worker has no packages"),
        ('import "../outside.js";\n', "outside of the entry's folder"),
        ('import "./data.xml";\n', "Workers load .js"),
    ],
)
def test_what_a_worker_could_not_load_is_told_with_who_imports_it(tmp_path, text, says):
    (tmp_path / "w").mkdir()

    with pytest.raises(ConfigError, match=says):
        collect(_write(tmp_path / "w", entry_js=text))


def test_an_entry_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"the Worker's entry .*entry\.js can't be read"):
        collect(tmp_path / "entry.js")


def test_the_files_of_this_repositorys_worker_can_be_collected():
    for file in sorted((Path(__file__).parents[3] / "worker" / "src" / "contract").glob("*.js")):
        assert collect(file)[0].name == file.name
