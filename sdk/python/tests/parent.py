"""A stand-in for the server, from the contract: what a worker sees of it, and enough host tools to call back."""

from __future__ import annotations

import fnmatch
import json
import threading
import time
from concurrent import futures
from typing import Any

import grpc

from patchboard import _proto, _values


class Parent:
    """Serves on a loopback port. Everything it is asked is kept in `seen`, with the headers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any, dict[str, str]]] = []
        self.changed = threading.Condition()
        self.variables: dict[str, dict[str, Any]] = {}
        self.changes: list[dict[str, Any]] = []
        self.release = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(16), options=_proto.MESSAGE_SIZE_OPTIONS)
        handlers = {}
        for rpc, (request, response, client_streams, server_streams) in _proto.METHODS.items():
            function = getattr(self, rpc, None)
            if function is not None:
                kind = f"{'stream' if client_streams else 'unary'}_{'stream' if server_streams else 'unary'}"
                handlers[rpc] = getattr(grpc, f"{kind}_rpc_method_handler")(
                    self._noted(rpc, function),
                    request_deserializer=request.FromString,
                    response_serializer=response.SerializeToString,
                )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_proto.SERVICE, handlers),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{self.port}"
        self._server.start()

    def close(self) -> None:
        self.release.set()
        self._server.stop(0).wait()

    def _noted(self, rpc: str, function: Any) -> Any:
        def handle(request: Any, context: Any) -> Any:
            with self.changed:
                self.seen.append((rpc, request, dict(context.invocation_metadata())))
                self.changed.notify_all()
            return function(request, context)

        return handle

    def wait_for(self, rpc: str, timeout: float = 120.0) -> tuple[Any, dict[str, str]]:
        """The first request of that kind, waiting for it if need be."""
        with self.changed:
            assert self.changed.wait_for(lambda: any(one[0] == rpc for one in self.seen), timeout), f"no {rpc} came"
            return next((request, headers) for name, request, headers in self.seen if name == rpc)

    def forget(self) -> None:
        with self.changed:
            self.seen.clear()

    def Ping(self, request: Any, _context: Any) -> Any:
        return _proto.PingResponse(message=f"pong: {request.message}")

    def Heartbeat(self, _request: Any, _context: Any) -> Any:
        return _proto.HeartbeatResponse(session_valid=True)

    def InitializeSession(self, request: Any, context: Any) -> Any:
        if request.session_id == "over-quota":
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "session_quota_exceeded")
        token = dict(context.invocation_metadata()).get("authorization")
        if request.session_id == "guarded" and token != "Bearer secret":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing or wrong")
        return _proto.InitializeSessionResponse(
            success=True, available_tools={"status": _proto.ToolSpec(name="status", description="Fails on demand.")}
        )

    def CleanupSession(self, _request: Any, _context: Any) -> Any:
        return _proto.CleanupSessionResponse(success=True, resources_cleaned=1)

    def GetSession(self, request: Any, context: Any) -> Any:
        if request.session_id == "nobody":
            context.abort(grpc.StatusCode.NOT_FOUND, "Session not found: nobody")
        response = _proto.GetSessionResponse(session_id=request.session_id, metadata={"of": "parent"}, tool_count=3)
        response.created_at.FromNanoseconds(1_700_000_000_500_000_000)
        return response

    def ExecuteTool(self, request: Any, context: Any) -> Any:
        """The tool `status` fails with the gRPC status or the text it is given; everything else is unknown."""
        if request.tool_name != "status":
            text = f"Tool {request.tool_name} not found for session {request.session_id}"
            return _proto.ExecuteToolResponse(success=False, error_message=text)
        arguments = {name: _values.get(value) for name, value in request.parameters.items()}
        if "code" in arguments:
            context.abort(grpc.StatusCode[arguments["code"]], arguments["text"])
        return _proto.ExecuteToolResponse(success=False, error_message=arguments["text"])

    def GetExposedElixirTools(self, _request: Any, _context: Any) -> Any:
        parameter = _proto.ParameterSpec(name="x", type="integer", required=True, validation_json='{"type": "integer"}')
        _values.put(parameter.default_value, 7)
        return _proto.GetExposedElixirToolsResponse(
            tools=[_proto.ToolSpec(name="double", description="Doubles.", parameters=[parameter])]
        )

    def ExecuteElixirTool(self, request: Any, context: Any) -> Any:
        arguments = {name: _values.get(value) for name, value in request.parameters.items()}
        response = _proto.ExecuteElixirToolResponse(success=True)
        try:
            value = self._host_tool(request.tool_name, arguments, context)
        except KeyError as error:
            text = f"Tool execution failed: {error.args[0]}"
            return _proto.ExecuteElixirToolResponse(success=False, error_message=text)
        if isinstance(value, bytes):
            response.binary_result = value
            response.metadata["content_type"] = "application/octet-stream"
        else:
            _values.put(response.result, value)
        return response

    def _host_tool(self, name: str, arguments: dict[str, Any], context: Any) -> Any:
        if name == "double":
            return arguments["x"] * 2
        if name == "big":
            return "x" * arguments["size"]
        if name == "blob":
            return b"\x00\xff"
        if name == "agent.poet":
            return {"said": arguments["message"], "thread": arguments.get("thread_id")}
        if name == "stuck":
            context.add_callback(self.release.set)
            self.release.wait(30)
            return None
        if name.startswith("variable_"):
            return getattr(self, name)(arguments)
        raise KeyError(f"there is no tool {name}")

    def variable_set(self, arguments: dict[str, Any]) -> Any:
        with self.changed:
            name = arguments["name"]
            version = self.variables.get(name, {"version": 0})["version"]
            if arguments.get("if_version", version) != version:
                raise KeyError(f"the variable {name} has version {version}")
            depends_on = arguments.get("depends_on", [])
            json.dumps(arguments["value"])
            entry = {"name": name, "value": arguments["value"], "version": version + 1, "depends_on": depends_on}
            self.variables[name] = {**entry, "updated_at": "2030-01-01T00:00:00Z", "stale": False}
            stale = [one for one, other in self.variables.items() if name in other["depends_on"]]
            for one in stale:
                self.variables[one]["stale"] = True
            self.changes.append({"name": name, "version": version + 1, "value": arguments["value"], "deleted": False})
            self.changed.notify_all()
            return {"name": name, "version": version + 1, "stale": stale}

    def variable_get(self, arguments: dict[str, Any]) -> Any:
        if arguments["name"] not in self.variables:
            raise KeyError(f"no variable is named {arguments['name']}")
        return self.variables[arguments["name"]]

    def variable_delete(self, arguments: dict[str, Any]) -> Any:
        with self.changed:
            gone = self.variables.pop(arguments["name"], None)
            if gone is None:
                return {"name": arguments["name"], "deleted": False, "stale": []}
            self.changes.append({"name": gone["name"], "version": gone["version"], "deleted": True})
            self.changed.notify_all()
        return {"name": gone["name"], "deleted": True, "stale": []}

    def variable_list(self, arguments: dict[str, Any]) -> Any:
        keys = ("name", "version", "stale", "depends_on")
        chosen = [one for name, one in sorted(self.variables.items()) if name.startswith(arguments.get("prefix", ""))]
        return {"variables": [{key: one[key] for key in keys} for one in chosen]}

    def variable_watch(self, arguments: dict[str, Any]) -> Any:
        end = time.monotonic() + arguments.get("timeout_ms", 30000) / 1000
        with self.changed:
            since = arguments.get("since", len(self.changes))
            while len(self.changes) <= since and (left := end - time.monotonic()) > 0:
                self.changed.wait(left)
            globs = arguments.get("names", ["*"])
            news = [one for one in self.changes[since:] if any(fnmatch.fnmatch(one["name"], glob) for glob in globs)]
            return {"changes": news, "cursor": len(self.changes)}
