"""A hub of models on this machine, and a bucket: what `quire pull` is tested against.

It speaks the protocol of huggingface.co (api/models, resolve, redirects to a second server that keeps
large files) and enough of S3 to check a signature. Each trouble that a test wants is a rule.
"""

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

from cli_support import PROGRAM, TINY

REPO = "tiny/llama"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Repository:
    """Files of one revision. Those that end in .safetensors or .gguf are large: another server has them."""

    def __init__(self, files, commit=COMMIT, gated=False, token=None):
        self.files = dict(files)
        self.commit = commit
        self.gated = gated
        self.token = token  # who may read it

    def is_large(self, name):
        return name.endswith((".safetensors", ".gguf"))

    def etag(self, name):
        content = self.files[name]
        return sha256(content) if self.is_large(name) else git_sha1(content)


def merged(shards):
    """One safetensors file of several."""
    header, data = {}, b""
    for shard in shards:
        size = int.from_bytes(shard[:8], "little")
        for name, tensor in json.loads(shard[8:8 + size]).items():
            if name != "__metadata__":
                header[name] = {**tensor, "data_offsets": [at + len(data) for at in tensor["data_offsets"]]}
        data += shard[8 + size:]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def tiny_files():
    """The tiny Llama with its weights in one file."""
    files = {path.name: path.read_bytes() for path in (TINY / "hf").iterdir()}
    shards = [files.pop(name) for name in sorted(files) if name.endswith(".safetensors")]
    del files["model.safetensors.index.json"]
    return {**files, "model.safetensors": merged(shards)}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_HEAD(self):
        self.answer(head=True)

    def do_GET(self):
        self.answer(head=False)

    def answer(self, head):
        hub = self.server.hub
        path = urllib.parse.unquote(self.path.split("?")[0])
        with hub.lock:
            hub.requests.append((self.server.name, self.command, path, dict(self.headers)))
            rule = hub.next_rule(self.server.name, self.command, path)
        if rule is not None:
            rule(self)
            if self.close_connection:
                return
            if getattr(self, "answered", False):
                self.answered = False
                return
        self.server.route(self, path, head)

    def send(self, status, body=b"", headers=None, head=False):
        self.send_response(status)
        headers = dict(headers or {})
        headers.setdefault("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if not head:
            self.wfile.write(body)
        self.answered = True

    def send_error_code(self, status, code="", message="", headers=None):
        fields = {"X-Error-Code": code, "X-Error-Message": message} if code else {}
        self.send(status, json.dumps({"error": message or code}).encode(), {**fields, **(headers or {})},
                  head=self.command == "HEAD")

    def cut(self):
        """Ends the connection without an answer."""
        self.close_connection = True
        self.connection.close()

    def send_content(self, content, etag, head, extra=None):
        hub = self.server.hub
        headers = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes", **(extra or {})}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.headers.get("If-Match", f'"{etag}"') != f'"{etag}"':
            self.send(412, b"")
            return
        status, body = 200, content
        if wanted and hub.ranges:
            begin, end = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
            if begin >= len(content):
                self.send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                return
            status, body = 206, content[begin:end + 1]
            headers["Content-Range"] = f"bytes {begin}-{end}/{len(content)}"
        headers["Content-Length"] = str(len(body))
        limit = hub.cut_after
        if limit is None or head or len(body) <= limit:
            self.send(status, body, headers, head)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:limit])
        self.wfile.flush()
        self.cut()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub, name, route):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub, self.name, self.route = hub, name, route
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass


