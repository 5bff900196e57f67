"""CLINC150 (Larson et al., EMNLP 2019): 150 intents against utterances that are out of scope.

    train   15,000   to fit on, 100 an intent
    val      3,000   20 an intent; no part of the protocol
    test     4,500   held out, 30 an intent
    oos      1,000   out of scope, the OOD set

The file has 100 more out-of-scope utterances to train on and 100 to validate: neither has a part, for a score
is fitted on in-scope data alone.
"""

from __future__ import annotations

from .datasets import Dataset, Split, register_dataset
from .feature_sets import FIT, TEST
from .protocols import Protocol, ProtocolSet, register_protocol

NAME = "clinc150"
_PLACES = ("clinc150/data_full.json", "clinc150-minilm/data_full.json")

register_dataset(
    Dataset(
        NAME,
        "CLINC150",
        {
            "train": Split(
                15_000,
                _PLACES,
                kind="clinc150-train",
                listing="64ddc1f0034848cf2a8f6a905c152daf0f2ee0ff3a3499a97858cfa9fa146156",
            ),
            "val": Split(
                3_000,
                _PLACES,
                kind="clinc150-val",
                listing="8e07dc72978a0f3b36a864022ccdfd6e83c48de712d51052c3f8c6584081a7d0",
            ),
            "test": Split(
                4_500,
                _PLACES,
                kind="clinc150-test",
                listing="e64d8bf71a6f9d7f5f4662a72b63468f5df89a8e4a680d525c58b5d486d2a5aa",
            ),
            "oos": Split(
                1_000,
                _PLACES,
                kind="clinc150-oos",
                listing="2376ca64e9553653e92256c3e24725208e5438083d8104cfaa42110b5675396a",
            ),
        },
        "https://github.com/clinc/oos-eval, data/data_full.json as it is, in a folder clinc150",
    )
)
register_protocol(
    Protocol(
        NAME,
        "CLINC150 against utterances out of its scope",
        ProtocolSet(FIT, NAME, "train"),
        ProtocolSet(TEST, NAME, "test"),
        (ProtocolSet("oos", NAME, "oos"),),
    )
)
