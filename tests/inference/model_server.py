"""A server of the OpenAI interface over a small model, which misbehaves on request.

A request's field ``misbehave`` says how; ``once-`` before it:
the first time that a prompt is seen. ``GET /seen`` gives what was asked so far.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request, Response
from transformers import AutoModelForCausalLM, AutoTokenizer

WINDOW = 1000
"""Tokens of a prompt at most."""

app = FastAPI()
seen: Counter[str] = Counter()
times: list[float] = []
under_way = [0, 0]
words: list[str] = []
tokenizer: Any = None
model: Any = None


def error(status: int, message: str, **headers: str) -> Response:
    return Response(json.dumps({"error": {"message": message}}), status_code=status, headers=headers)


@app.get("/seen")
def what_was_seen() -> dict[str, Any]:
    return {"most_at_a_time": under_way[1], "times": times, **seen}


@app.post("/v1/chat/completions")
async def chat(request: Request) -> Response:
    body = await request.json()
    text = tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
    return await answered(request, body, text, chat=True)


@app.post("/v1/completions")
async def completions(request: Request) -> Response:
    body = await request.json()
    return await answered(request, body, body["prompt"], chat=False)


async def answered(request: Request, body: dict[str, Any], text: str, *, chat: bool) -> Response:
    seen["requests"] += 1
    seen["authorization " + request.headers.get("authorization", "")] += 1
    times.append(asyncio.get_running_loop().time())
    under_way[0] += 1
    under_way[1] = max(under_way)
    try:
        return await misbehaved(body, text, chat=chat)
    finally:
        under_way[0] -= 1


async def misbehaved(body: dict[str, Any], text: str, *, chat: bool) -> Response:
    how = body.get("misbehave", "")
    if how.startswith("once-"):
        seen[how + text] += 1
        how = how.removeprefix("once-") if seen[how + text] == 1 else ""
    listed = (body.get("top_logprobs", 0) if chat else body.get("logprobs")) or 0
    if how == "busy":
        return error(429, "slow down", **{"Retry-After": "1"})
    if how == "broken":
        return error(500, "out of order")
    if how == "stranger":
        return error(
            401, "Incorrect API key provided: sk-left-over-key. And the header said secret-of-the-test"
        )
    if how == "garbage":
        return Response("{<html>", media_type="application/json")
    if how == "slow":
        await asyncio.sleep(3)
    if how == "hang-up":
        # a length that is never reached: the connection ends in the middle of the body
        return Response('{"choices": [', headers={"Content-Length": "5000"}, media_type="application/json")
    if how == "at-most-5" and listed > 5:
        return error(400, "top_logprobs must be at most 5")
    if how == "no-logprobs":
        listed = 0
    if how == "no-chat" and chat:
        return error(404, "Not Found")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(ids) > WINDOW:
        return error(400, f"This model's maximum context length is {WINDOW} tokens, you sent {len(ids)}.")
    content = reply(body, ids, listed, chat=chat)
    seen["tokens"] += content["usage"]["total_tokens"]
    if how == "choices":
        content["choices"] *= 2
    if how == "no-usage":
        del content["usage"]
    answer = json.dumps(content)
    if how == "nan":
        answer = json.dumps(json.loads(answer, parse_float=lambda _: float("nan")))
    return Response(answer, media_type="application/json")


def reply(body: dict[str, Any], ids: list[int], listed: int, *, chat: bool) -> dict[str, Any]:
    """What the model writes, greedily, with the log-probabilities of everything."""
    start = 0 if body.get("echo") else len(ids)
    allowed = body.get("allowed_token_ids")
    written: list[int] = []
    with torch.inference_mode():
        while True:
            rows = model(input_ids=torch.tensor([ids + written])).logits[0].float().log_softmax(-1)
            if len(written) >= body["max_tokens"]:
                break
            last = rows[-1] if allowed is None else rows[-1][allowed]
            best = int(last.argmax())
            written.append(best if allowed is None else allowed[best])
            if written[-1] == tokenizer.eos_token_id:
                written.pop()
                break
    everything = ids + written
    places = []
    for place in range(start, len(everything)):
        if place == 0:
            places.append((words[everything[0]], None, []))
            continue
        row = rows[place - 1]
        top = row.topk(min(max(listed, 1), len(row))).indices.tolist()
        places.append(
            (
                words[everything[place]],
                row[everything[place]].item(),
                [(words[each], row[each].item()) for each in top],
            )
        )
    choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
    text = tokenizer.decode(everything[start:])
    if chat:
        choice["message"] = {"role": "assistant", "content": text}
        if listed:
            choice["logprobs"] = {
                "content": [
                    {
                        "token": token,
                        "logprob": logprob,
                        "top_logprobs": [{"token": other, "logprob": value} for other, value in top],
                    }
                    for token, logprob, top in places
                ]
            }
    else:
        choice["text"] = text
        if listed:
            choice["logprobs"] = {
                "tokens": [token for token, _, _ in places],
                "token_logprobs": [logprob for _, logprob, _ in places],
                "top_logprobs": [dict(top) if logprob is not None else None for _, logprob, top in places],
            }
    return {
        "object": "chat.completion" if chat else "text_completion",
        "model": "tiny-as-served",
        "system_fingerprint": "fp_1",
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(ids),
            "completion_tokens": len(written),
            "total_tokens": len(everything),
        },
    }


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a model from a thread of this process, which has torch imported already; yields the address."""
    global tokenizer, model
    tokenizer = AutoTokenizer.from_pretrained(folder)
    make: Any = AutoModelForCausalLM
    model = make.from_pretrained(folder, dtype=torch.float32).eval()
    words[:] = [tokenizer.decode([each]) for each in range(len(tokenizer))]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1"
    server.should_exit = True
    thread.join(timeout=10)
