"""What people put in front of a model today, each as a cache of POST by path and body, as fast as it can be set."""

from __future__ import annotations

from pathlib import Path

from servers import SERVER_CORE, Server, free_port

_NGINX = """
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log crit; user root;
events {{ worker_connections 8192; }}
http {{
  access_log off; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 600s;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  proxy_cache_path {folder}/cache levels=1:2 keys_zone=answers:64m max_size=8g inactive=24h use_temp_path=off;
  open_file_cache max=10000 inactive=60s; open_file_cache_valid 60s;
  upstream model {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    client_body_buffer_size 1m; client_max_body_size 1m;
    location / {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_cache answers; proxy_cache_methods POST; proxy_cache_key $request_uri$http_authorization$request_body;
      proxy_cache_valid 200 24h; proxy_ignore_headers Cache-Control Expires Set-Cookie Vary X-Accel-Expires;
      proxy_cache_lock on; proxy_cache_lock_timeout 30s; proxy_cache_lock_age 30s;
    }}
  }}
}}
"""

_VARNISH = """
vcl 4.1;
import std;
import bodyaccess;
backend model {{ .host = "{host}"; .port = "{upstream_port}"; .max_connections = 1000; }}
sub vcl_recv {{
  if (req.method == "POST") {{
    if (!std.cache_req_body(1MB)) {{ return (pass); }}
    set req.http.x-body = bodyaccess.len_req_body();
    return (hash);
  }}
}}
sub vcl_hash {{ if (req.http.x-body) {{ bodyaccess.hash_req_body(); hash_data(req.http.authorization); }} }}
sub vcl_backend_fetch {{ if (bereq.http.x-body) {{ set bereq.method = "POST"; }} }}
sub vcl_backend_response {{
  unset beresp.http.cache-control; unset beresp.http.set-cookie; unset beresp.http.vary;
  set beresp.ttl = 24h; set beresp.grace = 0s;
}}
"""


def nginx(upstream: str, folder: Path) -> Server:
    here, port = folder / "nginx", free_port()
    here.mkdir()
    settings = here / "nginx.conf"
    settings.write_text(_NGINX.format(folder=here, port=port, upstream=upstream.removeprefix("http://")))
    command = ["nginx", "-p", str(here), "-c", str(settings), "-e", str(here / "start.log")]
    return Server("nginx", command, here, core=SERVER_CORE, url=f"http://127.0.0.1:{port}")


def varnish(upstream: str, folder: Path) -> Server:
    here, port = folder / "varnish", free_port()
    here.mkdir()
    host, _, upstream_port = upstream.removeprefix("http://").partition(":")
    settings = here / "model.vcl"
    settings.write_text(_VARNISH.format(host=host, upstream_port=upstream_port))
    listen = ["-a", f"127.0.0.1:{port}", "-s", "malloc,4G", "-p", "vsl_mask=-VCL_call", "-p", "listen_depth=4096"]
    command = ["varnishd", "-F", "-n", str(here / "n"), "-f", str(settings), *listen]
    return Server("varnish", command, here, core=SERVER_CORE, url=f"http://127.0.0.1:{port}")
