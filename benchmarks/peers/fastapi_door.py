"""FastAPI as its manual has it: a validated model, a confirmed publish of what it says, 202. uvicorn runs it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

from fastapi import FastAPI, Request
from pydantic import BaseModel

from benchmarks.peers.publishing import Publish, publisher


class Ticket(BaseModel):
    """What a client brings."""

    kind: str
    body: str


class _State(TypedDict):
    publish: Publish


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[_State]:
    yield {"publish": await publisher(os.environ["PEER_BROKER"], os.environ["PEER_QUEUE"])}


app = FastAPI(lifespan=_lifespan)


@app.post("/v1/tickets", status_code=202)
async def take(ticket: Ticket, request: Request) -> dict[str, str]:
    """Publish one ticket."""
    publish: Publish = request.state.publish
    return {"id": await publish(ticket.model_dump_json().encode()), "state": "accepted"}


@app.get("/readyz")
async def alive() -> dict[str, str]:
    """Tell that it is there."""
    return {}
