"""Models as texts: sound without a fault, in each way they can be built; designs are no faults."""

import pytest

import theodolite
from theodolite.properties.mutants import load_hosts, load_mutants
from theodolite.properties.mutants.hosts import TextHost

HOSTS = {host.name: host for host in load_hosts() if isinstance(host, TextHost)}
MUTANTS = {each.name: each for each in load_mutants()}
INSIDE = ("inside", "heads", "rope", "norm", "feed_forward", "residual", "assembly", "batch")
SERVING = ("cache", "padding", "positions", "loss", "generation", "init", "tying")
STATE = (
    "packing", "loss", "modules", "gradient.every_parameter", "parameters", "tying", "declared",
    "state",
)  # fmt: skip
SPARSE = (
    "window", "cache", "declared.window", "logits", "experts", "feed_forward",
    "declared.feed_forward", "batch", "groups", "heads",
)  # fmt: skip
TRAINING = ("precision", "gradient", "backend")
COMPILER = ("backend.compiled", "backend.exported")
SLOW = pytest.mark.slow

SOUND = [
    ("by_hand", None, {}, {}),
    ("by_hand", None, {"config.flash": True}, {}),
    ("by_hand", None, {"config.n_expert": 4}, {}),
    *(
        ("serving", SERVING, settings, {})
        for settings in (
            {}, {"config.scheme": "learned"}, {"config.scheme": "alibi"}, {"config.window": 5},
            {"config.flash": True}, {"config.tied": True},
        )
    ),
    ("serving", STATE, {}, {}),
    (
        "sparse", SPARSE, {},
        {"window": 7, "active_experts": 2, "normalised_shares": True, "groups": "neighbours"},
    ),
    (
        "sparse", SPARSE, {"config.stacked": True, "config.shared": 40},
        {"shared_width": 40, "experts": 4},
    ),
    ("sparse", SPARSE, {"config.every": 2, "config.fused": True}, {"window": [7, None]}),
    ("sparse", SPARSE, {"config.window": 0, "config.chunk": 5}, {"chunk": 5, "window": None}),
    ("sparse", SPARSE, {"config.top_k": 3, "config.n_expert": 5}, {"active_experts": 3}),
    ("training", TRAINING, {}, {}),
    ("training", TRAINING, {"config.dropout": 0.1}, {}),
]  # fmt: skip
LIBRARY = [
    ("llama-text", {}, (*INSIDE, *TRAINING)),
    ("llama-text", {"attention": "sdpa"}, TRAINING),
    ("gpt2-text", {}, TRAINING),
    ("gpt2-text", {"attention": "sdpa"}, TRAINING),
    ("mistral-text", {}, ("window", "cache", "declared.window", "logits")),
    ("mixtral-text", {}, ("experts", "feed_forward", "declared.feed_forward", "batch")),
    ("llama-text", {}, ("groups", "heads")),
]


def said(report):
    return [f"{check.id} {check.component}: {check.message}" for check in report.failures]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "select", "settings", "declare"), SOUND, ids=str)
def test_a_model_without_a_fault_passes(name, select, settings, declare, tmp_path):
    spec = HOSTS[name].write(tmp_path)
    report = theodolite.audit(spec, select=select, settings=settings, declare=declare)
    assert report.verdict == "pass", said(report)
    if name == "training":
        found = {check.id for check in report.checks if check.outcome == "passed"}
        assert {"precision.late", "gradient.slope", "gradient.checkpointing"} <= found
    if select is STATE:
        assert "documents packed into one row are told apart by document_ids" in report.notes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "settings", "select"), LIBRARY, ids=str)
