from astranb.core.errors import Deadlock, InputError, WrongResult, near


def test_an_input_error_is_one_line_even_when_its_parts_are_not():
    error = InputError("bad\nname", where="file.yaml:3", hint="rename\tit")
    assert str(error) == "file.yaml:3: bad name; rename it"


def test_a_long_word_is_cut_in_its_middle():
    error = InputError("No such file", where="begin" + "x" * 5000 + "end.json")
    assert str(error).startswith("beginxxx")
    assert str(error).endswith("xend.json: No such file")
    assert len(str(error)) < 250
    assert error.where.count("x") == 5000


def test_exit_codes():
    assert (InputError.exit_code, Deadlock.exit_code, WrongResult.exit_code) == (2, 3, 4)


def test_near_names_and_lists_what_is_known_otherwise():
    assert near("rign", ["ring", "allpairs"]) == "did you mean 'ring'?"
    assert near("zzz", ["ring", "allpairs"]) == "known: allpairs, ring"
