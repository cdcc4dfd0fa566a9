"""From what should be and what is to the steps between: pure, and empty where nothing is to be done.

What belongs to somebody else is never changed unless a permit names it; what is refused says who has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from foretold.deploy import rules
from foretold.deploy.plan import Edge, Route, is_ours, lifecycle_rules, version_tag, wire_bindings
from foretold.deploy.state import Dns, FoundScript, State

# Bindings whose value the API never tells: what we don't set ourselves is taken over from the version before.
SECRET_KINDS = frozenset({"secret_text", "secret_key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Permits:
    """What the caller has said may happen to things of others, or to things no longer described."""

    replace_script: bool = False
    take_route: bool = False
    take_domain: bool = False
    detach: bool = False
    drop_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write.  `does` is create, upload, change or remove; `ref` is the id of what is changed or removed."""

    does: str
    kind: str
    name: str
    why: tuple[str, ...] = ()
    ref: str = ""
    zone_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """`inherited` are the secrets that the next version takes over."""

    steps: tuple[Step, ...]
    refused: tuple[str, ...]
    notes: tuple[str, ...]
    inherited: tuple[str, ...]


def changes(edge: Edge, state: State, permits: Permits) -> Changes:
    inherited = _inherited(edge, state.script, permits)
    refused = [*_refused(edge, state, permits)]
    steps = [
        *_store_steps(edge, state),
        *_script_steps(edge, state, inherited),
        *_reach_steps(edge, state, permits),
    ]
    notes = [*_notes(edge, state, permits, inherited)]
    return Changes(steps=tuple(steps), refused=tuple(refused), notes=tuple(notes), inherited=inherited)


def removals(edge: Edge, state: State, *, keep_data: bool) -> Changes:
    """Everything of the description that is there, what others use left out and noted."""
    script = edge.script
    steps: list[Step] = []
    notes: list[str] = []
    refused: list[str] = []
    steps += [
        Step(does="remove", kind="route", name=r.pattern, ref=r.id, zone_id=r.zone_id)
        for r in state.routes
        if r.script == script.name
    ]
    steps += [
        Step(does="remove", kind="domain", name=d.hostname, ref=d.id) for d in state.domains if d.script == script.name
    ]
    if state.script is not None:
        if is_ours(state.script.tags):
            steps.append(Step(does="remove", kind="script", name=script.name))
        else:
            refused.append(f"the Worker {script.name!r} was not deployed by this program: remove it by hand")
            steps.clear()
    kept = [("kv", script.kv.title, state.kv_namespace_id, state.kv_users)]
    kept += [("bucket", b.name, b.name, state.bucket_users.get(b.name, ())) for b in state.buckets]
    for kind, name, ref, users in kept:
        if ref is None:
            continue
        if users:
            notes.append(f"{_KINDS[kind]} {name} stays: {', '.join(users)} uses it too")
        elif keep_data:
            notes.append(f"{_KINDS[kind]} {name} stays with its answers")
        else:
            steps.append(Step(does="remove", kind=kind, name=name, ref=ref))
    return Changes(steps=() if refused else tuple(steps), refused=tuple(refused), notes=tuple(notes), inherited=())


_KINDS = {"kv": "the KV namespace", "bucket": "the R2 bucket"}


def next_bindings(edge: Edge, inherited: tuple[str, ...], *, kv_namespace_id: str) -> list[dict[str, Any]]:
    """The whole list of the next version: what is left out of an upload is lost."""
    return wire_bindings(edge.script, kv_namespace_id=kv_namespace_id) + [
        {"type": "inherit", "name": name} for name in inherited
    ]


def _inherited(edge: Edge, found: FoundScript | None, permits: Permits) -> tuple[str, ...]:
    if found is None:
        return ()
    ours = {str(b["name"]) for b in wire_bindings(edge.script, kv_namespace_id="")}
    kept = {str(b["name"]) for b in found.bindings if b.get("type") in SECRET_KINDS}
    return tuple(sorted(kept - ours - set(permits.drop_secrets)))


