"""The server of OpenAI's API."""
