from __future__ import annotations

import pytest

SHORT = ["pytest_sdperf.short_names"]


@pytest.mark.parametrize("flag", ["--gpu", "--engine"])
def test_a_flag_that_somebody_else_owns_is_not_taken_over_in_silence(pytester, sdperf, flag):
    pytester.makeconftest(
        f"""
        def pytest_addoption(parser):
            from pytest_sdperf.short_names import add_short_names
            parser.addoption("{flag}", dest="theirs")
            add_short_names(parser)
        """
    )
    result = sdperf("--co")
    assert result.ret != 0
    assert flag in result.stdout.str() + result.stderr.str()


def test_what_pytest_refuses_for_another_reason_is_not_hidden(monkeypatch):
    from _pytest.config.argparsing import OptionGroup, Parser

    from pytest_sdperf import short_names

    def refuse(self, *flags, **attributes):
        raise ValueError("another reason")

    monkeypatch.setattr(OptionGroup, "addoption", refuse)
    with pytest.raises(ValueError, match="another reason"):
        short_names.add_short_names(Parser(_ispytest=True))


def test_asked_twice_they_are_added_once(pytester, sdperf):
    pytester.makeconftest(
        """
        def pytest_addoption(parser):
            from pytest_sdperf.short_names import add_short_names
            add_short_names(parser)
            add_short_names(parser)
        """
    )
    assert sdperf("--help", plugins=SHORT).stdout.str().count("  --gpu=") == 1
