"""How a deployment is told: plans, outputs and states, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from foretold.deploy.applying import Outputs, Planned, outputs
from foretold.deploy.changes import Changes, Step
from foretold.deploy.cost import Estimate
from foretold.deploy.plan import Edge, is_ours, version_tag
from foretold.deploy.probing import Seen
from foretold.deploy.proving import Proof
from foretold.deploy.state import State
from foretold.deploy.tailing import Run

_KINDS = {
    "kv": "KV namespace",
    "bucket": "R2 bucket",
    "lifecycle": "R2 lifecycle",
    "script": "Worker",
    "workers.dev": "workers.dev",
    "route": "route",
    "domain": "domain",
}


def told_plan(edge: Edge, planned: Planned, estimate: Estimate, *, as_json: bool) -> str:
    changes = planned.changes
    if as_json:
        return _json(
            {
                "account_id": edge.account_id,
                "version": version_tag(edge),
                "steps": [_plain(step) for step in changes.steps],
                "refused": changes.refused,
                "notes": changes.notes,
                "cost": asdict(estimate),
            }
        )
    return "\n".join(_plan_lines(edge, changes, estimate))


def _plan_lines(edge: Edge, changes: Changes, estimate: Estimate) -> Iterator[str]:
    yield f"Account {edge.account_id}"
    yield ""
    if changes.steps:
        yield from (_line(step) for step in changes.steps)
    else:
        yield "  no change: the account has all that is described"
    for said in changes.refused:
        yield f"  REFUSED {said}"
    if changes.notes:
        yield ""
        yield from (f"  note: {note}" for note in changes.notes)
    yield ""
    yield f"  For a million requests, prices of {estimate.prices_of}, without the model's own:"
    for row in estimate.rows:
        yield f"    {row.hits_percent:3} % hits  ${row.dollars:.2f}"
    yield f"  and ${estimate.monthly_dollars:g} a month for the paid plan. Free plan: {estimate.free_plan}."


def _line(step: Step) -> str:
    why = f"  ({'; '.join(step.why)})" if step.why else ""
    return f"  {step.does:<7} {_KINDS[step.kind]:<13} {step.name}{why}"


def told_outputs(made: Outputs, *, steps: Sequence[Step], proof: Proof | None, as_json: bool) -> str:
    if as_json:
        trial = {**asdict(proof), "parts": dict(proof.parts)} if proof else None
        return _json(
            {**asdict(made), "changed": bool(steps), "steps": [_plain(step) for step in steps], "trial": trial}
        )
    lines = ["no change" if not steps else f"{len(steps)} steps taken, and the account shows them", ""]
    lines += [
        f"kv_namespace_id\t{made.kv_namespace_id}",
        f"worker_script_name\t{made.worker_script_name}",
        f"worker_route_pattern\t{made.worker_route_pattern or '-'}",
        *(f"url\t{url}" for url in made.urls),
    ]
    if proof is not None:
        lines += ["", *_proof_lines(proof)]
    return "\n".join(lines)


def _proof_lines(proof: Proof) -> Iterator[str]:
    if proof.parts:
        yield f"self-test\t{', '.join(f'{name} {said}' for name, said in proof.parts)}"
    if proof.files:
        yield f"files\t{proof.files} looked at"
    yield from (_seen_line(one) for one in proof.seen)
    yield from (f"not tried\t{why}" for why in proof.untried)
    yield from (f"WRONG\t{said}" for said in proof.wrong)


def _seen_line(one: Seen) -> str:
    return f"{one.how.upper()}\t{one.took_ms} ms\t{one.cache_status}"


def told_status(edge: Edge, state: State, *, as_json: bool) -> str:
    found = state.script
    ours = is_ours(found.tags) if found else None
    if as_json:
        told = asdict(outputs(edge, state))
        return _json(
            {
                **told,
                "deployed": found is not None,
                "ours": ours,
                "version": found.version_tag if found else None,
                "bindings": sorted(str(b["name"]) for b in found.bindings) if found else [],
                "buckets": [bucket.name for bucket in state.buckets],
                "routes": [r.pattern for r in state.routes if r.script == edge.script.name],
                "domains": [d.hostname for d in state.domains if d.script == edge.script.name],
                "on_workers_dev": found.on_workers_dev if found else False,
            }
        )
    return "\n".join(_status_lines(edge, state))


def _status_lines(edge: Edge, state: State) -> Iterator[str]:
    found, name = state.script, edge.script.name
    yield f"KV namespace\t{edge.script.kv.title}\t{state.kv_namespace_id or 'not there'}"
    for bucket in edge.script.buckets:
        yield f"R2 bucket\t{bucket.name}\t{'there' if state.bucket(bucket.name) else 'not there'}"
    if found is None:
        yield f"Worker\t{name}\tnot there"
    else:
        whose = found.version_tag or "a version that somebody else made"
        yield f"Worker\t{name}\t{whose if is_ours(found.tags) else 'deployed by somebody else'}"
        yield f"bindings\t{', '.join(sorted(str(b['name']) for b in found.bindings)) or '-'}"
        yield f"workers.dev\t{'on' if found.on_workers_dev else 'off'}"
    yield from (f"route\t{r.pattern}" for r in state.routes if r.script == name)
    yield from (f"domain\t{d.hostname}" for d in state.domains if d.script == name)


def told_tries(seen: Sequence[Seen], *, as_json: bool) -> str:
    if as_json:
        return _json([asdict(one) for one in seen])
    lines = [_seen_line(one) for one in seen]
    if seen[-1].how != "hit":
        lines.append(f"no hit in {len(seen)} tries: Cache-Status says why, in its detail")
    return "\n".join(lines)


def told_run(run: Run, *, as_json: bool) -> str:
    """One line, with a line below for each thing said; as JSON one line in all."""
    if as_json:
        return json.dumps(asdict(run))
    outcome = "" if run.outcome == "ok" else f"  {run.outcome}"
    lines = [f"{run.at}  {run.status or '-'}  {run.what}{outcome}"]
    return "\n".join([*lines, *(f"    {said}" for said in (*run.said, *run.faults))])


def told_removal(changes: Changes) -> str:
    return "\n".join([*(_line(step) for step in changes.steps), *(f"  note: {note}" for note in changes.notes)])


def told_removed(changes: Changes, *, as_json: bool) -> str:
    if as_json:
        return _json({"removed": [_plain(step) for step in changes.steps], "notes": changes.notes})
    if not changes.steps:
        return "nothing to remove"
    return "\n".join([f"{len(changes.steps)} removed", *(f"note: {note}" for note in changes.notes)])


def _plain(step: Step) -> dict[str, Any]:
    return {"does": step.does, "kind": step.kind, "name": step.name, "why": list(step.why)}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2)
