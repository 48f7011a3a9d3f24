"""Stands in for the engine: takes its flags, answers 200 on its socket. `python -m` with the engine's options."""

import http.server
import socketserver
import sys


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_arguments: object) -> None:
        pass


if __name__ == "__main__":
    socket_path = sys.argv[sys.argv.index("--socket") + 1]
    socketserver.UnixStreamServer(socket_path, _Answer).serve_forever()
