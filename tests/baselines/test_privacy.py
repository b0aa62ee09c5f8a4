from __future__ import annotations

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_sdperf.baselines.privacy import Identity, PrivacyError, check, identity, redact, restored

WHO = Identity("mjones", "gpu-box-17", "/home/mjones")
NOBODY = Identity("", "", "")
UUID = "GPU-1f2e3d4c-5b6a-7988-a1b2-c3d4e5f60718"

PRIVATE = st.sampled_from([
    "/home/mjones", "/home/mjones/venv/lib", "//home//mjones/x", "mjones", "MJones", "gpu-box-17", UUID,
    "MIG-1f2e3d4c-5b6a-7988-a1b2-c3d4e5f60718", "1f2e3d4c-5b6a-7988-a1b2-c3d4e5f60718",
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
    assert not any(secret in json.dumps(clean) for secret in ("/home/mjones", "mjones", UUID[4:]))


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
    assert redact(text, WHO) == "<user>@<host>:~/x /home/eve/y <uuid>"


# Homes of accounts whose names say nothing, so that nothing but the home itself is private.
HOMES = st.sampled_from(["/root", "/home/runner", "/Users/runner", "/srv/data/home", r"C:\Users\runner", "/ho me/ci"])
FOLDERS = st.text(
    st.characters(codec="utf-8", categories=["L", "N"], include_characters="._-+@"), min_size=1, max_size=8
)
BELOW = st.lists(FOLDERS, max_size=4).map(lambda names: "".join(f"/{name}" for name in names))
BEFORE = st.sampled_from(
    ["", " ", "at ", "'", '"', "=", "--json=", "PATH=/bin:", "host:", "(", "[", ",", "file://", "-I"]
)
AFTER = st.sampled_from(["", " ", "'", '"', ",", ";", ")", "]", ": no such file", ". Make it readable.", "\n"])


@given(HOMES, BELOW, BEFORE, AFTER)
def test_a_home_at_the_beginning_of_a_path_is_never_stored(home, below, before, after):
    who = Identity("", "", home)
    text = f"{before}{home}{below}{after}"
    assert redact(text, who) == f"{before}~{below}{after}"
    assert restored(redact(text, who), who) == text
    with pytest.raises(PrivacyError):
        check({"a": [text]}, who)


@given(HOMES.filter(lambda home: "/" in home), st.lists(FOLDERS, min_size=1, max_size=3), BELOW, st.booleans())
def test_a_home_in_the_middle_of_a_path_is_none(home, above, below, absolute):
    text = f"{'/' if absolute else ''}{'/'.join(above)}{home}{below}"
    assume(not (len(above) == 1 and re.fullmatch(r"-\w", above[0]) and not absolute))  # that is a flag
    assert redact(text, Identity("", "", home)) == text
    check(text, Identity("", "", home))


@given(HOMES, st.sampled_from(["x", "1", "-old", ".old", "_", "+x", "@2", "~", "é"]), BELOW)
def test_a_folder_whose_name_only_begins_as_a_home_does_is_none(home, more, below):
    text = f"{home}{more}x{below}"
    assert redact(text, Identity("", "", home)) == text


@given(st.sampled_from(["/home/eve/x", "/Users/eve", r"C:\Users\eve\x", "/mnt/home/x/baselines", "~/x"]), BELOW)
def test_homes_of_others_are_paths_like_any(path, below):
    assert redact(path + below, Identity("", "", "/root")) == path + below


def test_a_command_whose_device_is_not_known_any_more_is_not_told():
    assert restored(redact(f"pytest --gpu={UUID}", WHO), WHO) == ""


@pytest.mark.parametrize("command", ["pytest /home/mjones/x --json='/home/mjones/a b.json'", "pytest /data/mjones/~x"])
def test_a_command_comes_back_as_it_was_typed(command):
    assert restored(redact(command, WHO), WHO) == command


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
