"""Prints what the shop sold. Sample code for the quickstart."""

import asyncio

from orders import PRICES, fetch_orders


async def main() -> None:
    orders = await fetch_orders(12)
    total = sum(PRICES[str(order["item"])] * int(str(order["count"])) for order in orders)
    print(f"{len(orders)} orders, {total:.2f} in all")


if __name__ == "__main__":
    asyncio.run(main())
