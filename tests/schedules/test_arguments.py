"""Values of the command line: the ends of ranges are allowed, what lies beyond and what is no number is refused."""

import argparse

import pytest

from schedules.arguments import Parser, above_zero, add_limits, new_file, new_folder, whole


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


def test_names_of_new_and_old_files_are_taken(tmp_path):
    (tmp_path / "old").write_text("kept")
    for name in ("new", "old"):
        assert new_file(str(tmp_path / name)) == tmp_path / name
    assert (tmp_path / "old").read_text() == "kept"
    assert new_file("here.csv").name == "here.csv"
    assert new_folder(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
    assert new_folder(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "is a folder"), ("folder", "is a folder"), ("folder/", "is a folder"), ("no/o", "there is no folder"),
     ("file/o", "there is no folder"), ("a" * 5000 + "/o", "there is no folder")],
)  # fmt: skip
def test_names_that_no_file_can_have_are_refused(tmp_path, monkeypatch, name, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        new_file(name)


def test_a_file_or_a_folder_that_may_not_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # the superuser may write everything
    (tmp_path / "old").write_text("")
    for name in ("old", "new"):
        with pytest.raises(argparse.ArgumentTypeError, match="cannot be written"):
            new_file(str(tmp_path / name))


@pytest.mark.parametrize("name", ["", "file"])
def test_names_that_no_folder_can_have_are_refused(tmp_path, monkeypatch, name):
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(argparse.ArgumentTypeError, match="is not a folder"):
        new_folder(name)


def test_limits_are_those_of_a_minute_and_one_worker():
    parser = Parser()
    add_limits(parser)
    assert vars(parser.parse_args([])) == {"time_limit": 60.0, "steps": None, "workers": 1, "seed": 0}


def test_errors_that_repeat_a_long_value_are_short(capsys):
    with pytest.raises(SystemExit):
        Parser(prog="prog").parse_args(["a" * 9000])
    assert len(capsys.readouterr().err) < 800
