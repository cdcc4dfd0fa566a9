"""plan, apply, status and destroy: the state is read, compared, changed step by step, and read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from foretold.deploy import rules
from foretold.deploy.account import Account
from foretold.deploy.changes import Changes, Permits, Step, changes, removals
from foretold.deploy.plan import Edge
from foretold.deploy.state import State
from foretold.errors import DeployError, DeployTaken

Tell = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    state: State
    changes: Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What other programs need of a deployment."""

    kv_namespace_id: str | None
    worker_script_name: str
    worker_route_pattern: str | None
    urls: tuple[str, ...]


def plan(account: Account, edge: Edge, permits: Permits) -> Planned:
    """What apply would do; nothing is written.  Raises DeployError."""
    account.check_token(edge)
    state = account.read(edge)
    return Planned(state=state, changes=changes(edge, state, permits))


def apply(account: Account, edge: Edge, permits: Permits, *, planned: Planned, tell: Tell) -> State:
    """Takes the steps in their order, reads again, and gives what is there now.

    An interruption anywhere leaves a state from which the next call goes on.  Raises DeployError.
    """
    refuse(planned.changes)
    kv_namespace_id = planned.state.kv_namespace_id
    for step in planned.changes.steps:
        tell(step)
        kv_namespace_id = account.take(step, edge, planned.changes, kv_namespace_id=kv_namespace_id) or kv_namespace_id
    if not planned.changes.steps:
        return planned.state
    state = account.read(edge)
    left = changes(edge, state, permits).steps
    if left:
        named = ", ".join(f"{step.kind} {step.name} ({'; '.join(step.why) or step.does})" for step in left)
        raise DeployError(f"all was sent, yet the account still shows something else: {named}; run `plan` in a minute")
    return state


def refuse(planned: Changes) -> None:
    """Raises DeployTaken if something of it belongs to somebody else."""
    if planned.refused:
        raise DeployTaken("nothing was changed:\n    " + "\n    ".join(planned.refused))


def plan_removal(account: Account, edge: Edge, *, keep_data: bool) -> Planned:
    """What destroy would do; nothing is written.  Raises DeployError."""
    account.check_token(edge)
    state = account.read(edge)
    of_kv, of_buckets = account.users(edge, state)
    state = replace(state, kv_users=of_kv, bucket_users=of_buckets)
    return Planned(state=state, changes=removals(edge, state, keep_data=keep_data))


def destroy(account: Account, edge: Edge, *, planned: Planned, with_answers: bool, tell: Tell) -> None:
    """Takes the steps of a removal.  A bucket that holds objects is refused by R2 unless `with_answers`."""
    refuse(planned.changes)
    for step in planned.changes.steps:
        tell(step)
        if step.kind == "bucket" and with_answers:
            for key in account.objects(step.name):
                account.remove_object(step.name, key)
        account.take(step, edge, planned.changes, kv_namespace_id=None)


def outputs(edge: Edge, state: State) -> Outputs:
    script = edge.script.name
    urls = []
    if edge.domain is not None:
        urls.append(f"https://{edge.domain.hostname}")
    if edge.route is not None and not rules.misses_its_own_host(edge.route.pattern):
        urls.append(f"https://{rules.pattern_host(edge.route.pattern)}")
    if edge.workers_dev and state.workers_dev_subdomain:
        urls.append(f"https://{script}.{state.workers_dev_subdomain}.workers.dev")
    return Outputs(
        kv_namespace_id=state.kv_namespace_id,
        worker_script_name=script,
        worker_route_pattern=edge.route.pattern if edge.route else None,
        urls=tuple(urls),
    )
