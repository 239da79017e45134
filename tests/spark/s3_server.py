"""A small S3 on loopback, over a folder: ListObjectsV2 (in pages of three), HEAD, and GET with Range; no signatures.

    with serving(folder) as uri:      s3://log/…?endpoint_override=127.0.0.1:PORT&scheme=http
        uri("harbour/4.3.1")

The folder is the bucket `log`; nothing can be written.
"""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "log"
PAGE = 3


@contextlib.contextmanager
def serving(folder):
    """Serves a folder; gives a function from a key to its URI, whose `requests` are (method, key or prefix)."""
    requests = []
    handler = type("Handler", (Handler,), {"folder": Path(folder), "requests": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def uri(key, bucket=BUCKET):
        return f"s3://me:hidden@{bucket}/{key}?endpoint_override=127.0.0.1:{server.server_port}&scheme=http"

    uri.requests = requests
    try:
        yield uri
    finally:
        server.shutdown()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.requests.append((self.command, key or query.get("prefix", "")))
        if bucket != BUCKET:
            return self.refuse("NoSuchBucket", "The specified bucket does not exist")
        if not key:
            return self.answer(200, self.listing(query) if "list-type" in query else b"", "application/xml")
        file = self.folder / key
        if not file.is_file():
            return self.refuse("NoSuchKey", "The specified key does not exist")
        data = file.read_bytes()
        if not (wanted := self.headers.get("Range")):
            return self.answer(200, data)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        end = min(int(last) + 1 if last else len(data), len(data))
        self.answer(206, data[int(first) : end], headers={"Content-Range": f"bytes {first}-{end - 1}/{len(data)}"})

    def listing(self, query):
        """A page of keys and common prefixes behind the token, which is the last one told."""
        prefix = query.get("prefix", "")
        delimiter = query.get("delimiter")
        entries = {}
        for file in self.folder.rglob("*"):
            key = file.relative_to(self.folder).as_posix()
            if file.is_file() and key.startswith(prefix):
                inner, cut, _ = key[len(prefix) :].partition(delimiter or "\0")
                entries[prefix + inner + cut if cut else key] = None if cut else file.stat().st_size
        told = [name for name in sorted(entries) if name > query.get("continuation-token", "")]
        page = told[:PAGE]
        more = len(told) > PAGE
        parts = [f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"]
        parts.append(f"<MaxKeys>{PAGE}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>")
        if more:
            parts.append(f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>")
        for name in page:
            if entries[name] is None:
                parts.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            else:
                time = "2026-01-01T00:00:00.000Z"
                size = f"<Size>{entries[name]}</Size><LastModified>{time}</LastModified>"
                parts.append(f"<Contents><Key>{escape(name)}</Key>{size}</Contents>")
        return f"<?xml version='1.0'?><ListBucketResult>{''.join(parts)}</ListBucketResult>".encode()

    def refuse(self, code, message):
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self.answer(404, text.encode(), "application/xml")

    def answer(self, status, data, kind="application/octet-stream", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("ETag", '"0"')
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)
