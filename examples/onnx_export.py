"""ONNX: score, calibration and verdict in one file, which runs where there is no PyTorch and no theodolite.

Here the graph takes the features of a scikit-learn classifier. With a torch model, `guard.attach(model)`, it
holds the model as well and takes images.
Install: pip install 'theodolite[onnx]' scikit-learn
"""

import tempfile

import numpy as np
import onnxruntime
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import theodolite as th

pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 16).astype("float32")
train, held_out, test = pixels[:800], pixels[800:1600], pixels[1600:]
sideways = np.rot90(test.reshape(-1, 8, 8), axes=(1, 2)).reshape(-1, 64)

classifier = LogisticRegression(max_iter=2000).fit(train, digits[:800])
head = th.Head(classifier.coef_, classifier.intercept_)
guard = th.Guard.fit(train, digits[:800], head=head, calibration=held_out)

with tempfile.TemporaryDirectory() as folder:
    written = guard.export(f"{folder}/guard.onnx", check=test)  # one that differs from PyTorch is not written
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(f"{folder}/guard.onnx", options)
    print("inputs:", *(given.name for given in session.get_inputs()))
    for what, rows in (("as they are", test), ("on their side", sideways)):
        predicted, is_ood = session.run(["predicted", "is_ood"], {"features": rows})
        right = (predicted == digits[1600:]).mean()
        print(f"digits {what}: {right:.0%} recognised, {is_ood.mean():.0%} flagged")
        assert (is_ood == guard.verdicts(rows).is_ood).all()
print("the verdicts are those of PyTorch")
