import pytest
import torch

from theodolite.reference.data import CharacterTokenizer, draw_batch, split


def test_the_vocabulary_is_the_sorted_set_and_ids_follow_it():
    tokenizer = CharacterTokenizer("hello, Lucy")
    assert tokenizer.symbols == " ,Lcehlouy"
    assert len(tokenizer) == 10
    assert tokenizer.encode("Lucy").tolist() == [2, 8, 3, 9]
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"
    assert tokenizer.decode([2, 8, 3, 9]) == "Lucy"


def test_a_tokenizer_made_from_the_symbols_of_another_is_the_same():
    tokenizer = CharacterTokenizer("once upon a time")
    again = CharacterTokenizer(tokenizer.symbols)
    assert again.encode("a potion").tolist() == tokenizer.encode("a potion").tolist()


def test_an_empty_text_makes_no_tokenizer():
    with pytest.raises(ValueError, match="An empty text has no characters"):
        CharacterTokenizer("")


def test_encoding_names_the_unknown_character_and_its_place():
    with pytest.raises(ValueError, match="character 'z' at index 2 is not among the 3"):
        CharacterTokenizer("abc").encode("abz")


@pytest.mark.parametrize("outside", [-1, 3])
def test_decoding_refuses_an_id_outside_the_vocabulary(outside):
    with pytest.raises(
        ValueError, match=f"id {outside} is outside the vocabulary: ids run from 0 to 2"
    ):
        CharacterTokenizer("abc").decode([0, outside])


def test_an_empty_text_encodes_to_no_ids_and_back():
    tokenizer = CharacterTokenizer("abc")
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.encode("").dtype == torch.int64
    assert tokenizer.decode(tokenizer.encode("")) == ""


def test_the_split_of_ten_is_nine_and_one():
    train, validation = split(torch.arange(10))
    assert train.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert validation.tolist() == [9]


@pytest.mark.parametrize("length", [0, 1])
def test_a_split_with_an_empty_part_is_refused(length):
    with pytest.raises(ValueError, match="one part would be empty; give a longer text"):
        split(torch.arange(length))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, 1.5, float("nan")])
def test_a_fraction_outside_zero_to_one_is_refused(fraction):
    with pytest.raises(ValueError, match="give one between 0 and 1"):
        split(torch.arange(10), fraction)


def test_a_batch_is_the_same_for_the_same_generator():
    data = torch.arange(100)
    first, again = (draw_batch(data, 4, 7, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])


def test_the_shortest_possible_data_has_one_window():
    inputs, targets = draw_batch(torch.arange(4), 2, 3, torch.Generator())
    assert inputs.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert targets.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_data_shorter_than_a_window_is_refused():
    with pytest.raises(ValueError, match=r"context of 8 needs at least 9 tokens .* has 8"):
        draw_batch(torch.arange(8), 2, 8, torch.Generator())


@pytest.mark.parametrize(("batch", "context"), [(0, 4), (2, 0)])
def test_a_batch_of_nothing_is_refused(batch, context):
    with pytest.raises(ValueError, match="is empty: give at least 1 of each"):
        draw_batch(torch.arange(8), batch, context, torch.Generator())
