"""A stand-in for the W&B server on 127.0.0.1, for tests with the real client in between.

It knows what a run needs: log-in, starting and resuming a run, the stream of rows, files, artifacts, and
sweeps with agents. Whatever it does not know it refuses and remembers in `unknown`; names that the real
server rejects it rejects too. Outages are made with `fail` and `delay`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import re
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

Json = dict[str, Any]
LIMITS = {"displayName": 128, "groupName": 128, "jobType": 64, "project": 128}
CREATED = "2026-01-01T00:00:00Z"


def _gid(kind: str, name: str) -> str:
    return base64.b64encode(f"{kind}:v1:{name}".encode()).decode()


@dataclass
class ServerRun:
    """A run as the server holds it."""

    entity: str
    project: str
    id: str
    name: str = ""
    group: str | None = None
    job_type: str | None = None
    notes: str = ""
    sweep: str | None = None
    tags: list[str] = field(default_factory=list)
    config: Json = field(default_factory=dict)
    summary: Json = field(default_factory=dict)
    streams: dict[str, dict[int, str]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    state: str = "running"
    preempting: bool = False
    exit_code: int | None = None
    stopped: bool = False

    @property
    def history(self) -> list[Json]:
        """Rows in the order of their line numbers."""
        return [json.loads(line) for _, line in sorted(self.streams.get("wandb-history.jsonl", {}).items())]

    def lines(self, file: str) -> int:
        """Number of lines of a streamed file."""
        return max(self.streams.get(file, {-1: ""})) + 1

    def values(self) -> Json:
        """The config without the `value` wrapping and the client's own part."""
        return {key: item["value"] for key, item in self.config.items() if key != "_wandb"}


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients of these tests are killed: a connection that breaks off is nothing to print."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class WandbServer:
    """`with WandbServer() as server:` serves on `server.url`; `server.runs[id]` is what arrived."""

    def __init__(self, entity: str = "local") -> None:
        self.entity = entity
        self.runs: dict[str, ServerRun] = {}
        self.sweeps: dict[str, Json] = {}
        self.artifacts: dict[str, Json] = {}
        self.blobs: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.unknown: list[str] = []
        self.rejected: list[str] = []
        self.fail: Callable[[str], int | None] = lambda path: None
        self.delay: Callable[[str], float] = lambda path: 0.0
        self._lock = threading.RLock()
        self._http = _Http(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> WandbServer:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        """Stop listening, as a server that went away."""
        self._http.shutdown()
        self._http.server_close()

    # the stream of rows -----------------------------------------------------------------------------
    def file_stream(self, run: ServerRun, body: Json) -> Json:
        """Line numbers make a repeated request harmless."""
        for name, chunk in (body.get("files") or {}).items():
            if name == "wandb-summary.json":
                run.summary = json.loads(chunk["content"][-1])
                continue
            stream = run.streams.setdefault(name, {})
            stream.update({chunk["offset"] + i: line for i, line in enumerate(chunk["content"])})
        run.preempting = run.preempting or bool(body.get("preempting"))
        if body.get("complete"):
            run.exit_code = body.get("exitcode")
            ended = "preempted" if run.preempting else "failed"
            run.state = "finished" if run.exit_code == 0 else ended
        return {"exitcode": None, "limits": {}}

    # GraphQL ----------------------------------------------------------------------------------------
    def graphql(self, request: Json, base: str) -> Json:
        """Answer one operation, or refuse it."""
        variables = request.get("variables") or {}
        if isinstance(variables.get("input"), dict):
            variables = {**variables, **variables["input"]}
        found = re.search(r"\b(?:query|mutation)\s+(\w+)", request.get("query", ""))
        operation = found.group(1) if found else "anonymous"
        self.calls.append(operation)
        answer = getattr(self, f"on_{operation}", None)
        if answer is None:
            self.unknown.append(operation)
            return {"data": None, "errors": [{"message": f"unknown operation {operation}"}]}
        try:
            return {"data": answer(variables, base)}
        except (KeyError, ValueError, StopIteration) as error:
            self.rejected.append(f"{operation}: {error}")
            return {"data": None, "errors": [{"message": f"{operation}: {error!r}"}]}

    def on_ServerFeaturesQuery(self, v: Json, base: str) -> Json:
        return {"serverInfo": {"features": []}}

    def on_OrgFeatureFlags(self, v: Json, base: str) -> Json:
        return {"organization": {"featureFlags": []}}

    def on_Viewer(self, v: Json, base: str) -> Json:
        team = {"edges": [{"node": {"name": self.entity}}]}
        user = {"id": _gid("User", "1"), "entity": self.entity, "username": "tester", "name": "tester"}
        more = {"email": "tester@example.invalid", "flags": "{}", "admin": False, "deletedAt": None}
        return {"viewer": {**user, **more, "teams": team, "apiKeys": {"edges": []}}}

    on_GetViewer = on_GetDefaultEntity = on_ViewerUsername = on_Viewer

    def _project(self, name: str) -> Json:
        entity = {"id": _gid("Entity", self.entity), "name": self.entity}
        return {"id": _gid("Project", name), "name": name, "entity": entity}

    def on_RunResumeStatus(self, v: Json, base: str) -> Json:
        model: Json = {**self._project(v["project"]), "bucket": None}
        run = self.runs.get(v["name"])
        if run is not None and run.project == v["project"]:
            model["bucket"] = {
                "id": _gid("Run", run.id),
                "name": run.id,
                "displayName": run.name,
                "summaryMetrics": json.dumps(run.summary),
                "logLineCount": run.lines("output.log"),
                "historyLineCount": run.lines("wandb-history.jsonl"),
                "eventsLineCount": run.lines("wandb-events.jsonl"),
                "historyTail": json.dumps([json.dumps(row) for row in run.history[-1:]]),
                "eventsTail": "[]",
                "config": json.dumps(run.config),
                "tags": run.tags,
                "notes": run.notes,
                "wandbConfig": json.dumps({"t": 1}),
            }
        return {"model": model}

    def on_UpsertBucket(self, v: Json, base: str) -> Json:
        for key, limit in LIMITS.items():
            if len(v.get(key) or "") > limit:
                raise ValueError(f"{key} is longer than {limit} characters")
        if any(not 1 <= len(tag) <= 64 for tag in v.get("tags") or []):
            raise ValueError("a tag has 1 to 64 characters")
        if v.get("name") and (len(v["name"]) > 64 or re.search(r"[/\\#?%:;,\s]", v["name"])):
            raise ValueError(f"run id {v['name']!r} is not allowed")
        if v.get("name"):
            new = v["name"] not in self.runs
            entity, project = v.get("entity") or self.entity, v.get("project") or "uncategorized"
            run = self.runs.setdefault(v["name"], ServerRun(entity, project, v["name"]))
            run.preempting = run.preempting and run.state == "running"
            run.state = "running"
        else:
            new, run = False, next(r for r in self.runs.values() if _gid("Run", r.id) == v["id"])
        run.config = json.loads(v["config"]) if v.get("config") else run.config
        run.summary.update(json.loads(v.get("summaryMetrics") or "{}"))
        run.tags = v["tags"] if v.get("tags") is not None else run.tags
        names = {"name": "displayName", "group": "groupName", "job_type": "jobType", "notes": "notes"}
        for mine, theirs in {**names, "sweep": "sweep"}.items():
            if v.get(theirs) is not None:
                setattr(run, mine, v[theirs])
        bucket = {"id": _gid("Run", run.id), "name": run.id, "displayName": run.name, "description": ""}
        more = {
            "config": json.dumps(run.config),
            "sweepName": run.sweep,
            "project": self._project(run.project),
        }
        count = {"historyLineCount": run.lines("wandb-history.jsonl")}
        return {"upsertBucket": {"bucket": {**bucket, **more, **count}, "inserted": new}}

    def on_RunStoppedStatus(self, v: Json, base: str) -> Json:
        run = self.runs.get(v["runId"])
        return {"project": {"run": {"stopped": bool(run and run.stopped)}}}

    def on_CreateRunFiles(self, v: Json, base: str) -> Json:
        url = f"{base}/storage/{v['run']}/"
        files = [{"name": name, "uploadUrl": url + urllib.parse.quote(name)} for name in v["files"]]
        return {"createRunFiles": {"runID": _gid("Run", v["run"]), "uploadHeaders": [], "files": files}}

    def on_MarkRunFilesUploaded(self, v: Json, base: str) -> Json:
        return {"markRunFilesUploaded": {"success": True}}

    # artifacts --------------------------------------------------------------------------------------
    def on_ArtifactType(self, v: Json, base: str) -> Json:
        kinds = [item["type"] for item in self.artifacts.values() if item["name"] == v["name"].split(":")[0]]
        return {"project": {"artifact": {"artifactType": {"name": kinds[-1]}} if kinds else None}}

    def on_CreateArtifact(self, v: Json, base: str) -> Json:
        key = _gid("Artifact", v["digest"])
        known = {"type": v["artifactTypeName"], "name": v["artifactCollectionName"], "run": v.get("runName")}
        state = self.artifacts.setdefault(key, {**known, "state": "PENDING", "files": {}})["state"]
        artifact = {"id": key, "state": state, "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": artifact}}

    def on_CreateArtifactManifest(self, v: Json, base: str) -> Json:
        key = v["artifactID"]
        file = {"id": key, "uploadUrl": f"{base}/blob/manifest/{key}", "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": key, "file": file}}}

    def on_UpdateArtifactManifest(self, v: Json, base: str) -> Json:
        made = self.on_CreateArtifactManifest({"artifactID": v["artifactManifestID"]}, base)
        return {"updateArtifactManifest": made["createArtifactManifest"]}

    def on_CreateArtifactFiles(self, v: Json, base: str) -> Json:
        edges = []
        for file in v["artifactFiles"]:
            key, name = file["artifactID"], file["name"]
            path = "/blob/file/" + hashlib.sha256((key + name).encode()).hexdigest()
            self.artifacts[key]["files"][name] = path
            node = {
                "storagePath": path,
                "uploadUrl": base + path,
                "uploadHeaders": [],
                "artifact": {"id": key},
            }
            edges.append({"node": {**node, "uploadMultipartUrls": None}})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def on_CommitArtifact(self, v: Json, base: str) -> Json:
        self.artifacts[v["artifactID"]]["state"] = "COMMITTED"
        return {"commitArtifact": {"artifact": {"id": v["artifactID"], "digest": ""}}}

    # sweeps -----------------------------------------------------------------------------------------
    def on_UpsertSweep(self, v: Json, base: str) -> Json:
        name = f"sweep{len(self.sweeps) + 1}"
        config = yaml.safe_load(v["config"])
        parameters = config.get("parameters", {})
        choices = [item.get("values", [item.get("value")]) for item in parameters.values()]
        todo = [dict(zip(parameters, point, strict=True)) for point in itertools.product(*choices)]
        project = v["projectName"]
        sweep = {"name": name, "yaml": v["config"], "config": config, "project": project, "state": "RUNNING"}
        self.sweeps[name] = {**sweep, "todo": todo, "given": 0}
        made = {"id": _gid("Sweep", name), "name": name, "project": self._project(project)}
        return {"upsertSweep": {"sweep": made, "configValidationWarnings": []}}

    def on_SweepWithRuns(self, v: Json, base: str) -> Json:
        sweep = self.sweeps[v.get("sweep") or v["name"]]
        name, config = sweep["name"], sweep["config"]
        told = {"id": _gid("Sweep", name), "name": name, "displayName": name, "method": config.get("method")}
        more = {"state": sweep["state"], "description": None, "config": sweep["yaml"], "createdAt": CREATED}
        rest = {"heartbeatAt": CREATED, "updatedAt": CREATED, "earlyStopJobRunning": False, "bestLoss": None}
        last = {"controller": None, "scheduler": None, "priorRunsFilters": None, "runs": {"edges": []}}
        count = {"runCount": sweep["given"], "runCountExpected": sweep["given"] + len(sweep["todo"])}
        return {"project": {"sweep": {"__typename": "Sweep", **told, **more, **rest, **last, **count}}}

    on_Sweep = on_GetSweep = on_GetSweepLegacy = on_SweepState = on_SweepWithRuns

    def on_CreateAgent(self, v: Json, base: str) -> Json:
        return {"createAgent": {"agent": {"id": _gid("Agent", v["sweep"])}}}

    def on_Heartbeat(self, v: Json, base: str) -> Json:
        name = base64.b64decode(v["id"]).decode().rsplit(":", 1)[1]
        sweep = self.sweeps[name if name in self.sweeps else base64.b64decode(name).decode().rsplit(":", 1)[1]]
        commands: list[Json] = []
        if not any(json.loads(v.get("runState") or "{}").values()):
            if sweep["todo"]:
                point = sweep["todo"].pop(0)
                sweep["given"] += 1
                args = {key: {"value": value} for key, value in point.items()}
                run = {"type": "run", "run_id": f"{sweep['name']}-{sweep['given']}", "args": args, "logs": []}
                commands = [{**run, "program": sweep["config"].get("program")}]
            else:
                sweep["state"] = "FINISHED"
                commands = [{"type": "exit"}]
        return {"agentHeartbeat": {"agent": {"id": v["id"]}, "commands": json.dumps(commands)}}


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Quiet."""

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

        def _send(self, answer: Json | bytes, code: int = 200) -> None:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self) -> None:
            body = self._body()
            path = urllib.parse.unquote(urllib.parse.urlparse(self.path).path)
            time.sleep(server.delay(path))
            if code := server.fail(path):
                return self._send({"error": "injected"}, code)
            with server._lock:
                if self.command == "POST" and path == "/graphql":
                    base = f"http://{self.headers['Host']}"
                    return self._send(server.graphql(json.loads(body), base))
                parts = path.strip("/").split("/")
                if self.command == "POST" and parts[-1] == "file_stream" and parts[-2] in server.runs:
                    return self._send(server.file_stream(server.runs[parts[-2]], json.loads(body)))
                if self.command == "PUT" and parts[0] == "storage" and parts[1] in server.runs:
                    server.runs[parts[1]].files["/".join(parts[2:])] = body
                    return self._send(b"")
                if self.command == "PUT" and parts[0] == "blob":
                    server.blobs[path] = body
                    return self._send(b"")
                server.unknown.append(f"{self.command} {path}")
            return self._send({"error": f"unknown {path}"}, 404)

        do_GET = do_PUT = do_POST = _answer

    return Handler
