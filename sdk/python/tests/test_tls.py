"""Secured connections."""

from __future__ import annotations

from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from patchboard import TLS, Client, Unavailable, _proto


def test_tls_with_a_certificate_of_our_own(tmp_path: Path) -> None:
    authority = trustme.CA()
    shown = authority.issue_cert("bridge.test")
    ours = authority.issue_cert("client.test")
    authority_pem = authority.cert_pem.bytes()
    seen: list[dict[str, Any]] = []

    def ping(_request: Any, context: Any) -> Any:
        seen.append(dict(context.invocation_metadata()))
        return _proto.PingResponse(message="secured")

    server = grpc.server(futures.ThreadPoolExecutor(2))
    request, response, _, _ = _proto.METHODS["Ping"]
    handler = grpc.unary_unary_rpc_method_handler(ping, request.FromString, response.SerializeToString)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_proto.SERVICE, {"Ping": handler}),))
    pair = (shown.private_key_pem.bytes(), shown.cert_chain_pems[0].bytes())
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([pair], authority_pem, require_client_auth=True)
    )
    server.start()
    file = tmp_path / "authority.pem"
    file.write_bytes(authority_pem)
    try:
        tls = TLS(str(file), ours.cert_chain_pems[0].bytes(), ours.private_key_pem.bytes().decode(), "bridge.test")
        client = Client(f"127.0.0.1:{port}", tls=tls, token="secret")
        assert client.ping() == "secured"
        assert seen[0]["authorization"] == "Bearer secret"
        assert "secret" not in repr(client._connection)
        client.close()
        for wrong in (True, TLS(str(file), server_name="bridge.test"), TLS(str(file))):
            client = Client(f"127.0.0.1:{port}", tls=wrong, timeout=10)
            with pytest.raises(Unavailable):
                client.ping()
            client.close()
    finally:
        server.stop(0).wait()
