"""Runs a Pulumi program under Pulumi's own mocks, in a process of its own: pulumi_program.py PROGRAM CONFIG_JSON

Prints one JSON document: the resources in the order they were made, with their inputs as a provider would get them, and
what the program exports.  Whatever is secret stands as {"secret": value}.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc
from pulumi.runtime.stack import wait_for_rpcs

made: list[dict[str, Any]] = []


class Recorder(pulumi.runtime.Mocks):
    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        return f"id-of-{args.name}", dict(args.inputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        raise AssertionError(f"no call is made: {args.token}")


class Monitor(mocks.MockMonitor):
    """Looks at what is registered before the mocks unwrap what is secret."""

    def RegisterResource(self, request: Any) -> Any:
        if request.custom:
            inputs = rpc.deserialize_properties(request.object, keep_unknowns=False)
            made.append(
                {
                    "type": request.type,
                    "name": request.name,
                    "inputs": _plain(inputs),
                    "after": sorted(urn.rpartition("::")[2] for urn in request.dependencies),
                    "inside": request.parent.rpartition("::")[2],
                }
            )
        return super().RegisterResource(request)


def _plain(value: Any) -> Any:
    if rpc.is_rpc_secret(value):
        return {"secret": _plain(rpc.unwrap_rpc_secret(value))}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, float) and value.is_integer():
        # On their way all numbers are fractions.
        return int(value)
    return [_plain(v) for v in value] if isinstance(value, list) else value


async def run(program: str) -> dict[str, Any]:
    """What the program exports."""
    runpy.run_path(program, run_name="__main__")
    await wait_for_rpcs()
    stack = pulumi.runtime.get_root_resource()
    assert stack is not None
    exported = {}
    for name, output in stack.outputs.items():
        value = await pulumi.Output.from_input(output).future()
        is_secret = await pulumi.Output.from_input(output).is_secret()
        exported[name] = {"secret": value} if is_secret else value
    return exported


def main() -> None:
    program, config = sys.argv[1], json.loads(sys.argv[2])
    pulumi.runtime.set_mocks(Recorder(), project="foretold-edge", stack="test", monitor=Monitor(Recorder()))
    pulumi.runtime.set_all_config(
        {f"foretold-edge:{name}": value for name, value in config["config"].items()},
        [f"foretold-edge:{name}" for name in config.get("secret", [])],
    )
    exported = asyncio.get_event_loop().run_until_complete(asyncio.wait_for(run(program), 60))
    print(json.dumps({"resources": made, "exports": exported}), flush=True)


if __name__ == "__main__":
    main()
