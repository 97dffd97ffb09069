"""Values of the command line: the ends of ranges are allowed, what lies beyond and what is no number is refused."""

import argparse

import pytest

from schedules.arguments import Parser, above_zero, whole


@pytest.mark.parametrize(("read", "text", "value"), [(whole(0, 9), "0", 0), (whole(0, 9), "9", 9)])
def test_both_ends_of_a_whole_range_are_allowed(read, text, value):
    assert read(text) == value


@pytest.mark.parametrize("text", ["-1", "10", "1.0", "", "x", "nan", "9" * 5000, "1e3"])
def test_whole_numbers_beyond_the_range_and_other_text_are_refused_in_short(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"^expected a whole number from 0 to 9, got '.*'$") as caught:
        whole(0, 9)(text)
    assert len(str(caught.value)) < 120


def test_numbers_above_zero_up_to_the_highest_are_allowed():
    assert [above_zero(2.5)(text) for text in ("2.5", "1e-9")] == [2.5, 1e-9]


@pytest.mark.parametrize("text", ["0", "-1", "2.6", "inf", "nan", "x", "", "9" * 5000])
def test_numbers_out_of_range_and_other_text_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"^expected a number above 0, at most 2\.5, got '"):
        above_zero(2.5)(text)


@pytest.mark.parametrize("command", [[], ["run"]])
def test_errors_of_a_parser_and_of_its_commands_are_one_line_and_exit_with_2(command, capsys):
    parser = Parser(prog="prog")
    parser.add_subparsers().add_parser("run")
    with pytest.raises(SystemExit) as caught:
        parser.parse_args([*command, "--odd\nflag"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
