"""What scores cost together, against the sum of what they cost alone: `theodolite.score_many`.

    python speed/together_speed.py

N = 4,096 rows, D = 2,048, C = 1,000, float32, fitted on 4,000 rows. The twelve are those that share least and most:
logits only, angles, the metric, and every score with a product in float64. Exit code 1 if a promise is broken.
"""

# Chosen before any of them was measured.
TWELVE = (
    "msp",
    "maxlogit",
    "energy",
    "ora",
    "fdbd",
    "relative-energy",
    "ora?metric=mahalanobis",
    "mds",
    "rmds",
    "maha+",
    "vim",
    "neco",
)
