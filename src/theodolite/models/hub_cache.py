"""The Hugging Face cache, looked at without fetching anything."""

from __future__ import annotations

from pathlib import Path


def in_hub_cache(repository: str) -> bool:
    """Whether any weights of a Hugging Face repository are in the local cache."""
    try:
        from huggingface_hub.constants import HF_HUB_CACHE
    except ImportError:
        return False
    snapshots = Path(HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}" / "snapshots"
    return any(
        path.is_file() for pattern in ("*.safetensors", "*.bin") for path in snapshots.glob(f"*/{pattern}")
    )