class Hub:
    """The hub, its store of large files on another port, and a bucket."""

    def __init__(self):
        self.lock = threading.Lock()
        self.requests = []
        self.rules = []  # (server, method, part of the path, how often, function of the handler)
        self.repositories = {}
        self.moved = {}  # old name: new name
        self.ranges = True
        self.cut_after = None  # bytes of a body that come
        self.replaced = {}  # name of a file: other bytes that are sent for it
        self.bucket = {}
        self.bucket_keys = ("key", "secret")
        self.page = 1000
        self.hub = Server(self, "hub", self.route_hub)
        self.store = Server(self, "store", self.route_store)
        self.s3 = Server(self, "s3", self.route_s3)

    def close(self):
        for server in (self.hub, self.store, self.s3):
            server.shutdown()
            server.server_close()

    def rule(self, server, method, part, function, times=1):
        self.rules.append([server, method, part, times, function])

    def next_rule(self, server, method, path):
        for rule in self.rules:
            if rule[0] == server and rule[1] in (method, "*") and rule[2] in path and rule[3] > 0:
                rule[3] -= 1
                return rule[4]
        return None

    def asked(self, server, method="*", part=""):
        with self.lock:
            return [each for each in self.requests
                    if each[0] == server and method in ("*", each[1]) and part in each[2]]

    def route_hub(self, handler, path, head):
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path) or re.fullmatch(
            r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        tree = re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path)
        if tree and tree[1] in self.repositories:  # what the Python package asks for
            repository = self.repositories[tree[1]]
            entries = [{"type": "file", "path": name, "size": len(content), "oid": git_sha1(content),
                        **({"lfs": {"oid": sha256(content), "size": len(content), "pointerSize": 130}}
                           if repository.is_large(name) else {})}
                       for name, content in repository.files.items()]
            handler.send(200, json.dumps(entries).encode(), {"Content-Type": "application/json"}, head)
            return
        if not found:
            handler.send_error_code(404)
            return
        name = found[1]
        if name in self.moved:
            handler.send(307, b"", {"Location": handler.path.replace(name, self.moved[name])})
            return
        repository = self.repositories.get(name)
        bearer = handler.headers.get("Authorization", "")
        if repository is None:
            handler.send_error_code(404 if bearer else 401, "RepoNotFound", "Repository not found")
        elif repository.token and bearer != f"Bearer {repository.token}":
            code = "GatedRepo" if repository.gated else "RepoNotFound"
            handler.send_error_code(403 if bearer else 401, code, f"Access to model {name} is restricted")
        elif found[2] not in ("main", "v1", repository.commit):
            handler.send_error_code(404, "RevisionNotFound", f"Invalid rev id: {found[2]}")
        elif path.startswith("/api/"):
            body = {"id": name, "sha": repository.commit,
                    "siblings": [{"rfilename": each} for each in repository.files]}
            handler.send(200, json.dumps(body).encode(), {"Content-Type": "application/json"}, head)
        else:
            self.send_file(handler, repository, found[3], head)

    def send_file(self, handler, repository, name, head):
        if name not in repository.files:
            handler.send_error_code(404, "EntryNotFound", "Entry not found")
            return
        etag = repository.etag(name)
        content = self.replaced.get(name, repository.files[name])
        if not repository.is_large(name):
            handler.send_content(content, etag, head, {"X-Repo-Commit": repository.commit})
            return
        handler.send(302, b"", {"Location": f"{self.store.url}/{etag}/{urllib.parse.quote(name)}?sig=1",
                                "X-Repo-Commit": repository.commit, "X-Linked-Etag": f'"{etag}"',
                                "X-Linked-Size": str(len(repository.files[name]))})

    def route_store(self, handler, path, head):
        etag, name = path.lstrip("/").split("/", 1)
        for repository in self.repositories.values():
            if name in repository.files and repository.etag(name) == etag:
                handler.send_content(self.replaced.get(name, repository.files[name]), "store-" + etag[:8],
                                     head)
                return
        handler.send(404)

    def route_s3(self, handler, path, head):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)
        if self.bucket_keys and not signature_fits(handler, *self.bucket_keys):
            handler.send(403, b"<Error><Code>SignatureDoesNotMatch</Code><Message>no &amp; no</Message></Error>")
            return
        if path == "/bucket/" and query.get("list-type") == ["2"]:
            keys = sorted(key for key in self.bucket if key.startswith(query["prefix"][0]))
            begin = int(query.get("continuation-token", ["0"])[0])
            page, rest = keys[begin:begin + self.page], len(keys) > begin + self.page
            items = "".join(f"<Contents><Key>{key.replace('&', '&amp;')}</Key><Size>1</Size></Contents>"
                            for key in page)
            more = (f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>"
                    + (f"<NextContinuationToken>{begin + self.page}</NextContinuationToken>" if rest else ""))
            handler.send(200, f"<?xml version='1.0'?><ListBucketResult>{more}{items}</ListBucketResult>".encode())
            return
        content = self.bucket.get(path.removeprefix("/bucket/"))
        if content is None:
            handler.send(404, b"<Error><Code>NoSuchKey</Code><Message>it is gone</Message></Error>")
        else:
            handler.send_content(content, hashlib.md5(content).hexdigest(), head)


