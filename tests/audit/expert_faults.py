"""Faults of experts and their router: in a hand-written model, and in a Hugging Face mixtral."""

from hosts import Fault

TOPK = "weights, chosen = shares.topk(self.top_k, dim=-1)"
DIVIDE = "weights = weights / weights.sum(dim=-1, keepdim=True)"
SOFTMAX = "shares = self.router(x).softmax(dim=-1)"
LOOP = "for i in range(self.n_expert):"
ADDED = "y = weights[token, place, None] * self.experts(i, x[token])"
LISTED = """self.each = nn.ModuleList(
            MLP(config.n_embd, 2 * config.n_embd) for _ in range(config.n_expert)
        )"""

BY_HAND = [
    Fault(
        "E02",
        "moe",
        None,
        ((DIVIDE, "weights = weights / weights.sum(dim=0, keepdim=True)"),),
    ),
    Fault(
        "E03-not-divided",
        "moe",
        "shares-not-normalised",
        ((DIVIDE, ""),),
        declare={"normalised_shares": True},
    ),
    Fault(
        "divided-unasked",
        "moe",
        "shares-normalised",
        (),
        declare={"normalised_shares": False},
    ),
    Fault(
        "E03-another-k",
        "moe",
        "active-experts-differ",
        ((TOPK, TOPK.replace("self.top_k", "3")),),
        declare={"active_experts": 2},
    ),
    Fault(
        "softmax-over-tokens",
        "moe",
        None,
        ((SOFTMAX, SOFTMAX.replace("dim=-1", "dim=0")),),
    ),
    Fault(
        "first-choice-alone",
        "moe",
        "active-experts-differ",
        (("torch.where(chosen == i)", "torch.where(chosen[:, :1] == i)"),),
        declare={"active_experts": 2},
    ),
    Fault(
        "detached",
        "moe",
        "router-detached",
        ((DIVIDE, DIVIDE + "\n        weights = weights.detach()"),),
    ),
    Fault(
        "equal-shares",
        "moe",
        "router-detached",
        ((DIVIDE, "weights = torch.full_like(weights, 1 / self.top_k)"),),
    ),
    Fault(
        "one-expert-divided-by-itself",
        "moe",
        "router-without-say",
        (),
        {"config.top_k": 1},
    ),
    Fault(
        "shares-in-another-order",
        "moe",
        "share-of-another-expert",
        ((DIVIDE, DIVIDE.replace("weights / ", "weights.flip(-1) / ")),),
    ),
    Fault(
        "experts-sorted-shares-not",
        "moe",
        "share-of-another-expert",
        ((TOPK, TOPK + "\n        chosen, weights = chosen.flip(-1), weights"),),
    ),
    Fault(
        "loop-one-short",
        "moe",
        "expert-unreachable",
        ((LOOP, "for i in range(self.n_expert - 1):"),),
    ),
    Fault(
        "first-expert-skipped",
        "moe",
        "expert-unreachable",
        ((LOOP, "for i in range(1, self.n_expert):"),),
        {"config.stacked": True},
    ),
    Fault(
        "one-expert-for-all",
        "moe",
        "experts-are-one",
        ((LISTED, "self.each = nn.ModuleList([MLP(config.n_embd, 96)] * config.n_expert)"),),
    ),
    Fault(
        "shares-squared",
        "moe",
        "shares-not-normalised",
        ((ADDED, ADDED.replace("[token, place, None]", "[token, place, None].square()")),),
        declare={"normalised_shares": True},
    ),
    Fault(
        "shared-network-left-out",
        "moe",
        "shared-width-differs",
        (
            (
                "out = torch.zeros_like(x) if self.shared is None else self.shared(x)",
                "out = torch.zeros_like(x)",
            ),
        ),
        {"config.shared": 40},
        {"shared_width": 40},
    ),
]

TOP = (
    "router_top_value, router_indices = torch.topk(router_probs, self.top_k, dim=-1)"
    "  # (seq_len, top_k)"
)
SUM = "router_top_value /= router_top_value.sum(dim=-1, keepdim=True)"
SCORES = "router_scores = router_top_value\n"

MIXTRAL = [
    Fault("E02", "moe", None, ((SUM, SUM.replace("dim=-1", "dim=0")),)),
    Fault("E03-not-divided", "moe", "shares-not-normalised", ((SUM, ""),)),
    Fault(
        "E03-another-k",
        "moe",
        "active-experts-differ",
        ((TOP, TOP.replace("self.top_k,", "self.top_k + 1,")),),
    ),
    Fault(
        "softmax-over-tokens",
        "moe",
        None,
        (("softmax(router_logits.float(), dim=-1)", "softmax(router_logits.float(), dim=0)"),),
    ),
    Fault(
        "detached",
        "moe",
        "router-detached",
        ((SCORES, "router_scores = router_top_value.detach()\n"),),
    ),
    Fault(
        "shares-in-another-order",
        "moe",
        "share-of-another-expert",
        ((SCORES, "router_scores = router_top_value.flip(-1)\n"),),
    ),
    Fault(
        "loop-one-short",
        "moe",
        "expert-unreachable",
        (("if expert_idx == self.num_experts:", "if expert_idx >= self.num_experts - 1:"),),
    ),
    Fault(
        "first-choice-alone",
        "moe",
        "active-experts-differ",
        (
            (
                "top_k_pos, token_idx = torch.where(expert_mask[expert_idx])",
                "top_k_pos, token_idx = torch.where(expert_mask[expert_idx][:1])",
            ),
        ),
    ),
]
