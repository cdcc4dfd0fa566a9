"""Every setting: its name, how it is read, its default, and one sentence.

The reference page, `foretold config example` and the check for unknown names all come from these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foretold.config import values as v
from foretold.config.languages import languages
from foretold.config.models import ModelSettings, Pool
from foretold.config.tables import NO_DEFAULT, setting, table, tables


@dataclass(frozen=True, kw_only=True)
class Server:
    host: str = setting(
        v.text,
        "127.0.0.1",
        "the address to listen on; beyond loopback only with API keys, or open",
        shown='"127.0.0.1"',
    )
    port: int = setting(v.number(0, 65535), 3673, "the port; 0 takes any free one", shown="3673")
    open: bool = setting(v.flag, False, "lets everybody on the network ask without an API key", shown="false")
    hosts: tuple[str, ...] = setting(
        v.texts, (), "names by which clients may call this node, beside loopback's", shown='["node.example"]'
    )
    allowed_origins: tuple[str, ...] = setting(v.texts, (), "web pages that may call", shown='["https://app.example"]')
    body_limit: int = setting(v.size(least_bytes=1024), 20 * 2**20, "the longest request body taken", shown='"20 MiB"')
    bodies_together: int = setting(
        v.size(least_bytes=1024), 256 * 2**20, "all request bodies in memory at once", shown='"256 MiB"'
    )
    body_timeout: float = setting(
        v.duration(least_s=0.1, most_s=3600), 60.0, "how long a request body may take to come", shown='"60s"'
    )
    head_timeout: float = setting(
        v.duration(least_s=0.1, most_s=600), 10.0, "how long a request head may take to come", shown='"10s"'
    )
    write_timeout: float = setting(
        v.duration(least_s=0.1, most_s=3600),
        30.0,
        "how long a caller may take nothing of an answer that waits for it",
        shown='"30s"',
    )
    keep_alive: float = setting(
        v.duration(least_s=0, most_s=600), 5.0, "how long an idle connection is kept", shown='"5s"'
    )
    connections: int = setting(
        v.number(1, 100_000), 4096, "connections at once; more are told to come later", shown="4096"
    )
    workers: int = setting(
        v.number(1, 64), 1, "processes that answer, about one for each core; limits hold for all together", shown="1"
    )
    drain: float = setting(
        v.duration(most_s=3600), 10.0, "how long running answers may take to end when the node stops", shown='"10s"'
    )


@dataclass(frozen=True, kw_only=True)
class Cache:
    fresh: int = setting(v.lifetime, 86_400, "how long an answer is given without asking again", shown='"24h"')
    stale_while_revalidate: int = setting(
        v.lifetime,
        86_400,
        "then, how long it may be given while a new one is fetched",
        shown='"24h"',
    )
    stale_if_error: int = setting(
        v.lifetime, 604_800, "how long past its freshness it may be given when its origin fails", shown='"7d"'
    )
    record_limit: int = setting(
        v.size(least_bytes=1024, most_bytes=8 * 2**20),
        8 * 2**20,
        "the longest record kept, at most 8 MiB",
        shown='"8 MiB"',
    )
    tenant_share: int | None = setting(
        v.number(1, 100),
        None,
        "percent of the memory tier that one tenant's answers may hold, and of the disk tier that they may write a day; "
        "without it 50 where API keys of several tenants are set, else 100",
        shown="50",
    )


@dataclass(frozen=True, kw_only=True)
class TierSettings:
    store: str = setting(
        v.choice("memory", "disk", "cloudflare_kv"),
        NO_DEFAULT,
        "where: memory comes first, then disk, then the KV that edges share",
        shown='"memory"',
    )
    limit: int | None = setting(
        v.size(least_bytes=2**20),
        None,
        "memory and disk: how many bytes it may hold, its own overhead counted; always given",
        shown='"256 MiB"',
    )
    account_id: str = setting(
        v.maybe_text, "", "cloudflare_kv: the account", shown='"023e105f4ecef8ad9ca31a8372d0c353"'
    )
    namespace_id: str = setting(
        v.maybe_text,
        "",
        "cloudflare_kv: the KV namespace, as `foretold deploy cloudflare status` tells it",
        shown='"0f2ac74b498b48028cb68387c421e279"',
    )
    token: v.Secret | None = setting(
        v.secret,
        None,
        "cloudflare_kv: a token of Cloudflare that may edit Workers KV Storage",
        shown='{ env = "CLOUDFLARE_API_TOKEN" }',
    )
    url: str = setting(
        v.address,
        "https://api.cloudflare.com/client/v4",
        "cloudflare_kv: where Cloudflare's API is; `foretold edge dev` has one on this machine",
        shown='"https://api.cloudflare.com/client/v4"',
    )
    deadline: float = setting(
        v.duration(least_s=0.01, most_s=10), 0.5, "cloudflare_kv: how long a look-up may take", shown='"500ms"'
    )
    read_purges: float = setting(
        v.duration(least_s=0.1, most_s=30), 20.0, "cloudflare_kv: how often the edges' purges are read", shown='"20s"'
    )
    believe_purges: float = setting(
        v.duration(least_s=1),
        90.0,
        "cloudflare_kv: how long those are believed while KV can't be read; then nothing kept is given",
        shown='"90s"',
    )


@dataclass(frozen=True, kw_only=True)
class UpstreamSettings:
    name: str
    url: str = setting(
        v.address,
        NO_DEFAULT,
        "its base address, for OpenAI-compatible services up to /v1",
        shown='"https://api.openai.com/v1"',
    )
    speaks: str = setting(v.choice("openai", "json"), "openai", "its protocol", shown='"openai"')
    key: v.Secret | None = setting(
        v.secret,
        None,
        "the credential it gets where a route doesn't pass the caller's",
        shown='{ env = "OPENAI_API_KEY" }',
    )
    headers: tuple[tuple[str, str | v.Secret], ...] = setting(
        v.headers, (), "headers sent with every request to it", shown='{ x-team = "web" }'
    )
    connect_timeout: float = setting(
        v.duration(least_s=0.01, most_s=300), 3.0, "how long connecting may take", shown='"3s"'
    )
    first_byte_timeout: float = setting(
        v.duration(least_s=0.01, most_s=3600), 120.0, "how long the head of an answer may take", shown='"120s"'
    )
    idle_timeout: float = setting(
        v.duration(least_s=0.01, most_s=3600), 60.0, "the longest pause within an answer", shown='"60s"'
    )
    total_timeout: float = setting(
        v.duration(least_s=0.01, most_s=86_400), 600.0, "how long a whole answer may take", shown='"600s"'
    )
    retries: int = setting(v.number(0, 2), 2, "how often a failed request is tried again", shown="2")
    connections: int = setting(v.number(1, 10_000), 256, "connections to it at once", shown="256")


@dataclass(frozen=True, kw_only=True)
class Library:
    trusted: tuple[str, ...] = setting(
        v.public_keys,
        (),
        "public keys: a manifest that one of them signed may be run, where no revision is pinned",
        shown='["ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]',
    )
    cache_limit: int = setting(
        v.size(least_bytes=2**20),
        64 * 2**30,
        "how many bytes of weights this machine keeps; what was used longest ago goes, never what is in use",
        shown='"64 GiB"',
    )
    credentials: str = setting(
        v.choice("keys", "machine", "none"),
        "keys",
        "what stores are asked with: access keys, what the cloud gives this machine, or nothing",
        shown='"keys"',
    )
    access_key: v.Secret | None = setting(
        v.secret, None, "the access key's id; else AWS_ACCESS_KEY_ID", shown='{ env = "AWS_ACCESS_KEY_ID" }'
    )
    secret_key: v.Secret | None = setting(
        v.secret, None, "the access key's secret; else AWS_SECRET_ACCESS_KEY", shown='{ env = "AWS_SECRET_ACCESS_KEY" }'
    )
    region: str = setting(
        v.maybe_text, "", "of s3://; else AWS_REGION, else us-east-1.  For r2:// it is auto", shown='"eu-central-1"'
    )
    endpoint: str = setting(
        v.maybe_address,
        "",
        "where s3:// answers, if that is not AWS; else AWS_ENDPOINT_URL",
        shown='"http://127.0.0.1:8333"',
    )
    r2_endpoint: str = setting(
        v.maybe_address,
        "",
        "where r2:// answers, if not at ACCOUNT.r2.cloudflarestorage.com",
        shown='"https://ACCOUNT.eu.r2.cloudflarestorage.com"',
    )


@dataclass(frozen=True, kw_only=True)
class RouteSettings:
    name: str = setting(v.text, NO_DEFAULT, "what it is called in counts and records", shown='"chat"')
    kind: str = setting(
        v.choice("model", "json", "get"),
        "model",
        "what it takes: queries by model name, or one path of JSON or GET requests",
        shown='"model"',
    )
    models: tuple[str, ...] = setting(v.texts, (), "names of models it takes, * stands for anything", shown='["gpt-*"]')
    path: str = setting(
        v.route_path, "", "for json and get: the path it takes, * stands for anything", shown='"/classify"'
    )
    languages: tuple[str, ...] = setting(
        languages,
        (),
        "takes only questions in these languages, as far as the user's last message tells; needs the extra `languages`",
        shown='["vi", "th"]',
    )
    upstream: str = setting(v.text, "", "the upstream that answers", shown='"openai"')
    upstream_model: str = setting(
        v.text, "", "the model that the upstream is asked for, if it has another name there", shown='"gpt-4.1-mini"'
    )
    model: str = setting(v.text, "", "or the model of this node that answers", shown='"smollm2-135m"')
    fallback: tuple[str, ...] = setting(
        v.texts, (), "upstreams or models that answer, labelled, if it fails", shown='["smollm2-135m"]'
    )
    scope: str = setting(
        v.choice("credential", "shared"),
        "credential",
        "whose answers these are: each caller's own, or everybody's",
        shown='"credential"',
    )
    pass_credential: bool = setting(v.flag, False, "sends the caller's own credential to the upstream", shown="false")
    store: bool = setting(v.flag, True, "whether answers are kept at all", shown="true")
    admit: str = setting(
        v.choice("first", "second"),
        "first",
        "keeps an answer the first time it is asked for, or only if the same was asked for before",
        shown='"first"',
    )
    fresh: int | None = setting(v.lifetime, None, "as in [cache]", shown='"1h"')
    stale_while_revalidate: int | None = setting(v.lifetime, None, "as in [cache]", shown='"1h"')
    stale_if_error: int | None = setting(v.lifetime, None, "as in [cache]", shown='"1d"')
    respect_upstream: bool | None = setting(
        v.flag, None, "obeys the upstream's Cache-Control; by default for json and get", shown="true"
    )
    revision: str = setting(
        v.text, "", "part of every key: change it when the model behind a name changes", shown='"2026-11"'
    )
    ask_usage: bool = setting(
        v.flag, True, "asks streamed answers for token counts, and withholds them from who didn't ask", shown="true"
    )
    finish_and_store: bool = setting(
        v.flag, False, "fetches an answer to its end though its callers have left", shown="false"
    )
    collapse: bool = setting(
        v.flag, True, "lets callers who ask the same at once share one call to the origin", shown="true"
    )
    keyed_headers: tuple[str, ...] = setting(
        v.keyed_headers, (), "further request headers that change the answer", shown='["x-tone"]'
    )
    inert_headers: tuple[str, ...] = setting(
        v.inert_headers, (), "further request headers that go along and change nothing", shown='["x-trace"]'
    )


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    tenant: str = setting(v.text, NO_DEFAULT, "whose key it is; keys of one tenant share answers", shown='"web"')
    sha256: str = setting(
        v.api_key_digest, NO_DEFAULT, "the digest of the key, from `foretold config api-key`", shown=f'"{"0" * 64}"'
    )


@dataclass(frozen=True, kw_only=True)
class Logs:
    queries: str = setting(
        v.choice("auto", "on", "off"),
        "auto",
        "a line for each query: auto while somebody watches in a terminal",
        shown='"auto"',
    )


@dataclass(frozen=True, kw_only=True)
class Config:
    mode: str = setting(
        v.choice("serve", "observe"),
        "serve",
        "serve answers repeats from the cache; observe asks every time, and counts what it would have answered",
        shown='"serve"',
    )
    data: str = setting(
        v.maybe_text,
        "",
        "the data folder; by default FORETOLD_HOME or the user's own",
        shown='"~/.local/share/foretold"',
    )
    undeclared: str = setting(
        v.maybe_text,
        "",
        'the upstream that unknown paths pass to; by default the only one that speaks openai, "off" for none',
        shown='"openai"',
    )
    server: Server = table(Server, "how the node listens")
    cache: Cache = table(Cache, "how long answers are good")
    tiers: tuple[TierSettings, ...] = tables(
        TierSettings, "where answers are kept, looked up in this order", named=False
    )
    upstreams: tuple[UpstreamSettings, ...] = tables(UpstreamSettings, "services that answer over HTTP", named=True)
    models: tuple[ModelSettings, ...] = tables(ModelSettings, "models that this node runs itself", named=True)
    pool: Pool = table(Pool, "how many of them are in memory together")
    library: Library = table(Library, "where models come from, and who vouches for them")
    routes: tuple[RouteSettings, ...] = tables(
        RouteSettings, "which queries go where: the first that matches answers", named=False
    )
    api_keys: tuple[ApiKey, ...] = tables(ApiKey, "who may ask; without any, whoever reaches the node", named=False)
    logs: Logs = table(Logs, "what is written down")
    file: Path | None = None