def signature_fits(handler, access, secret):
    """AWS Signature Version 4, from its description: docs.aws.amazon.com/IAM (signing requests)."""
    fields = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=(\w+)",
                          handler.headers.get("Authorization", ""))
    if not fields:
        return False
    key, date, region, service, end = fields[1].split("/")
    if (key, service, end) != (access, "s3", "aws4_request"):
        return False
    parts = urllib.parse.urlsplit(handler.path)
    query = "&".join(sorted(parts.query.split("&"))) if parts.query else ""
    names = fields[2].split(";")
    if "host" not in names or "x-amz-content-sha256" not in names or "x-amz-date" not in names:
        return False
    headers = "".join(f"{name}:{' '.join(handler.headers[name].split())}\n" for name in names)
    request = "\n".join([handler.command, parts.path, query, headers, fields[2],
                         handler.headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", handler.headers["x-amz-date"],
                      f"{date}/{region}/s3/aws4_request", sha256(request.encode())])
    signing = ("AWS4" + secret).encode()
    for part in (date, region, "s3", "aws4_request"):
        signing = hmac.new(signing, part.encode(), hashlib.sha256).digest()
    return hmac.new(signing, text.encode(), hashlib.sha256).hexdigest() == fields[3]


class Home:
    """A user with a home of their own and nothing in the environment."""

    def __init__(self, hub):
        self.hub = hub
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.cache = self.path / ".cache/huggingface/hub"
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("HF_", "AWS_", "XDG_", "TRANSFORMERS_")) and "proxy" not in name.lower()}
        self.environment = {**kept, "HOME": str(self.path), "HF_ENDPOINT": hub.hub.url,
                            "AWS_ENDPOINT_URL": hub.s3.url}

    def close(self):
        self.folder.cleanup()

    def start(self, *arguments, **variables):
        return subprocess.Popen([PROGRAM, *map(str, arguments)], env={**self.environment, **variables},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def run(self, *arguments, preexec_fn=None, **variables):
        return subprocess.run([PROGRAM, *map(str, arguments)], env={**self.environment, **variables},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                              preexec_fn=preexec_fn)

    def repo(self, name=REPO):
        return self.cache / ("models--" + name.replace("/", "--"))

    def snapshot(self, name=REPO, commit=COMMIT):
        return self.repo(name) / "snapshots" / commit


class PullCase(unittest.TestCase):
    """A hub with one repository, and a user who pulls."""

    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.home = Home(self.hub)
        self.addCleanup(self.home.close)
        self.hub.repositories[REPO] = Repository(
            {**tiny_files(), "README.md": b"read", "pytorch_model.bin": b"pickle", "onnx/model.onnx": b"o"})

    def pull(self, *arguments, code=0, **variables):
        result = self.home.run("pull", *arguments, **variables)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def refused(self, code, text, *arguments, **variables):
        result = self.pull(*arguments, code=code, **variables)
        self.assertIn(text, result.stderr)
        self.assertEqual(result.stdout, "")
        lines = [line for line in result.stderr.splitlines() if not line.startswith("info: ")]
        self.assertEqual(len(lines), 1, result.stderr)  # one clear error
        self.assertTrue(lines[0].startswith("quire: "), result.stderr)
        return result
