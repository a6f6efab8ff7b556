"""Where the program runs, and where it says that it does not."""

import pytest

from amplifier_app_cli.main import refuse_other_systems


def test_another_system_is_told_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """On Windows the program ends before it does anything, and says what to do."""
    with pytest.raises(SystemExit) as caught:
        refuse_other_systems("nt")
    assert caught.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("amplifier: unsupported platform: Amplifier needs POSIX signals and file locks")


def test_this_system_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    """Where files can be locked and process groups ended, nothing is said."""
    refuse_other_systems()
    refuse_other_systems("posix")
    assert capsys.readouterr() == ("", "")
