"""For schemathesis, as the module of its hooks: a NumPy file is one of features, not any bytes."""

from __future__ import annotations

import numpy as np
import schemathesis
from hypothesis import strategies as st

from live_service import npy

WIDTH = 16
_numbers = st.floats(-1e6, 1e6, width=32)
_rows = st.lists(st.lists(_numbers, min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=4)

for kind in ("application/x-npy", "application/octet-stream"):
    schemathesis.openapi.media_type(kind, _rows.map(lambda rows: npy(np.array(rows, dtype=np.float32))))
