"""`theodolite train` as a person meets it: what it prints, what it writes, how it refuses."""

import json
import signal

import pytest

from theodolite.fixtures.oracles.corpus import story


def test_it_prints_the_losses_and_writes_on(train):
    done = train("--steps=21", "--prompt=Alice")
    assert done.status == 0, done.errors
    lines = done.output.splitlines()
    assert lines[0] == "vocabulary 64, parameters 8,784"
    assert [line.split()[1] for line in lines[1:4]] == ["0", "10", "20"]
    sample = done.output.partition("\n\n")[2].removesuffix("\n")
    assert sample.startswith("Alice")
    assert len(sample) == 25


def test_the_same_seed_gives_the_same_run_and_another_seed_another(train):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        assert train("--steps=3", f"--log={name}", f"--seed={seed}").status == 0
    assert train.log("a") == train.log("b") != train.log("c")


def test_how_often_it_validates_does_not_change_the_run(train):
    for every in (1, 7):
        assert train("--steps=8", f"--log={every}", f"--eval-every={every}").status == 0
    assert [line["train"] for line in train.log("1")] == [line["train"] for line in train.log("7")]


def test_the_result_is_one_json_document_on_standard_output(train):
    result = json.loads(train("--steps=11", "--json=-").output)
    assert result["schema"] == "theodolite-training/1"
    assert (result["steps"], result["parameters"]) == (11, 8784)
    assert [record["step"] for record in result["records"]] == [0, 10]
    assert len(result["sample"]) == 21


def test_the_log_holds_a_line_for_each_step(train):
    assert train("--steps=12", "--log=log.jsonl").status == 0
    log = train.log("log.jsonl")
    assert [line["step"] for line in log] == list(range(12))
    assert [line["step"] for line in log if "validation" in line] == [0, 10, 11]


@pytest.mark.parametrize(("name", "start"), [("c.svg", b"<?xml"), ("c.png", b"\x89PNG")])
def test_the_curve_is_drawn(train, name, start):
    assert train("--steps=3", f"--curve={name}").status == 0
    assert (train.folder / name).read_bytes().startswith(start)


def test_only_the_first_characters_are_used_where_asked(train):
    assert train("--steps=3", "--log=a", "--characters=3000").status == 0
    (train.folder / "story.txt").write_text(story()[:3000], encoding="utf-8")
    assert train("--steps=3", "--log=b").status == 0
    assert train.log("a") == train.log("b")


def test_line_ends_and_a_byte_order_mark_are_no_part_of_the_text(train):
    text = story()[:3000]
    (train.folder / "story.txt").write_text(text, encoding="utf-8")
    (train.folder / "dos.txt").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert train("--steps=3", "--log=a").status == 0
    assert train("--steps=3", "--log=b", file="dos.txt").status == 0
    assert train.log("a") == train.log("b")


