from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.core.errors import SdperfError


def said(text: str) -> OptionValue:
    return OptionValue(text, "--x")


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (
            lambda a: read.counts(a, "a batch size"),
            "1,0",
            ("--x=1,0: '0' is not a batch size. Allowed: whole numbers from 1; type for example --x=1."),
        ),
        (
            lambda a: read.counts(a, "a batch size"),
            "two",
            ("--x=two: 'two' is not a batch size. Allowed: whole numbers from 1; type for example --x=1."),
        ),
        (
            lambda a: read.counts(a, "a batch size"),
            "1,,2",
            "--x=1,,2 holds an empty name. Separate names by single commas.",
        ),
        (
            lambda a: read.count(a, "a number of steps"),
            "-1",
            ("--x=-1: '-1' is not a number of steps. Allowed: whole numbers from 1; type for example --x=1."),
        ),
        (
            lambda a: read.operators(a, ["unet", "vae_decoder"]),
            "unet",
            (
                "--x=unet: 'unet' is not a component and an operator. Allowed: COMPONENT:OPERATOR, separated by "
                "commas; type for example --x=unet:MultiHeadAttention."
            ),
        ),
        (
            lambda a: read.operators(a, ["unet", "vae_decoder"]),
            "unett:MatMul",
            "unknown component 'unett'. Did you mean 'unet'? Known: unet, vae_decoder.",
        ),
        (read.opset, "9", "--x=9: opset 9 is not supported. Allowed: 17 to 23; type for example --x=18."),
        (
            read.resolution,
            "big",
            (
                "--x=big is not a resolution. Allowed: WIDTHxHEIGHT or one number for both, in pixels; type "
                "for example --x=512 or --x=768x512."
            ),
        ),
        (
            read.resolution,
            "100",
            (
                "--x=100: 100 is not divisible by 8. Allowed: multiples of 8, because a latent is an eighth "
                "of the image; the nearest are 96 and 104."
            ),
        ),
        (
            read.resolution,
            "512x4",
            (
                "--x=512x4: 4 is too small. Allowed: multiples of 8, because a latent is an eighth of the image; "
                "type for example --x=512."
            ),
        ),
        (
            read.resolution,
            "0",
            (
                "--x=0: 0 is too small. Allowed: multiples of 8, because a latent is an eighth of the image; "
                "type for example --x=512."
            ),
        ),
        (
            read.resolutions,
            "512,512x512",
            (
                "--x=512,512x512 names one resolution, and several take turns. Allowed: two or more, separated by "
                "commas; type for example --x=512,640x448,768."
            ),
        ),
        (
            read.repeats,
            "1",
            "--x=1: one call has no other to be compared with. Allowed: 2 or more; type for example --x=5.",
        ),
        (
            read.seconds,
            "0",
            (
                "--x=0 is not a time. Allowed: a number above 0 with s, m or h, seconds without; type for "
                "example --x=15m."
            ),
        ),
        (
            read.seconds,
            "soon",
            (
                "--x=soon is not a time. Allowed: a number above 0 with s, m or h, seconds without; type for "
                "example --x=15m."
            ),
        ),
        (
            read.size_bytes,
            "much",
            (
                "--x=much is not a size. Allowed: a number with MB, GB, TB, MiB, GiB or TiB, bytes without; "
                "type for example --x=100GB."
            ),
        ),
        (
            read.fraction,
            "150%",
            (
                "--x=150% is not a relative change. Allowed: above 0 and below 100%; type for example --x=2% "
                "or --x=0.02."
            ),
        ),
        (read.switch, "perhaps", "--x=perhaps is neither yes nor no. Allowed: true, false; type --x=true."),
        (
            lambda a: read.word(a, "a label"),
            "a b",
            (
                "--x=a b: 'a b' is not a label. Allowed: letters, digits, dots, hyphens and underscores; "
                "type for example --x=default."
            ),
        ),
        (read.text, " ", "--x=  is empty. Give it a value, or leave it out."),
        (
            lambda a: read.one_of(a, "exporter", ("dynamo", "torchscript")),
            "dynamo,torchscript",
            ("--x=dynamo,torchscript names 2 values. Allowed: one; type --x=dynamo."),
        ),
        (
            lambda a: read.one_of(a, "exporter", ("dynamo", "torchscript")),
            "dynamoo",
            ("unknown exporter 'dynamoo'. Did you mean 'dynamo'? Known: dynamo, torchscript."),
        ),
    ],
)
def test_a_bad_value_is_answered_with_what_is_allowed(parse, text, message):
    with pytest.raises(SdperfError) as caught:
        parse(said(text))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (lambda a: read.counts(a, "a batch size"), "1, 4,4", (1, 4)),
        (read.resolution, "512", (512, 512)),
        (read.resolution, "768x512", (512, 768)),
        (read.seconds, "90", 90.0),
        (read.seconds, "1.5h", 5400.0),
        (read.size_bytes, "100GB", 100 * 10**9),
        (read.size_bytes, "1.5 GiB", 3 * 2**29),
        (read.size_bytes, "0", 0),
        (read.fraction, "2%", 0.02),
        (read.fraction, ".05", 0.05),
        (read.switch, "on", True),
        (read.switch, "No", False),
    ],
)
def test_a_good_value_is_read(parse, text, value):
    assert parse(said(text)) == value


@given(st.text(max_size=12))
def test_any_text_is_a_value_or_a_message(text):
    for parse in (read.opset, read.resolution, read.seconds, read.size_bytes, read.fraction, read.switch, read.text):
        message = ""
        try:
            parse(said(text))
        except SdperfError as error:
            message = str(error)
        assert not message or message.startswith(str(said(text)))


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_every_multiple_of_eight_is_a_resolution(width, height):
    assert read.resolution(said(f"{width * 8}x{height * 8}")) == (height * 8, width * 8)


def test_operators_are_sorted_and_named_once():
    text = "vae_decoder:MatMul,unet:Softmax,unet:MatMul,unet:Softmax"
    found = read.operators(said(text), ["unet", "vae_decoder"])
    assert found == ("unet:MatMul", "unet:Softmax", "vae_decoder:MatMul")
