"""The FastAPI application with the paths of the page."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.sse import EventSourceResponse, ServerSentEvent

from webhook.insight.page.details import detail
from webhook.insight.page.document import ASSETS, asset, shell
from webhook.insight.page.feed import MOST_LISTENERS, Feed
from webhook.insight.page.markup import as_tree
from webhook.insight.page.words import Language, chosen, words

MOST_WAITING = 4
"""Requests for details that wait at most while one is answered."""
_KEY_LIMIT = 1024

LanguageQuery = Annotated[Language | None, Query()]


def create_app(feed: Feed) -> FastAPI:
    """Returns the application, without any protection: :class:`webhook.insight.page.guard.Guard` protects it."""
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={RequestValidationError: _refuse},
    )
    asking = asyncio.Semaphore(1)
    waiting = [0]

    @app.get("/")
    def page(lang: LanguageQuery = None, accept_language: Annotated[str, Header()] = "") -> Response:
        text = shell(words(lang or chosen(accept_language)))
        return Response(text, media_type="text/html; charset=utf-8", headers={"Vary": "Accept-Language"})

    @app.get("/assets/{name}")
    def file(name: str) -> Response:
        if name not in ASSETS:
            raise HTTPException(404)
        return Response(asset(name), media_type=ASSETS[name])

    async def room() -> AsyncIterator[None]:
        if feed.listeners >= MOST_LISTENERS:
            raise HTTPException(503, headers={"Retry-After": "5"})
        feed.listeners += 1
        try:
            yield
        finally:
            feed.listeners -= 1

    @app.get("/events", response_class=EventSourceResponse, dependencies=[Depends(room)])
    async def events(lang: Language = Language.ENGLISH) -> AsyncIterator[ServerSentEvent]:
        async for found in feed.listen(lang):
            yield ServerSentEvent(raw_data=found.decode())

    @app.get("/detail")
    async def one(key: Annotated[str, Query(max_length=_KEY_LIMIT)], lang: Language = Language.ENGLISH) -> Response:
        if waiting[0] >= MOST_WAITING:
            raise HTTPException(503)
        waiting[0] += 1
        try:
            async with asking:
                known = feed.known
                found = await asyncio.to_thread(detail, known, key, words(lang)) if known else None
        finally:
            waiting[0] -= 1
        if found is None:
            raise HTTPException(404)
        return Response(msgspec.json.encode(as_tree(found)), media_type="application/json")

    return app


async def _refuse(_: Request, __: Exception) -> Response:
    """Refuses a wrong parameter without a text, because FastAPI's own answer repeats the parameter."""
    return Response(status_code=400)
