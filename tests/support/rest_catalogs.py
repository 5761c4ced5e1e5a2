"""Doubles of REST catalogs that check requests against the published interfaces."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.support.answering import Handler, listening


class Double(Handler):
    """Keeps what is put; forgets it with `reset`."""

    held: dict[str, Any]
    log: list[tuple[str, str]]

    def respond(self) -> None:
        path, body = unquote(self.path), self.body()
        self.log.append((self.command, path))
        status, answer = self.handle_request(path, body)
        self.answer(status, b"" if answer is None else json.dumps(answer).encode())

    def handle_request(self, path: str, body: bytes) -> tuple[int, Any]:
        raise AssertionError(path)

    def keep(self, place: str, value: Any, answer: Any) -> tuple[int, Any]:
        if place in self.held:
            return 409, {"error": {"message": "exists", "type": "AlreadyExistsException", "code": 409}}
        self.held[place] = value
        return 200, answer


class PolarisDouble(Double):
    """`generic-tables-api.yaml`, and namespaces and tokens of Iceberg's REST catalog."""

    def handle_request(self, path: str, body: bytes) -> tuple[int, Any]:
        assert path.startswith("/api/catalog/")
        place = path.removeprefix("/api/catalog")
        if place == "/v1/oauth/tokens":
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            assert form["grant_type"] == "client_credentials"
            right = (form["client_id"], form["client_secret"]) == ("me", "hush")
            return (
                (200, {"access_token": "tok", "token_type": "bearer"}) if right else (401, {"error": "invalid_client"})
            )
        if self.headers["Authorization"] != "Bearer tok":
            return 401, {"error": {"message": "no", "type": "NotAuthorizedException", "code": 401}}
        if self.command == "DELETE":
            return (204, None) if self.held.pop(place, None) else (404, None)
        if self.command == "GET":
            return (200, self.held[place]) if place in self.held else (404, {"error": {"message": "none", "code": 404}})
        given = json.loads(body)
        if place == "/v1/lake/namespaces":
            assert given.keys() <= {"namespace", "properties"}
            return self.keep(f"{place}/{chr(31).join(given['namespace'])}", given, given)
        namespace = place.removeprefix("/polaris").removesuffix("/generic-tables")
        if namespace not in self.held:
            return 404, {"error": {"message": "no namespace", "code": 404}}
        assert place.endswith("/generic-tables")
        assert given.keys() <= {"name", "format", "base-location", "doc", "properties"}
        return self.keep(f"{place}/{given['name']}", {"table": given}, {"table": given})


class UnityDouble(Double):
    """Schemas and volumes of Unity Catalog's interface."""

    def handle_request(self, path: str, body: bytes) -> tuple[int, Any]:
        assert path.startswith("/api/2.1/unity-catalog/")
        place = path.removeprefix("/api/2.1/unity-catalog/")
        if self.command == "DELETE":
            return (200, {}) if self.held.pop(place, None) else (404, None)
        if self.command == "GET":
            return (200, self.held[place]) if place in self.held else (404, {"error_code": "NOT_FOUND"})
        given = json.loads(body)
        if place == "schemas":
            assert given.keys() >= {"name", "catalog_name"}
            return self.keep(f"schemas/{given['catalog_name']}.{given['name']}", given, given)
        assert place == "volumes"
        assert given.keys() >= {"catalog_name", "schema_name", "name", "volume_type", "storage_location"}
        assert given["volume_type"] == "EXTERNAL"
        full = f"{given['catalog_name']}.{given['schema_name']}.{given['name']}"
        assert f"schemas/{given['catalog_name']}.{given['schema_name']}" in self.held
        return self.keep(f"volumes/{full}", given, given)


@contextlib.contextmanager
def double(kind: type[Double]) -> Iterator[tuple[str, type[Double]]]:
    handler = type("Running", (kind,), {"held": {}, "log": []})
    with listening(handler) as url:
        yield url, handler
