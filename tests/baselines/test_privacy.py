from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_sdperf.baselines.privacy import Identity, PrivacyError, check, identity, redact

WHO = Identity("mjones", "gpu-box-17", "/home/mjones")
NOBODY = Identity("", "", "")
UUID = "GPU-1f2e3d4c-5b6a-7988-a1b2-c3d4e5f60718"

PRIVATE = st.sampled_from([
    "/home/mjones", "/home/mjones/venv/lib", "/home/other/x", "/Users/anna/models", r"C:\Users\anna\models", "mjones",
    "MJones", "gpu-box-17", UUID, "MIG-1f2e3d4c-5b6a-7988-a1b2-c3d4e5f60718", "1f2e3d4c-5b6a-7988-a1b2-c3d4e5f60718",
])  # fmt: skip
AROUND = st.text(st.sampled_from(' .,:;=/"()[]\n'), max_size=5)
TEXTS = st.builds(lambda before, private, after: f"{before}{private}{after}", AROUND, PRIVATE, AROUND)


def nested(leaves):
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    )


@given(TEXTS)
def test_private_text_is_found_whatever_stands_around_it(text):
    with pytest.raises(PrivacyError):
        check({"facts": [{"path": text}]}, WHO)


@given(TEXTS)
def test_private_text_is_found_in_names_too(text):
    with pytest.raises(PrivacyError):
        check({text: 1}, WHO)


@given(nested(TEXTS | st.text() | st.integers() | st.none()))
def test_redacted_data_passes_the_check_and_stays_redacted(data):
    clean = redact(data, WHO)
    check(clean, WHO)
    assert redact(clean, WHO) == clean
    assert not any(secret in json.dumps(clean) for secret in ("/home/mjones", "anna", UUID[4:]))


@given(nested(st.text(st.characters(codec="ascii", exclude_characters="-/\\"))))
def test_other_data_is_left_alone(data):
    assume("mjones" not in json.dumps(data).lower())
    assert redact(data, WHO) == data
    check(data, WHO)


def test_the_message_names_the_place_and_the_kind_but_not_the_text():
    with pytest.raises(PrivacyError) as caught:
        check({"cases": {"a": {"facts": ["ok", "file /home/mjones/x"]}}}, WHO)
    assert str(caught.value) == (
        "$.cases.a.facts[1] holds the home folder, and stored results hold no user name, host name, home folder or "
        "UUID. Take it out of the value that was given."
    )


def test_what_stands_in():
    text = f"mjones@gpu-box-17:/home/mjones/x /home/eve/y {UUID}"
    assert redact(text, WHO) == "<user>@<host>:~/x ~/y <uuid>"


@pytest.mark.parametrize("text", ["mjonesy", "onnxruntime 1.32.0", "/opt/rocm/lib", "sd15 unet fp16", "deadbeef-1234"])
def test_ordinary_text_is_not_private(text):
    check(text, WHO)


@pytest.mark.parametrize("user", ["root", "runner", "torch", "ci", "me", ""])
def test_accounts_that_say_nothing_about_anybody_do_not_block_ordinary_words(user):
    check(f"the root cause: torch runner in ci, said {user}", Identity(user, "localhost", f"/{user}"))


def test_a_home_of_one_letter_or_none_matches_nothing():
    check("/x and /", Identity("", "", "/"))
    check("/x and /", NOBODY)


def test_this_process_has_an_identity():
    assert identity().home
