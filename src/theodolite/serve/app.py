"""The addresses of the service, with every status that each can answer in its OpenAPI description."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from .._version import __version__
from .answers import About, Answer, Problem, State
from .bounds import Bounds
from .door import Access, Door
from .judging import Judging
from .metrics import MEDIA_TYPE
from .page import page_routes
from .parts import FIELD
from .refusal import Refusal
from .service import FORM, JSON, NPY, Asked, Service

_DESCRIPTION = "What a classifier sees in pictures, or in their features, and whether to trust it."
# nginx's word for a client that left before its answer; it is counted, and nobody sees it.
_CLIENT_LEFT = 499
_WHY = {
    400: "The body is not what its Content-Type says.",
    401: "The token is missing or wrong.",
    403: "The Host is not known here, or the Origin is another page's.",
    408: "The body came too slowly.",
    413: "Too many bytes, or a picture of too many pixels.",
    415: "A Content-Type that is not taken; pictures without a model, features where it cannot be left out.",
    422: "Features of another width, too many rows or pictures, an unknown field or parameter.",
    500: "The guard failed on this input.",
    503: "Loading, or too busy: Retry-After says when to try again.",
}


def make_app(
    service: Service, access: Access | None = None, *, ended: Callable[[], None] = lambda: None
) -> FastAPI:
    """The ASGI application. ``ended`` is called if the model cannot be loaded."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running(ended):
            yield

    app = FastAPI(
        title="theodolite",
        description=_DESCRIPTION,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(_verdicts(service))
    app.include_router(_states(service))
    app.include_router(page_routes(app))
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(Door, access=access or Access(), metrics=service.metrics)
    if access is not None and access.token is not None:
        _declare_token(app)
    return app


def _verdicts(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1")
    smallest = service.judging.calibration.smallest_rate

    @router.post(
        "/score",
        response_model=Answer,
        responses=_problems(400, 401, 403, 408, 413, 415, 422, 500, 503),
        openapi_extra={"requestBody": _body(service.judging, service.bounds)},
        summary="Verdicts on pictures or features",
    )
    async def score(
        request: Request,
        false_alarm_rate: float | None = Query(
            None, ge=smallest, lt=1, description="Largest share of in-distribution inputs to flag."
        ),
        explain: bool = Query(False, description="Add the triangle behind each score, where there is one."),
    ) -> Response:
        """One entry a sample, in the order sent. A picture that cannot be read is `unreadable`."""
        _require_known(request, "false_alarm_rate", "explain")
        try:
            answer = await service.score(request, Asked(false_alarm_rate, explain))
        except ClientDisconnect:
            return Response(status_code=_CLIENT_LEFT)
        return Response(answer, media_type=JSON)

    @router.get("/guard", responses=_problems(401, 403), summary="What is served")
    async def guard() -> About:
        judging, bounds = service.judging, service.bounds
        return About(
            title=judging.title,
            version=__version__,
            features=judging.width,
            takes_pictures=judging.takes_pictures,
            false_alarm_rate=judging.false_alarm_rate,
            calibration=len(judging.calibration),
            pictures=bounds.pictures,
            request_bytes=bounds.request_bytes,
            drift=None if service.watching is None else service.watching.now,
        )

    return router


def _states(service: Service) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz", responses=_problems(403), summary="The process lives")
    async def healthz() -> State:
        return State(status="alive")

    @router.get(
        "/readyz",
        response_model=State,
        responses={**_problems(403), 503: {"model": State, "description": "Loading or draining."}},
        summary="The model is loaded and warmed up",
    )
    async def readyz() -> Response:
        status = 200 if service.status == "ready" else 503
        return JSONResponse({"status": service.status}, status)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **_problems(401, 403)},
        summary="Counters for Prometheus",
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=MEDIA_TYPE)

    return router


def _require_known(request: Request, *names: str) -> None:
    """A parameter that is misspelt, or given twice, would leave the default in force unnoticed."""
    given = [name for name, _ in request.query_params.multi_items()]
    wrong = next((name for name in given if name not in names or given.count(name) > 1), None)
    if wrong is not None:
        problem = "stands twice" if wrong in names else f"is not known: {', '.join(names)}"
        raise Refusal(422, f"the parameter {wrong[:80]!r} {problem}")


async def _refused(_: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    return JSONResponse({"detail": refusal.detail}, refusal.status, refusal.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    told = [f"{'.'.join(map(str, part['loc'][1:]))}: {part['msg']}" for part in error.errors()]
    return JSONResponse({"detail": "; ".join(told)}, 422)


async def _failed(_: Request, __: Exception) -> Response:
    """Whatever it was, the server prints it."""
    return JSONResponse({"detail": "something failed; the service's log says what"}, 500)


def _problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Problem, "description": _WHY[code]} for code in codes}


def _body(judging: Judging, bounds: Bounds) -> dict[str, Any]:
    """The forms of a body; pictures where the guard has a model, features where it can do without."""
    width = judging.width
    row = {"type": "array", "items": {"type": "number"}, "minItems": width, "maxItems": width}
    rows = {"type": "array", "items": row, "minItems": 1, "maxItems": bounds.rows}
    named = {"type": "object", "required": ["features"], "additionalProperties": False}
    content: dict[str, Any] = {}
    if judging.takes_features:
        content[JSON] = {"schema": {**named, "properties": {"features": rows}}}
    for kind in NPY if judging.takes_features else ():
        content[kind] = {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": f"A .npy file of floats (N, {width}), N at most {bounds.rows:,}.",
            }
        }
    if judging.takes_pictures:
        picture = {"type": "string", "format": "binary"}
        pictures = {"type": "array", "items": picture, "minItems": 1, "maxItems": bounds.pictures}
        form = {"type": "object", "required": [FIELD], "additionalProperties": False}
        content[FORM] = {"schema": {**form, "properties": {FIELD: pictures}}}
    return {"required": True, "content": content}


def _declare_token(app: FastAPI) -> None:
    """Say in the description which addresses want the token."""
    described = app.openapi()
    schemes = described.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    for path, methods in described["paths"].items():
        if path.startswith("/v1/") or path == "/metrics":
            for method in methods.values():
                method["security"] = [{"token": []}]
