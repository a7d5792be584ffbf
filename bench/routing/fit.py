"""Fits the weights of the matcher's signals to routing files, by the likelihood of their labels.

    cargo run --release -p patchboard-matcher --example routing -- FILE 0 5/1 5/2 10/1 20/0 20/1 40 --signals > FILE.signals
    python3 fit.py FILE FILE.signals [FILE FILE.signals …]

Prints the weights for `tuning.rs`, and for each file how good weights are that were fitted to the other files alone.
"""

import json
import sys

import numpy as np

# Weights are held near nothing by so much.
RIDGE = 2.0
WRONG = 0.03
# Every file counts like one of so many rows.
ROWS = 300


class Rows:
    """All rows of a file at one number of examples: signals of apps, of none, and the place of the right answer."""

    def __init__(self, labels, stage, apps):
        self.examples = stage["examples"]
        self.apps = np.array([row["apps"] for row in stage["decisions"]])
        self.none = np.array([row["none"] for row in stage["decisions"]])
        self.right = np.array([apps.index(label) if label else len(apps) for label in labels])


def read(path, signals):
    file = json.load(open(path))
    # The order of the apps in the program is that of their names.
    apps = sorted(file["apps"])
    labels = [label for _, label in file["test"]]
    stages = json.load(open(signals))
    for stage in stages:
        stage["decisions"] = stage["decisions"][: len(labels)]
    return [Rows(labels, stage, apps) for stage in stages]


def probabilities(rows, weights):
    count = rows.apps.shape[2]
    odds = np.concatenate([rows.apps @ weights[:count], (rows.none @ weights[count:])[:, None]], 1)
    odds = np.exp(odds - odds.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


def fit(stages):
    """Newton's method on the log likelihood."""
    count, nones = stages[0].apps.shape[2], stages[0].none.shape[1]
    weights = np.zeros(count + nones)
    for _ in range(30):
        gradient = -RIDGE * weights
        hessian = RIDGE * np.eye(len(weights))
        for rows in stages:
            found = probabilities(rows, weights)
            size, places = found.shape
            wide = np.zeros((size, places, len(weights)))
            wide[:, :-1, :count] = rows.apps
            wide[:, -1, count:] = rows.none
            mean = np.einsum("ra,raw->rw", found, wide)
            gradient += rows.weight * (wide[np.arange(size), rows.right] - mean).sum(0)
            centred = wide - mean[:, None, :]
            hessian += rows.weight * np.einsum("ra,rav,raw->vw", found, centred, centred)
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def weigh(stages):
    """Every number of examples counts alike, however often it was drawn, and every file, however long it is."""
    by_examples = {}
    for rows in stages:
        by_examples.setdefault(rows.examples, []).append(rows)
    for group in by_examples.values():
        for rows in group:
            rows.weight = ROWS / len(rows.right) / len(group)
    return stages


def judge(rows, weights):
    found = probabilities(rows, weights)
    best = found[:, :-1].argmax(1)
    confidence = found[np.arange(len(best)), best]
    is_right = best == rows.right
    has = rows.right < found.shape[1] - 1
    order = np.argsort(-confidence)
    wrong = np.cumsum(~is_right[order])
    within = wrong <= WRONG * len(best)
    at = within.sum()
    threshold = confidence[order][at - 1] if at else 1.0
    return (
        is_right[has].mean(),
        is_right[order][:at].sum() / len(best),
        threshold,
        confidence,
        is_right,
        ~has,
    )


def main():
    names = sys.argv[1::2]
    files = [weigh(read(*pair)) for pair in zip(sys.argv[1::2], sys.argv[2::2])]
    everything = [rows for file in files for rows in file]
    for at, (name, file) in enumerate(zip(names, files)):
        others = [rows for other, one in enumerate(files) for rows in one if other != at]
        weights = fit(others)
        print(name)
        for rows in file:
            top, right, threshold, confidence, is_right, none = judge(rows, weights)
            line = f"  {rows.examples:>3}: top-1 {top:.3f}, right at {WRONG:.0%} wrong {right:.3f} (from {threshold:.2f})"
            for at in (0.55, 0.65, 0.75):
                told = confidence >= at
                line += f" | {at}: right {(told & is_right).mean():.3f} wrong {(told & ~is_right).mean():.3f} none {told[none].mean():.2f}"
            print(line)
    weights = fit(everything)
    count = everything[0].apps.shape[2]
    print("app_weights:", [round(float(one), 2) for one in weights[:count]])
    print("none_weights:", [round(float(one), 2) for one in weights[count:]])


if __name__ == "__main__":
    main()