def test_a_run_killed_in_the_middle_and_resumed_is_the_run_that_never_stopped(train):
    killed = train.kill("step    30", "--steps=4000", "--checkpoint=run")
    assert killed.status == -signal.SIGKILL
    resumed = train("--steps=60", "--checkpoint=run", "--log=resumed")
    assert resumed.status == 0, resumed.errors
    assert "going on from step" in resumed.output
    assert train("--steps=60", "--log=whole").status == 0
    assert train.log("resumed") == train.log("whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_says_how_to_go_on_and_does(train, number):
    stopped = train.apart("--steps=4000", "--checkpoint=run", until="step    20", signal=number)
    assert stopped.status == 128 + number
    assert "saved in run: the same command goes on from there" in stopped.errors
    step = int(stopped.errors.split("stopped after ")[1].split()[0])
    more = train(f"--steps={step + 7}", "--checkpoint=run", "--log=resumed")
    assert f"going on from step {step} in run" in more.output
    assert train(f"--steps={step + 7}", "--log=whole").status == 0
    resumed, whole = train.log("resumed"), train.log("whole")
    assert [line["train"] for line in resumed] == [line["train"] for line in whole]


def test_an_interrupted_run_without_a_checkpoint_says_that_nothing_was_saved(train):
    stopped = train.apart("--steps=4000", until="step    10", signal=signal.SIGINT)
    assert stopped.status == 130
    assert "nothing was saved: with --checkpoint DIR it could go on" in stopped.errors


def test_a_finished_run_says_so_and_is_left_alone(train):
    assert train("--steps=5", "--checkpoint=run").status == 0
    before = train.snapshot()
    again = train("--steps=5", "--checkpoint=run")
    assert again.status == 0
    assert "the 5 steps are done already: give more --steps to go on" in again.output
    assert train.snapshot() == before


BAD_TEXTS = {
    "missing": (None, "there is no file", "give the path of a text file"),
    "empty": (b"", "An empty text has no characters", "give a text"),
    "too short": (b"too short", "A context of 16 needs parts of at least 17 characters", "longer"),
    "not UTF-8": (b"caf\xe9 " * 99, "is not text in UTF-8 (byte 3 is 0xe9)", "convert it to UTF-8"),
    "zero bytes": (b"ab\0c" * 99, "is not text (it holds zero bytes)", "give a text file"),
}


@pytest.mark.parametrize(("content", "says", "advice"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_a_bad_text_is_refused_in_a_sentence(train, content, says, advice):
    if content is not None:
        (train.folder / "bad.txt").write_bytes(content)
    done = train.apart("--checkpoint=run", file="bad.txt")
    assert (done.status, done.output) == (2, "")
    assert says in done.errors
    assert advice in done.errors
    assert len(done.errors.splitlines()) == 1
    assert not (train.folder / "run").exists()


def test_a_folder_is_no_text(train):
    done = train(file=train.folder)
    assert (done.status, done.output) == (2, "")
    assert "is a folder: give the path of a text file" in done.errors


def cut_off(run):
    tensors = next(run.glob("*.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:1000])


def test_a_checkpoint_of_another_shape_is_refused_and_left_alone(train):
    assert train("--steps=3", "--checkpoint=run").status == 0
    before = train.snapshot()
    done = train.apart("--steps=9", "--checkpoint=run", "--set=layers=3")
    assert (done.status, done.output) == (2, "")
    assert "run holds a run with layers 2, and this one has layers 3" in done.errors
    assert "another folder to begin anew" in done.errors
    assert train.snapshot() == before


def test_a_checkpoint_that_was_cut_off_is_refused_and_left_alone(train):
    assert train("--steps=3", "--checkpoint=run").status == 0
    cut_off(train.folder / "run")
    before = train.snapshot()
    done = train.apart("--steps=9", "--checkpoint=run")
    assert (done.status, done.output) == (2, "")
    assert "The checkpoint is damaged: run/step-000003.safetensors was cut off" in done.errors
    assert len(done.errors.splitlines()) == 1
    assert train.snapshot() == before


BAD_ARGUMENTS = [
    ("--steps=0", "--steps is 0: give at least 1"),
    ("--batch=-3", "--batch is -3: give at least 1"),
    ("--eval-every=0", "--eval-every is 0: give at least 1"),
    ("--sample=-1", "--sample is -1: give 0 (no sample) or more"),
    ("--lr=0", "The learning rate is 0.0: give one above 0"),
    ("--lr=nan", "The learning rate is nan: give one above 0"),
    ("--seed=-1", "--seed is -1: give a whole number from 0"),
    ("--set=lyers=3", "Did you mean layers?"),
    ("--set=heads=3", "width 16 does not divide into 3 heads"),
    ("--set=layers=two", "layers is 'two': give a whole number"),
    ("--set=layers", "write KEY=VALUE"),
    ("--device=nonsense", "--device nonsense cannot be used here"),
    ("--prompt=☃", "--prompt holds '☃', which the text does not"),
    ("--prompt=", "--prompt is empty"),
    ("--curve=curve.pdf", "give a name that ends in .png or .svg"),
    ("--log=nowhere/log", "nowhere/log cannot be written: give a file in a folder that exists"),
    ("--log=story.txt", "story.txt is the text itself"),
    ("--checkpoint=story.txt", "--checkpoint story.txt is a file: give a folder"),
]


@pytest.mark.parametrize(("argument", "says"), BAD_ARGUMENTS, ids=[a for a, _ in BAD_ARGUMENTS])
def test_a_bad_argument_is_refused_in_a_sentence(train, argument, says):
    done = train(argument)
    assert (done.status, done.output) == (2, "")
    assert says in done.errors
    assert len(done.errors.splitlines()) == 1


def test_a_run_that_diverges_ends_in_a_sentence_and_saves_nothing(train):
    done = train("--steps=50", "--lr=1e38", "--checkpoint=run")
    assert done.status == 1
    assert "loss is nan" in done.errors
    assert "give a lower learning rate" in done.errors
    assert not (train.folder / "run").exists()