def test_a_library_s_model_without_a_fault_passes(name, settings, select, tmp_path):
    pytest.importorskip("transformers")
    file = tmp_path / "host.py"
    file.write_text(HOSTS[name].text(**settings), encoding="utf-8")
    options = HOSTS[name].options()
    report = theodolite.audit(f"{file}:small", select=select, declare=options["declare"])
    assert report.verdict == "pass", said(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-text", "gpt2-text"])
def test_a_library_s_model_passes_what_knows_of_serving_and_building(name, tmp_path):
    pytest.importorskip("transformers")
    groups = (*SERVING[:3], *STATE, "declared.tied", "init", "vocabulary")
    report = theodolite.audit(HOSTS[name].write(tmp_path), select=groups)
    assert report.verdict == "pass", said(report)


@pytest.mark.parametrize("name", ["by_hand", "llama-text"])
def test_learned_sinks_as_a_factor_are_a_design(name, tmp_path):
    if name not in HOSTS:
        pytest.skip("transformers is not installed")
    spec = HOSTS[name].write(tmp_path, "sinks-as-a-factor")
    report = theodolite.audit(spec, select=INSIDE)
    assert report.verdict == "pass", said(report)


def test_a_cache_that_is_kept_inside_passes(tmp_path):
    spec = HOSTS["serving"].write(tmp_path).replace(":Model", ":Stateful")
    report = theodolite.audit(spec, select=SERVING)
    assert report.verdict == "pass", said(report)


def test_a_loss_of_logits_that_are_almost_alike_is_no_other_loss(tmp_path):
    """Losses then differ by hardly more than rounding."""
    source = HOSTS["serving"].text()
    made = "        self.apply(self._init)\n"
    assert source.count(made) == 1
    faint = (
        made + "        self.ln_f.weight = nn.Parameter(torch.arange(config.n_embd) // 47 * 1e-3)\n"
    )
    file = tmp_path / "faint.py"
    file.write_text(source.replace(made, faint), encoding="utf-8")
    report = theodolite.audit(f"{file}:Model", select="loss")
    outcomes = {check.id: check.outcome for check in report.checks}
    assert outcomes["loss.count"] == outcomes["loss.accumulation"] == "passed", outcomes
    assert report.verdict == "pass", said(report)


def test_a_declared_scale_is_held_to(tmp_path):
    spec = HOSTS["by_hand"].write(tmp_path, "no-scale")
    declared = theodolite.audit(spec, select=INSIDE, declare={"scale": 1.0})
    assert declared.verdict == "pass", said(declared)
    wrong = theodolite.audit(
        HOSTS["by_hand"].write(tmp_path), select=INSIDE, declare={"scale": 1.0}
    )
    assert [check.id for check in wrong.failures] == ["inside.scale"]


def test_groups_that_take_turns_are_a_fault_where_neighbours_are_declared(tmp_path):
    repeat = "repeat_interleave(self.n_head // self.n_kv_head, dim=1)"
    source = HOSTS["by_hand"].text()
    assert source.count(repeat) == 2
    file = tmp_path / "host.py"
    file.write_text(source.replace(repeat, "repeat(1, 3, 1, 1)"), encoding="utf-8")
    assert theodolite.audit(f"{file}:Model", select="heads").verdict == "pass"
    declare = {"groups": "neighbours"}
    declared = theodolite.audit(f"{file}:Model", select="heads", declare=declare)
    assert [check.cause for check in declared.failures] == ["groups-tiled"]


def test_a_missing_final_norm_can_be_declared_and_is_then_held_to(tmp_path):
    options = {"declare": {"final_norm": False}, "select": "assembly"}
    spec = HOSTS["by_hand"].write(tmp_path, "no-final-norm")
    assert theodolite.audit(spec, **options).verdict == "pass"
    assert theodolite.audit(HOSTS["by_hand"].write(tmp_path), **options).verdict == "fail"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["scale-doubled-when-compiled", "mask-left-out-of-the-export"])
def test_what_only_a_compiler_sees_is_seen_by_its_checks_alone(name, tmp_path):
    spec = HOSTS["training"].write(tmp_path, name)
    report = theodolite.audit(spec, select=COMPILER, time_limit=600)
    assert {check.id for check in report.failures} == set(MUTANTS[name].caught_by)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("spec", ["training", "reference", "hf:llama", "hf:gpt2"])
def test_compiled_and_exported_models_pass(spec, tmp_path):
    if spec.startswith("hf:"):
        pytest.importorskip("transformers")
    spec = HOSTS[spec].write(tmp_path) if spec in HOSTS else spec
    report = theodolite.audit(spec, select=COMPILER, time_limit=600)
    assert {check.outcome for check in report.checks} == {"passed"}, report.to_dict()


def test_a_standard_audit_neither_compiles_nor_exports(tmp_path):
    report = theodolite.audit(HOSTS["training"].write(tmp_path), select="backend")
    assert {check.id for check in report.checks} == {"backend.agree", "backend.modes"}


def test_a_window_that_the_library_forgets_when_fused_is_seen_in_the_other_backend():
    host = {each.name: each for each in load_hosts()}.get("library")
    if host is None:
        pytest.skip("transformers is not installed")
    mutant = MUTANTS["configured-window-ignored-when-fused"]
    with mutant.applied(host):
        report = theodolite.audit(host.subject(mutant), select="window")
    (check,) = report.failures
    assert (check.id, check.component, check.cause) == ("window.field", "window", "window-ignored")
    assert check.where["view"] == "other backend"


def test_a_configured_sharing_that_the_library_does_not_read():
    pytest.importorskip("transformers")
    settings = {"norm_topk_prob": True}
    report = theodolite.audit("hf:deepseek_v2", select="experts", settings=settings)
    assert [check.id for check in report.failures] == ["experts.normalised"]
    assert "norm_topk_prob = True" in report.failures[0].message
