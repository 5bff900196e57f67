"""Tests never reach for the network: a missing download is an error at once, not after retries."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
