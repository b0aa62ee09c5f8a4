"""A fault that somebody else registers is planted like ours, into a worker process too."""

from __future__ import annotations

from pytest_sdperf.faults import known

TEXT = known.get("numerics-one-percent-high").options


def test_a_fault_of_a_plug_in_is_planted_by_its_name(type_in):
    result = type_in(f"pytest suites/test_agreement.py {TEXT} -p own_fault --plant=tripled")
    text = " ".join(result.stdout.str().split())
    assert result.ret == 1
    assert text.count("ALTERED tripled: Text encoders put out three times too much.") == 2  # header and report
    assert "The component has a relative L2 error 2.00e+00 against torch float64" in text
    assert "Nothing that tripled may have touched is kept as a candidate or baseline." in text


def test_what_it_does_not_change_fails_the_run_all_the_same(type_in):
    other = TEXT.replace("ort-cpu", "torch").replace("text_encoder", "vae_decoder")
    result = type_in(f"pytest suites/test_agreement.py {other} -p own_fault --plant=tripled")
    result.assert_outcomes(passed=1)
    assert result.ret == 1


def test_a_name_that_nobody_registered_is_refused(type_in):
    result = type_in("pytest suites/test_agreement.py --plant=tripled")
    assert result.ret == 4
    told = f"ERROR: unknown fault 'tripled'. Type `sdperf faults` to see all {len(known.FAULTS)}."
    assert told in result.stderr.str()