def _refused(edge: Edge, state: State, permits: Permits) -> Iterator[str]:
    name = edge.script.name
    if state.script is not None and not is_ours(state.script.tags) and not permits.replace_script:
        yield (
            f"the account has a Worker {name!r} that this program did not deploy: choose another `name` in [worker], "
            "or replace its code with --replace-script (its secrets stay)"
        )
    for route in state.routes:
        if edge.route and route.pattern == edge.route.pattern and route.script != name and not permits.take_route:
            owner = f"belongs to the Worker {route.script!r}" if route.script else "keeps Workers away from its hosts"
            yield f"the route {route.pattern} {owner}: choose another pattern, or take it over with --take-route"
    for domain in state.domains:
        at_ours = edge.domain is not None and domain.hostname == edge.domain.hostname
        if at_ours and domain.script != name and not permits.take_domain:
            yield (
                f"the domain {domain.hostname} belongs to the Worker {domain.script!r}: choose another host, or take "
                "it over with --take-domain"
            )
    for zone_id, host in _hosts(edge):
        zone = state.zones.get(zone_id, "")
        if zone and host != zone and not host.endswith(f".{zone}"):
            yield f"{host} is not in the zone {zone} ({zone_id}): Cloudflare would never send its requests here"
    if edge.workers_dev and state.workers_dev_subdomain is None:
        yield (
            "`workers_dev` is on, but the account has no workers.dev subdomain yet: choose one once in the dashboard "
            "under Workers & Pages, or turn it off"
        )


def _store_steps(edge: Edge, state: State) -> Iterator[Step]:
    if state.kv_namespace_id is None:
        yield Step(does="create", kind="kv", name=edge.script.kv.title)
    for bucket in edge.script.buckets:
        found = state.bucket(bucket.name)
        if found is None:
            yield Step(does="create", kind="bucket", name=bucket.name)
        if found is None or not _has_rules(found.lifecycle, lifecycle_rules(bucket)):
            why = (f"objects are deleted after {bucket.expire_days} days",)
            yield Step(does="change", kind="lifecycle", name=bucket.name, why=why)


