"""Faults of heads that share keys and values: in a hand-written model, and in a llama."""

from hosts import Fault

KEYS = "k = k.repeat_interleave(self.n_head // self.n_kv_head, dim=1)"
VALUES = "v = v.repeat_interleave(self.n_head // self.n_kv_head, dim=1)"
NEIGHBOURS = {"groups": "neighbours"}

BY_HAND = [
    Fault(
        "G01",
        "heads",
        "groups-tiled",
        ((KEYS, "k = k.repeat(1, 3, 1, 1)"), (VALUES, "v = v.repeat(1, 3, 1, 1)")),
        declare=NEIGHBOURS,
    ),
    Fault("G01-keys-alone", "heads", "groups-differ", ((KEYS, "k = k.repeat(1, 3, 1, 1)"),)),
    Fault(
        "key-heads-turned-round",
        "heads",
        "groups-out-of-order",
        ((KEYS, KEYS.replace("k.repeat", "k.flip(1).repeat")),),
        declare=NEIGHBOURS,
    ),
    Fault(
        "groups-of-uneven-size",
        "heads",
        "groups-differ",
        ((KEYS, "k = k[:, [0, 0, 0, 0, 1, 1]]"),),
    ),
    Fault(
        "one-key-head-for-all",
        "heads",
        None,
        ((KEYS, "k = k[:, :1].expand(-1, self.n_head, -1, -1)"),),
    ),
    Fault(
        "one-query-head-twice",
        "heads",
        None,
        (
            (
                "        places = positions\n",
                "        q = q[:, [0, 0, 2, 3, 4, 5]]\n" + "        places = positions\n",
            ),
        ),
    ),
    Fault(
        "values-of-two-heads-added",
        "heads",
        "groups-overlap",
        ((VALUES, VALUES + "\n        v = torch.cat([v[:, :3], v[:, 3:] + v[:, :3]], dim=1)"),),
    ),
]

KEY_STATES = "key_states = repeat_kv(key, module.num_key_value_groups)"
VALUE_STATES = "value_states = repeat_kv(value, module.num_key_value_groups)"
TURNED = (
    ("repeat_kv(key,", "repeat_kv(key.flip(1),"),
    ("repeat_kv(value,", "repeat_kv(value.flip(1),"),
)

LLAMA = [
    Fault(
        "G01",
        "heads",
        "groups-tiled",
        (
            (KEY_STATES, "key_states = key.repeat(1, module.num_key_value_groups, 1, 1)"),
            (VALUE_STATES, "value_states = value.repeat(1, module.num_key_value_groups, 1, 1)"),
        ),
    ),
    Fault("key-heads-turned-round", "heads", "groups-out-of-order", TURNED),
    Fault("values-turned-round", "heads", "groups-out-of-order", TURNED[1:]),
    Fault(
        "groups-of-uneven-size",
        "heads",
        "groups-out-of-order",
        (
            (KEY_STATES, "key_states = key[:, [0, 0, 0, 0, 1, 1]]"),
            (VALUE_STATES, "value_states = value[:, [0, 0, 0, 0, 1, 1]]"),
        ),
    ),
    Fault(
        "one-key-head-for-all",
        "heads",
        None,
        ((KEY_STATES, "key_states = key[:, :1].expand(-1, 6, -1, -1)"),),
    ),
]
