"""A stand-in for `form_invariance/__main__.py` in tests of the graph: writes every output, notes every call."""

import json
import sys
import time
from itertools import permutations
from pathlib import Path


def run(words: list[str]) -> int:
    """Write the outputs that the options name; fail where the file `fail` names the command.

    Take long, once, where the file `slow` names an output; take many MB where `hungry` does.
    """
    slow, hungry = Path("slow"), Path("hungry")
    with Path("calls.jsonl").open("a") as file:
        file.write(json.dumps(words) + "\n")
    if Path("fail").exists() and Path("fail").read_text() == words[0]:
        print("error: census.parquet has no correct rows; choose another model", file=sys.stderr)
        return 2
    if slow.exists() and slow.read_text() in words:
        slow.unlink()
        time.sleep(600)
    if hungry.exists() and hungry.read_text().split()[0] in words:
        held = bytearray(int(hungry.read_text().split()[1]) << 20)
        time.sleep(4)
        del held
    values, option = {"": []}, ""
    for word in words[1:]:
        if word.startswith("--"):
            option = word
            values.setdefault(option, [])
        else:
            values[option].append(word)
    written = [paths for option, paths in values.items() if option.endswith(("output", "outputs"))]
    outputs = [path for paths in written for path in paths]
    (folder,) = values.get("--output-folder", [""])
    if words[0] == "paper-tables":
        names = ("census", "probe", "agreement", "heuristic_summary", "significance", "families")
        outputs += [f"{folder}/{name}.{suffix}" for name in names for suffix in ("csv", "md", "tex")]
    if words[0] == "transfer":
        formats = [Path(path).parts[-3] for path in values["--censuses"]]
        outputs += [f"{folder}/{donor}_to_{target}.parquet" for donor, target in permutations(formats, 2)]
    for path in outputs:
        Path(path).write_text(" ".join(words))
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
