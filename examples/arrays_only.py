"""Arrays only: features, labels and the last layer of any classifier, here scikit-learn's, as NumPy arrays.

Digits 0 to 7 are the classes the classifier knows; 8 and 9 are out of distribution.
Install: pip install theodolite scikit-learn
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import theodolite as th

pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 16).astype("float32")
known = digits < 8
train, train_labels = pixels[known][:1000], digits[known][:1000]
test, unknown = pixels[known][1000:], pixels[~known]

classifier = LogisticRegression(max_iter=2000).fit(train, train_labels)
head = th.Head(classifier.coef_, classifier.intercept_)

detectors = [th.create(name) for name in ("ora", "fdbd", "msp", "mds", "knn")]
th.fit_many(detectors, train, train_labels, head=head)  # one pass over the data for all of them
for detector in detectors:
    id_scores, ood_scores = detector.score(test), detector.score(unknown)
    print(
        f"{detector.record.title:>5}  AUROC {th.auroc(id_scores, ood_scores):.3f}"
        f"  FPR95 {th.fpr_at_tpr(id_scores, ood_scores):.3f}"
    )

ora = detectors[0]
flagged = th.Calibration(ora.score(test)).is_ood(ora.score(unknown), false_alarm_rate=0.05)
print(f"at a false-alarm rate of 5 %, ORA flags {flagged.mean():.0%} of the 8s and 9s")
