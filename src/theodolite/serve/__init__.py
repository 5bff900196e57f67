"""The guard behind an address: requests into batches, verdicts out, bounds on everything that comes in.

    from theodolite.serve import Service, judging_of, run

    run(Service(judging_of(guard)), "127.0.0.1", 8000)

Requests are read (`reading`), pictures decoded in threads (`pictures`), rows of many requests judged in one
pass (`batching`) by whatever gives verdicts (`judging`), and answered (`answers`); all scores together are
watched for a change (`drift`). `door` keeps strangers out, `protocol` those who never finish what they say;
`server` starts and stops it all.
"""

from . import _extra as _extra
from .app import make_app
from .bounds import Bounds
from .drift import Watching
from .judging import Judging
from .opening import judging_of
from .server import run
from .service import Service

__all__ = ["Bounds", "Judging", "Service", "Watching", "judging_of", "make_app", "run"]
