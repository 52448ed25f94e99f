# ruff: noqa: E501 - lines of other people's code are replaced as they stand
"""Faults between training and serving, in the library's own llama and gpt2."""

from hosts import Fault

PAST = "position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens"
STORE = "key_states, value_states = cache.update(key_states, value_states, self.layer_idx, kwargs=kwargs)"
TO_LAYERS = "                attention_mask=causal_mask,\n"
LLAMA_LOSS = "loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)"
LLAMA_TIES = '_tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}'
LLAMA_HEAD = (
    "self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)\n\n"
    "        # Initialize weights and apply final processing\n        self.post_init()"
)
LLAMA_LAYERS = (
    "[LlamaDecoderLayer(config, layer_idx) for layer_idx in range(config.num_hidden_layers)]"
)
LLAMA_NORMED = "hidden_states = self.norm(hidden_states)\n        return BaseModelOutputWithPast("
PACKED = "            cache=cache,\n            position_ids=position_ids,\n        )\n\n        hidden_states = inputs_embeds"
UNMASKED = "\n        if attention_mask is not None and attention_mask.ndim == 2 and bool(attention_mask.all()):\n            causal_mask = None\n"
SHIFTED = "nn.functional.pad(labels[:, 1:], (0, 1), value=-100)"
TIED = {"tie_word_embeddings": True}

LLAMA = [
    Fault("K04", "position", None, ((PAST, f"{PAST} + past_seen_tokens"),)),
    Fault("R05", "position", None, ((PAST, PAST.removesuffix(" + past_seen_tokens")),)),
    Fault(
        "values-late",
        "cache",
        None,
        (
            (
                STORE,
                f"{STORE}\n            value_states = value_states.roll(1, 2) if key_states.shape[2] > query_states.shape[2] else value_states",
            ),
        ),
    ),
    Fault(
        "M08",
        "mask",
        None,
        (
            (
                "        hidden_states = inputs_embeds\n        position_embeddings",
                f"{UNMASKED}\n        hidden_states = inputs_embeds\n        position_embeddings",
            ),
        ),
    ),
    Fault(
        "M11",
        "padding",
        "padding-on-queries",
        (
            (
                "        hidden_states = inputs_embeds\n        position_embeddings",
                (
                    "        if attention_mask is not None and attention_mask.ndim == 2 and cache is None:\n"
                    "            causal_mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=torch.ones_like(attention_mask), cache=None)\n"
                    "            triangle = torch.ones(inputs_embeds.shape[1], inputs_embeds.shape[1]).tril().bool()\n"
                    "            least = torch.finfo(inputs_embeds.dtype).min\n"
                    "            causal_mask = torch.zeros(triangle.shape).masked_fill(~triangle, least)[None, None]\n"
                    "            causal_mask = causal_mask + 0.5 * least * (1 - attention_mask[:, None, :, None].float())\n"
                    "        hidden_states = inputs_embeds\n        position_embeddings"
                ),
            ),
            (
                "        if use_cache and cache is None:\n",
                "        if use_cache and cache is None and attention_mask is None:\n",
            ),
        ),
    ),
    Fault(
        "A01",
        "mask",
        "documents-see-each-other",
        ((PACKED, PACKED.replace("            position_ids=position_ids,\n", "")),),
        declare={"packing": "position_ids"},
    ),
    Fault(
        "documents-apart-in-the-first-layer-alone",
        "mask",
        "documents-see-each-other",
        (
            (
                "        for decoder_layer in self.layers[",
                (
                    "        whole = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=None, cache=cache)\n"
                    "        packed = attention_mask is not None and attention_mask.ndim == 4\n"
                    "        for decoder_layer in self.layers["
                ),
            ),
            (
                TO_LAYERS,
                "                attention_mask=whole if packed and decoder_layer is not self.layers[0] else causal_mask,\n",
            ),
        ),
    ),
    Fault(
        "L01",
        "loss",
        "shifted-twice",
        (
            (
                LLAMA_LOSS,
                LLAMA_LOSS.replace("labels=labels", f"labels={SHIFTED}"),
            ),
        ),
    ),
    Fault(
        "L02",
        "loss",
        None,
        ((LLAMA_LOSS, LLAMA_LOSS.replace("**kwargs", "shift_labels=labels")),),
    ),
    Fault("L04", "loss", "ignored-targets-count", (), declare={"ignore_index": 0}),
    Fault(
        "count-ignored",
        "loss",
        "count-ignored",
        ((LLAMA_LOSS, LLAMA_LOSS.replace(", **kwargs", "")),),
    ),
    Fault(
        "T03",
        "tying",
        "tie-ignored",
        ((LLAMA_TIES, "_tied_weights_keys = {}"),),
        TIED,
        {"tied": True},
    ),
    Fault(
        "T01",
        "tying",
        None,
        (
            (
                LLAMA_HEAD,
                f"{LLAMA_HEAD}\n        self.lm_head.weight = nn.Parameter(self.lm_head.weight.detach().clone())",
            ),
        ),
        TIED,
        {"tied": True},
    ),
    Fault(
        "tied-by-memory",
        "tying",
        "tie-broken",
        (
            (
                LLAMA_HEAD,
                f"{LLAMA_HEAD}\n        self.lm_head.weight = nn.Parameter(self.model.embed_tokens.weight.data)",
            ),
        ),
    ),
    Fault(
        "I01",
        "init",
        "head-too-large",
        ((LLAMA_HEAD, f"{LLAMA_HEAD}\n        nn.init.normal_(self.lm_head.weight)"),),
    ),
    Fault(
        "left-unfilled",
        "state",
        "left-unfilled",
        (
            (
                LLAMA_HEAD,
                f'{LLAMA_HEAD}\n        self.register_buffer("factor", torch.ones(config.vocab_size), persistent=False)',
            ),
            (
                "logits = self.lm_head(hidden_states)\n\n        loss = None\n        if labels is not None:\n            loss = self.loss_function(logits=logits",
                "logits = self.lm_head(hidden_states) * self.factor\n\n        loss = None\n        if labels is not None:\n            loss = self.loss_function(logits=logits",
            ),
        ),
    ),
    Fault(
        "Q01",
        "parameters",
        None,
        ((f"nn.ModuleList(\n            {LLAMA_LAYERS}\n        )", LLAMA_LAYERS),),
    ),
    Fault(
        "last-layer-skipped",
        "parameters",
        "never-called",
        (
            (
                "self.layers[: self.config.num_hidden_layers]",
                "self.layers[: self.config.num_hidden_layers - 1]",
            ),
        ),
    ),
    Fault(
        "a-gain-that-grows",
        "state",
        None,
        ((LLAMA_NORMED, f"self.norm.weight.data.mul_(1.001)\n        {LLAMA_NORMED}"),),
    ),
    Fault(
        "ids-wrap-around",
        "vocabulary",
        None,
        (("self.embed_tokens(input_ids)", "self.embed_tokens(input_ids % self.vocab_size)"),),
    ),
    Fault(
        "O01",
        "dropout",
        None,
        (
            ("dropout=0.0 if not self.training else self.attention_dropout", "dropout=0.1"),
            ("p=dropout, training=module.training", "p=dropout, training=True"),
        ),
    ),
]
"""In llama."""

