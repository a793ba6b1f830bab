"""Fetches the orders of a small shop. Sample code for the quickstart; nothing here connects anywhere."""

import asyncio

PRICES = {"tea": 4.5, "coffee": 6.0, "cocoa": 5.2}


async def fetch_order(number: int) -> dict[str, object]:
    await asyncio.sleep(0)
    items = list(PRICES)
    return {"number": number, "item": items[number % len(items)], "count": 1 + number % 4}


async def fetch_orders(count: int) -> list[dict[str, object]]:
    return [await fetch_order(number) for number in range(count)]
