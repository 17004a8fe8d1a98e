"""Pure decisions: no client, no asyncio, no clock, no random. Time comes in as an argument."""
