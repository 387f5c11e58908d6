"""The proxy for package managers: what it passes on, what it refuses and why, and the mirrors it knows."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from pytest_cloudbench.twin.network.outbound import Outbound, package_hosts


class Mirror(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = f"{self.path} {self.headers['Host']} {self.headers['Connection']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def mirror(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy():
    with contextlib.ExitStack() as undo:

        def start(*hosts):
            started = Outbound("127.0.0.1", None, hosts)
            undo.callback(started.close)
            return urlsplit(started.url)

        yield start


def ask(proxy, url):
    connection = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", url, headers={"Connection": "keep-alive"})
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.read().decode()


def test_a_request_to_an_allowed_host_is_passed_on_alone(mirror, proxy):
    status, _, body = ask(proxy("127.0.0.1"), f"http://127.0.0.1:{mirror}/debian/x?y=1")
    assert (status, body) == (200, f"/debian/x?y=1 127.0.0.1:{mirror} close")


def test_a_tunnel_leads_to_an_allowed_host(mirror, proxy):
    address = proxy("127.0.0.1")
    with socket.create_connection((address.hostname, address.port), timeout=10) as tunnel:
        tunnel.sendall(f"CONNECT 127.0.0.1:{mirror} HTTP/1.1\r\n\r\n".encode())
        assert tunnel.recv(100).startswith(b"HTTP/1.1 200")
        tunnel.sendall(b"GET /in HTTP/1.1\r\nHost: there\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: tunnel.recv(1000), b""))
    assert answer.endswith(b"/in there close")


def test_the_answer_arrives_after_the_client_has_ended_its_request(proxy):
    sent = os.urandom(1_000_000)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                if b"".join(iter(lambda: connection.recv(1000), b"")) == b"all of it":
                    connection.sendall(sent)

        threading.Thread(target=answer, daemon=True).start()
        address = proxy("127.0.0.1")
        with socket.create_connection((address.hostname, address.port), timeout=10) as tunnel:
            tunnel.sendall(f"CONNECT 127.0.0.1:{server.getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
            assert tunnel.recv(100).startswith(b"HTTP/1.1 200")
            tunnel.sendall(b"all of it")
            tunnel.shutdown(socket.SHUT_WR)
            assert b"".join(iter(lambda: tunnel.recv(100_000), b"")) == sent


@pytest.mark.parametrize(
    ("scheme", "request_line"),
    [("http", "GET http://mirror.example/x HTTP/1.1"), ("https", "CONNECT mirror.example:443 HTTP/1.1")],
)
@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        ("http://me:p%40ss@127.0.0.1:{}", [b"Proxy-Authorization: Basic bWU6cEBzcw=="]),
        ("http://127.0.0.1:{}", []),
    ],
)
def test_this_machines_proxy_gets_its_own_credentials(
    proxy, mirror, monkeypatch, scheme, request_line, parent, expected
):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv(f"{scheme}_proxy", parent.format(server.getsockname()[1]))
        address = proxy("mirror.example")
        with socket.create_connection((address.hostname, address.port), timeout=10) as client:
            client.sendall(f"{request_line}\r\nProxy-Authorization: Basic bm9uZQ==\r\n\r\n".encode())
            server.settimeout(10)
            connection, _ = server.accept()
            with connection:
                lines = connection.recv(1000).split(b"\r\n")
    assert lines[0] == request_line.encode()
    assert [line for line in lines if line.lower().startswith(b"proxy-authorization")] == expected


def test_an_allowed_host_leads_to_no_other_site(mirror, proxy):
    address = proxy("127.0.0.1")
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", f"http://127.0.0.1:{mirror}/x", headers={"Host": "elsewhere.example"})
        assert connection.getresponse().read() == f"/x 127.0.0.1:{mirror} close".encode()


def test_hosts_that_this_machine_reaches_without_its_proxy_are_reached_so(mirror, proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert ask(proxy("127.0.0.1"), f"http://127.0.0.1:{mirror}/x")[0] == 200
    monkeypatch.setenv("no_proxy", "elsewhere.example")
    assert ask(proxy("127.0.0.1"), f"http://127.0.0.1:{mirror}/x")[0] == 502


def test_names_of_hosts_are_compared_without_case_and_spaces(mirror, proxy):
    assert ask(proxy("other.example", " LocalHost "), f"http://localhost:{mirror}/x")[0] == 200


def test_a_port_that_cannot_be_is_refused(proxy):
    address = proxy("127.0.0.1")
    with socket.create_connection((address.hostname, address.port), timeout=10) as tunnel:
        tunnel.sendall(b"CONNECT 127.0.0.1:99999 HTTP/1.1\r\n\r\n")
        assert tunnel.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("hosts", [(), ("mirror.example",)])
def test_a_refusal_says_how_to_allow_the_host(mirror, proxy, hosts):
    status, reason, _ = ask(proxy(*hosts), f"http://127.0.0.1:{mirror}/")
    assert status == 403
    assert "cloudbench twin up --outbound" in reason
    assert all(host in reason for host in hosts)
    assert ("--outbound=127.0.0.1" in reason) == bool(hosts)


def test_a_host_that_does_not_answer_is_named(proxy):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    status, reason, _ = ask(proxy("127.0.0.1"), f"http://127.0.0.1:{port}/")
    assert status == 502
    assert str(port) in reason


@pytest.mark.parametrize("request_line", [b"GET /x HTTP/1.1", b"GET file:///etc/passwd HTTP/1.1", b"hello"])
def test_what_is_no_request_to_a_proxy_is_refused(proxy, request_line):
    address = proxy("127.0.0.1")
    with socket.create_connection((address.hostname, address.port), timeout=10) as client:
        client.sendall(request_line + b"\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_mirrors_are_read_from_the_machines_configuration(tmp_path):
    (tmp_path / "etc/yum.repos.d").mkdir(parents=True)
    (tmp_path / "etc/yum.repos.d/base.repo").write_text(
        "[base]\nbaseurl=https://rpm.example/$releasever/\n  http://rpm2.example/\n[off]\nenabled=0\n"
        "baseurl=https://off.example/\n[list]\nmetalink=https://list.example/metalink?repo=x\n"
    )
    (tmp_path / "etc/pip.conf").write_text("[global]\nindex-url = https://user:secret@pip.example/simple\n")
    found = package_hosts(tmp_path, {"PIP_EXTRA_INDEX_URL": "https://extra.example/simple"})
    assert {"rpm.example", "rpm2.example", "list.example", "pip.example", "extra.example"} <= found
    assert "off.example" not in found


def test_an_apt_that_does_not_answer_is_named(monkeypatch, tmp_path):
    def hang(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(RuntimeError, match=r"apt-get indextargets.* within \d+ s"):
        package_hosts(tmp_path, {})
