"""Playing trials: plain asyncio, without Ray, over three small protocols."""
