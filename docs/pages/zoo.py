"""docs/zoo.md: what the audit says of each correct model, from docs/data/zoo.jsonl."""

HEAD = """# The zoo

Models that are right, published ones and odd ones, and what the audit says of them. Made by
`tox -e docs` from the lines that `tox -e zoo` left in docs/data/zoo.jsonl; do not edit. Where a
check fails and rightly so it counts as found: see [findings](findings.md). What a model offers is
what was found and judged. Seconds are of the machine that ran it, busy or not, loading left out.

Models in this table: {count}.
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


def line_of(report, package, model):
    """What docs/data/zoo.jsonl keeps of a report, as plain values."""
    count = report["summary"]
    return {
        "package": package,
        "model": model,
        "verdict": report["verdict"],
        "passed": count["passed"],
        "not_applicable": count["not_applicable"],
        "found": count["expected_failures"],
        "seconds": round(report["cost"]["seconds"], 1),
        "offers": offers(report),
        "is": anatomy_of(report),
    }


def page(lines):
    """docs/zoo.md, in Markdown; of two lines of one model the later counts."""
    kept = {(line["package"], line["model"]): line for line in lines}
    table = [
        "| package | model | verdict | passed | not applicable | found | seconds | offers | is |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            "| " + " | ".join(str(value or "") for value in kept[key].values()) + " |"
            for key in sorted(kept)
        ),
    ]
    return "\n".join([HEAD.format(count=len(kept)), *table]) + "\n"
