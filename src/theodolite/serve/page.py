"""The page of the service and its description for people: documents, style and script, all our own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources

from fastapi import APIRouter, FastAPI, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

_KINDS = {"mark.svg": "image/svg+xml", "page.css": "text/css", "page.js": "text/javascript"}


def page_routes(app: FastAPI) -> APIRouter:
    """`/`, `/docs` and what they load; nothing comes from elsewhere."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> Response:
        return Response(_asset("page.html"), media_type="text/html")

    @router.get("/docs")
    async def docs() -> Response:
        return Response(_described(app), media_type="text/html")

    for name, kind in _KINDS.items():
        router.add_api_route(f"/assets/{name}", _serving(name, kind), methods=["GET"])
    return router


def _serving(name: str, kind: str) -> Callable[[], Awaitable[Response]]:
    async def asset() -> Response:
        return Response(_asset(name), media_type=kind)

    return asset


@cache
def _asset(name: str) -> bytes:
    return (resources.files("theodolite.serve") / "assets" / name).read_bytes()


def _described(app: FastAPI) -> str:
    """The OpenAPI description as a page."""
    loader = PackageLoader("theodolite.serve", "assets")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return pages.get_template("docs.html").render(described=app.openapi())
