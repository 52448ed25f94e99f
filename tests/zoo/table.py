"""Write docs/zoo.md out of the lines that a run of the zoo left.

THEODOLITE_ZOO=zoo.jsonl pytest -m zoo tests/zoo && python tests/zoo/table.py zoo.jsonl docs/zoo.md
"""

import json
import sys
from pathlib import Path

HEAD = """# The zoo

Models that are right, published ones and odd ones, and what the audit says of them. Made by
`tests/zoo/table.py` from a run of `tox -e zoo`; do not edit. Where a check fails and rightly so it
counts as found: see [findings](findings.md). What a model offers is what was found and judged.
Seconds are of the machine that ran it, busy or not,
loading left out. Models in this table: {count}.
"""


def anatomy_of(report):
    """What was measured, in a line."""
    found = report.get("anatomy") or {}
    layers = found.get("attention") or []
    parts = [f"{len(layers)} layers"]
    if layers:
        heads, shared = layers[0]["heads"], layers[0]["kv_heads"]
        parts.append(f"{heads} heads" + (f" on {shared}" if shared not in (None, heads) else ""))
        scales = sorted({round(x["scale"], 3) for x in layers if x["scale"] is not None})
        parts += [f"scale {'/'.join(map(str, scales))}"] if scales else []
        for key, said in (("window", "window"), ("soft_cap", "cap"), ("sinks", "sinks")):
            values = sorted({x[key] for x in layers if x.get(key)})
            parts += [f"{said} {'/'.join(f'{v:g}' for v in values)}"] if values else []
        parts += ["QK norm"] if any(x.get("qk_norm") for x in layers) else []
    parts.append(found.get("positions") or "positions not read")
    norm, assembly = found.get("norm"), found.get("assembly")
    parts += [f"{norm['kind']} norm"] if norm else []
    if assembly:
        parts.append(assembly["placement"] + (", parallel" if assembly["parallel"] else ""))
    feeds = found.get("feed_forward") or []
    if feeds:
        gate = " gated" if feeds[0]["gated"] else ""
        parts.append(f"{feeds[0]['activation'] or 'activation not read'}{gate}")
        parts += [f"{feeds[0]['experts']} experts"] if feeds[0].get("experts") else []
    parts += ["tied"] if found.get("tied") else []
    return ", ".join(parts)


OFFERED = (
    "cache", "padding", "positions.shift", "loss", "generation", "packing", "window", "experts",
    "groups", "tying", "precision.late", "gradient.checkpointing", "backend.agree", "state.files",
)  # fmt: skip


def offers(report):
    """The capabilities that were found, and judged: groups of checks, or single ones."""
    judged = {c["id"] for c in report["checks"] if c["outcome"] not in ("not_applicable", "error")}
    found = [name for name in OFFERED if any(c == name or c.startswith(f"{name}.") for c in judged)]
    return ", ".join(name.rpartition(".")[2] for name in found)


def rows(lines):
    kept = {(line["package"], line["name"]): line for line in lines}  # the last run of each
    for package, name in sorted(kept):
        line = kept[package, name]
        count, seconds = line["summary"], line["cost"]["seconds"]
        yield (
            f"| {package} | {name} | {line['verdict']} | {count['passed']} | "
            f"{count['not_applicable']} | {count['expected_failures'] or ''} | "
            f"{seconds:.1f} | {offers(line)} | {anatomy_of(line)} |"
        )


def main():
    source, target = map(Path, sys.argv[1:])
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    table = [
        "| package | model | verdict | passed | not applicable | found | seconds | offers | is |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows(lines),
    ]
    head = HEAD.format(count=len(table) - 2)
    target.write_text(head + "\n" + "\n".join(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