def _has_rules(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Others' rules, and what the API tells of a rule beyond what was set, don't count against us."""
    return all(any(_contains(rule, want) for rule in found) for want in wanted)


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_contains(found.get(k), v) for k, v in wanted.items())
    return bool(found == wanted)


def _script_steps(edge: Edge, state: State, inherited: tuple[str, ...]) -> Iterator[Step]:
    name, found = edge.script.name, state.script
    if found is None:
        yield Step(does="upload", kind="script", name=name, why=("it is not there yet",))
    else:
        why = tuple(_differences(edge, found, state, inherited))
        if why:
            yield Step(does="upload", kind="script", name=name, why=why)
    if found is None or (found.on_workers_dev, found.has_previews) != (edge.workers_dev, False):
        wanted = "on" if edge.workers_dev else "off"
        yield Step(does="change", kind="workers.dev", name=name, why=(f"{wanted}, without previews",), ref=wanted)


def _differences(edge: Edge, found: FoundScript, state: State, inherited: tuple[str, ...]) -> Iterator[str]:
    wanted_tag = version_tag(edge)
    if found.version_tag != wanted_tag:
        yield _what_parts(found.version_tag, wanted_tag)
    there = {str(b["name"]): b for b in found.bindings}
    kv_id = state.kv_namespace_id or "(not there yet)"
    wanted = {str(b["name"]): b for b in wire_bindings(edge.script, kv_namespace_id=kv_id)}
    for name in sorted(wanted.keys() - there.keys()):
        yield f"binding {name} is new"
    for name in sorted(wanted.keys() & there.keys()):
        if not _same(wanted[name], there[name]):
            yield f"binding {name} is another"
    for name in sorted(there.keys() - wanted.keys() - set(inherited)):
        yield f"binding {name} goes"


def _what_parts(found: str, wanted: str) -> str:
    if not found.startswith("foretold-"):
        return "the running version was made by somebody else"
    return "a secret has another value" if found.rsplit("-", 1)[0] == wanted.rsplit("-", 1)[0] else "its content is new"


def _same(wanted: dict[str, Any], there: dict[str, Any]) -> bool:
    """Of secrets only their kind can be seen; the API may tell more of a binding than was sent."""
    told = {k: v for k, v in wanted.items() if not (k == "text" and wanted["type"] in SECRET_KINDS)}
    return all(_plain(there.get(k)) == _plain(v) for k, v in told.items())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _reach_steps(edge: Edge, state: State, permits: Permits) -> Iterator[Step]:
    name = edge.script.name
    if edge.domain is not None:
        at = [d for d in state.domains if d.hostname == edge.domain.hostname]
        if not at or at[0].script != name:
            why = (f"taken over from {at[0].script}",) if at else ()
            yield Step(does="create", kind="domain", name=edge.domain.hostname, why=why)
    if edge.route is not None:
        there = [r for r in state.routes if r.pattern == edge.route.pattern]
        if not there:
            yield Step(does="create", kind="route", name=edge.route.pattern, zone_id=edge.route.zone_id)
        elif there[0].script != name:
            taken = f"taken over from {there[0].script or 'no Worker'}"
            zone_id = there[0].zone_id
            yield Step(
                does="change", kind="route", name=edge.route.pattern, why=(taken,), ref=there[0].id, zone_id=zone_id
            )
    if permits.detach:
        yield from no_longer_described(edge, state)


def no_longer_described(edge: Edge, state: State) -> Iterator[Step]:
    """The removals of this Worker's routes and domains that the description doesn't name."""
    name = edge.script.name
    for route in state.routes:
        if route.script == name and (edge.route is None or route.pattern != edge.route.pattern):
            yield Step(does="remove", kind="route", name=route.pattern, ref=route.id, zone_id=route.zone_id)
    for domain in state.domains:
        if domain.script == name and (edge.domain is None or domain.hostname != edge.domain.hostname):
            yield Step(does="remove", kind="domain", name=domain.hostname, ref=domain.id)


def _notes(edge: Edge, state: State, permits: Permits, inherited: tuple[str, ...]) -> Iterator[str]:
    if edge.route is not None:
        for said in rules.caught(edge.route.pattern):
            yield f"the route catches {said}" if not said.startswith("not ") else f"it does not catch {said[4:]}"
        yield from _dns_notes(edge.route, state)
        for other in _others_inside(edge, state):
            yield f"inside of it the route {other.pattern} goes to {other.script or 'no Worker'}: the narrower one wins"
        yield from _asset_notes(edge, edge.route.pattern)
    if not permits.detach:
        for left in no_longer_described(edge, state):
            yield f"the {left.kind} {left.name} still leads here, though edge.toml no longer names it: --detach removes it"
    given = {secret.name for secret in edge.script.secrets} | set(inherited)
    for name in edge.script.needs:
        if name not in given:
            yield f"the Worker has no {name}, and answers nothing without it: name it in `secrets`"
    if inherited:
        yield f"secrets set elsewhere stay as they are: {', '.join(inherited)} (--drop-secret NAME removes one)"


def _asset_notes(edge: Edge, pattern: str) -> Iterator[str]:
    if edge.script.assets is None or edge.domain is not None or edge.workers_dev:
        return
    host = rules.pattern_host(pattern)
    served = any(rules.pattern_matches(pattern, host=host, path=f.address) for f in edge.script.assets.files_served())
    if not served and not rules.misses_its_own_host(pattern):
        yield "no static file is on a path that the route catches: none of them is served"


def _dns_notes(route: Route, state: State) -> Iterator[str]:
    host, zone = rules.pattern_host(route.pattern), state.zones.get(route.zone_id)
    match state.dns:
        case Dns.NO_RECORD:
            yield f"{host} has no DNS record in the zone {zone}: add a proxied one, else no request comes here"
        case Dns.NOT_PROXIED:
            yield f"the DNS record of {host} is not proxied: turn the orange cloud on, else no request comes here"
        case Dns.UNREAD if zone:
            yield f"its hosts need a proxied DNS record in the zone {zone}, else no request comes here"


def _others_inside(edge: Edge, state: State) -> Iterator[Any]:
    assert edge.route is not None
    for other in state.routes:
        if other.script == edge.script.name or other.pattern == edge.route.pattern:
            continue
        path = other.pattern.rpartition("://")[2].partition("/")[2].rstrip("*")
        if rules.pattern_matches(edge.route.pattern, host=rules.pattern_host(other.pattern), path=f"/{path}"):
            yield other


def _hosts(edge: Edge) -> Iterator[tuple[str, str]]:
    if edge.route is not None:
        yield edge.route.zone_id, rules.pattern_host(edge.route.pattern)
    if edge.domain is not None:
        yield edge.domain.zone_id, edge.domain.hostname
