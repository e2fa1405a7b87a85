"""A small MLflow server over HTTP: what its REST documentation says of the calls that we make."""

import json
import posixpath
import re
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from tests.worker.agent.http_server import HttpServer


class FakeMlflow(HttpServer):
    """Experiments, runs and files.

    `away` answers 503 so many times; what `refuse` names answers 400: calls, or keys of a batch.
    """

    def __init__(self, *, artifact_scheme="mlflow-artifacts:"):
        self.lock = threading.RLock()
        self.artifact_scheme = artifact_scheme
        self.experiments, self.runs, self.files = {}, {}, {}
        self.away, self.refuse = 0, set()
        self.authorizations, self.calls = set(), []
        self.serve(_handler(self))

    def only_run(self):
        (run,) = self.runs.values()
        return run

    def answer(self, method, path, query, body):
        match method, path:
            case "GET", "experiments/get-by-name":
                (name,) = query["experiment_name"]
                if name not in self.experiments:
                    return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}
                return 200, {"experiment": self.describe(self.experiments[name])}
            case "GET", "experiments/get":
                return 200, {"experiment": self.describe(query["experiment_id"][0])}
            case "POST", "experiments/create":
                self.experiments[body["name"]] = str(len(self.experiments) + 1)
                return 200, {"experiment_id": self.experiments[body["name"]]}
            case "POST", "runs/search":
                wanted = body["filter"].rpartition("= ")[2].strip("'")
                found = [r for r in self.runs.values() if r["tags"]["redkiln.job_id"] == wanted]
                return 200, {"runs": [self.view(run) for run in found]} if found else {}
            case "GET", "runs/get":
                return 200, {"run": self.view(self.runs[query["run_id"][0]])}
            case "POST", "runs/create":
                if problem := self.find_bad_key(body["tags"]):
                    return refuse(problem)
                # Unique among servers: the client caches where the files of a run go.
                run_id = f"run{uuid4().hex}"
                self.runs[run_id] = {
                    "id": run_id,
                    "experiment_id": body["experiment_id"],
                    "name": body["run_name"],
                    "tags": {t["key"]: t["value"] for t in body["tags"]},
                    "status": "RUNNING",
                    "params": {},
                    "metrics": [],
                }
                return 200, {"run": self.view(self.runs[run_id])}
            case "POST", "runs/log-batch":
                return self.log(self.runs[body["run_id"]], body)
            case "POST", "runs/update":
                run = self.runs[body["run_id"]]
                run.update(status=body["status"], end=body.get("end_time"))
                return 200, {"run_info": self.view(run)["info"]}
        return 404, {"message": f"no {method} {path}"}

    def describe(self, experiment_id):
        return {"experiment_id": experiment_id, "lifecycle_stage": "active"}

    def log(self, run, body):
        assert len(body.get("metrics", [])) <= 1000
        assert len(body.get("params", [])) <= 100
        items = [*body.get("params", []), *body.get("metrics", []), *body.get("tags", [])]
        if problem := self.find_bad_key(items):
            return refuse(problem)
        for param in body.get("params", []):
            if run["params"].get(param["key"], param["value"]) != param["value"]:
                return refuse("Changing param values is not allowed")
            run["params"][param["key"]] = param["value"]
        run["tags"].update({t["key"]: t["value"] for t in body.get("tags", [])})
        run["metrics"] += [(m["key"], m["step"], m["value"]) for m in body.get("metrics", [])]
        return 200, {}

    def find_bad_key(self, items):
        """Nothing of a batch is taken in of which one name is bad (mlflow/utils/validation.py)."""
        for key in (item["key"] for item in items):
            is_path = posixpath.normpath(key) == key != "." and not key.startswith(("..", "/"))
            if not re.fullmatch(r"[/\w.\- ]*", key) or not is_path or len(key) > 250:
                return f"Invalid name: {key!r}"
            if key in self.refuse:
                return f"{key} is not allowed"
        return None

    def view(self, run):
        folder = f"{run['experiment_id']}/{run['id']}/artifacts"
        params = [{"key": key, "value": value} for key, value in run["params"].items()]
        info = {
            "run_id": run["id"],
            "experiment_id": run["experiment_id"],
            "status": run["status"],
            "artifact_uri": f"{self.artifact_scheme}/{folder}",
        }
        return {"info": info, "data": {"params": params}}


def refuse(message):
    return 400, {"error_code": "INVALID_PARAMETER_VALUE", "message": message}


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            self.serve("GET")

        def do_POST(self):
            self.serve("POST")

        def do_PUT(self):
            self.serve("PUT")

        def serve(self, method):
            body = self.read()
            with server.lock:
                server.authorizations.add(self.headers["Authorization"])
                url = urlsplit(self.path)
                server.calls.append((method, url.path))
                status, answer = self.route(method, url, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def read(self):
            if self.headers.get("Transfer-Encoding") == "chunked":
                content = b""
                while size := int(self.rfile.readline(), 16):
                    content += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return content
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def route(self, method, url, body):
            if server.away:
                server.away -= 1
                return 503, {"message": "starting"}
            files = "/api/2.0/mlflow-artifacts/artifacts/"
            if method == "PUT" and url.path.startswith(files):
                path = unquote(url.path.removeprefix(files))
                if path.rpartition("/")[2] in server.refuse:
                    return 413, {"message": f"{path} is too large"}
                server.files[path] = body
                return 200, {}
            path = url.path.removeprefix("/api/2.0/mlflow/")
            if path in server.refuse:
                return refuse(f"{path} is not allowed")
            return server.answer(
                method, path, parse_qs(url.query), json.loads(body) if body else {}
            )

    return Handler