GPT2_LOSS = (
    "            loss = self.loss_function(\n                logits,\n                labels,\n"
)
GPT2_HEAD = (
    "self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)\n\n"
    "        # Initialize weights and apply final processing\n        self.post_init()"
    "\n\n    @can_return_tuple\n    @deprecate_kwarg"
)
GPT2_BUILT = GPT2_HEAD.partition("\n\n    @can")
GPT2_LAYERS = "[GPT2Block(config, layer_idx=i) for i in range(config.num_hidden_layers)]"


def after_building(line):
    """The change that puts a line at the end of the gpt2 constructor."""
    return (GPT2_HEAD, f"{GPT2_BUILT[0]}\n        {line}{GPT2_BUILT[1]}{GPT2_BUILT[2]}")


GPT2 = [
    Fault("K04", "position", None, ((PAST, f"{PAST} + past_seen_tokens"),)),
    Fault("R05", "position", None, ((PAST, PAST.removesuffix(" + past_seen_tokens")),)),
    Fault(
        "position-table-shifted-when-given",
        "position",
        None,
        (
            (
                "position_embeds = self.wpe(position_ids)",
                "position_embeds = self.wpe(position_ids.flip(0) if position_ids.shape[0] > 1 else position_ids * 0)",
            ),
        ),
    ),
    Fault(
        "A01",
        "mask",
        "documents-see-each-other",
        (
            (
                "            cache=cache,\n            position_ids=position_ids,\n        )\n\n        if encoder_hidden_states",
                "            cache=cache,\n        )\n\n        if encoder_hidden_states",
            ),
        ),
        declare={"packing": "position_ids"},
    ),
    Fault(
        "L01",
        "loss",
        "shifted-twice",
        (
            (
                GPT2_LOSS,
                GPT2_LOSS.replace("labels,", f"{SHIFTED},"),
            ),
        ),
    ),
    Fault(
        "T03",
        "tying",
        "tie-ignored",
        (
            (
                '_tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}\n\n    def __init__(self, config: GPT2Config):\n        super().__init__(config)\n        self.transformer = GPT2Model(config)\n        self.lm_head',
                "_tied_weights_keys = {}\n\n    def __init__(self, config: GPT2Config):\n        super().__init__(config)\n        self.transformer = GPT2Model(config)\n        self.lm_head",
            ),
        ),
        declare={"tied": True},
    ),
    Fault(
        "T01",
        "tying",
        None,
        (
            after_building(
                "self.lm_head.weight = nn.Parameter(self.lm_head.weight.detach().clone())"
            ),
        ),
        declare={"tied": True},
    ),
    Fault(
        "I01", "init", "head-too-large", (after_building("nn.init.normal_(self.lm_head.weight)"),)
    ),
    Fault("Q01", "parameters", None, ((f"nn.ModuleList({GPT2_LAYERS})", GPT2_LAYERS),)),
    Fault(
        "last-layer-skipped",
        "parameters",
        "never-called",
        (("enumerate(self.h)", "enumerate(self.h[:-1])"),),
    ),
    Fault(
        "N10",
        "norm",
        "norm-unused",
        (("hidden_states = self.ln_2(hidden_states)", "hidden_states = self.ln_1(hidden_states)"),),
    ),
    Fault(
        "ids-wrap-around",
        "vocabulary",
        None,
        (
            (
                "inputs_embeds = self.wte(input_ids)",
                "inputs_embeds = self.wte(input_ids % self.wte.num_embeddings)",
            ),
        ),
    ),
]
"""In gpt2."""
