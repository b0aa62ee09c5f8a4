"""What must never be stored: who somebody is, where that person's home is, and the identifiers of a machine.

It is for what is stored. A message that somebody has to follow names every path as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.files.strict_json import whole
from pytest_sdperf.core.machine.gpu_facts import load_gpus

UUID = re.compile(r"(?i)(?:GPU-|MIG-)?\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# Where a path begins: after nothing that belongs to one; after the letter of a flag (`-I/home/me`), or a scheme.
BEGINS = r"(?:(?<![\w.~+%#@\\/-])|(?<=^-\w)|(?<=\s-\w)|(?<=://))"
# Where the name of a folder ends: `/home/me.old` is another one, and `/home/me.` the end of a sentence.
ENDS = r"(?![\w-]|[.+%#@~=][\w.+%#@~=-])"
SEPARATORS = r"[\\/]+"

# Account and host names that say nothing about anybody, and words of this suite that an account may be called.
PUBLIC_NAMES = re.compile(
    r"(?i)admin|administrator|build|builder|ci|cpu|cuda|debian|docker|github|gitlab|gpu|image|jenkins|linux|localhost|"
    r"dynamic|dynamo|eager|model|native|nobody|none|onnx|onnxruntime|ort|pipeline|python|random|rocm|root|runner|static|tests?|thin|torch(?:script)?|ubuntu|unet|"
    r"user|vagrant|windows"
)
SHORTEST_NAME = 3


class PrivacyError(SdperfError):
    """Text that would be stored names a person, a machine or a device."""


@dataclass(frozen=True)
class Identity:
    """Who and where we are.

    Attributes:
        user: Account name.
        host: Host name.
        home: Home folder.
    """

    user: str
    host: str
    home: str

    def patterns(self) -> Iterator[tuple[str, re.Pattern[str], str]]:
        """Yield what is looked for: its name, its pattern and what stands in for it. The longest comes first."""
        if len(self.home.strip("/\\")) >= SHORTEST_NAME:
            yield "the home folder", _folder(self.home), "~"
        yield "a device or machine UUID", UUID, "<uuid>"
        cards = load_gpus()
        for kind, name in (("the host name", self.host), ("the user name", self.user)):
            # A host called h200 is named after its card, whose slug has to be stored.
            public = PUBLIC_NAMES.fullmatch(name) or name.lower() in {*cards.families, *cards.slugs}
            if len(name) >= SHORTEST_NAME and not public:
                word = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
                yield kind, re.compile(word, re.IGNORECASE), "<host>" if "host" in kind else "<user>"


def identity() -> Identity:
    """Return the identity of this process; parts that the system cannot tell are empty."""
    import getpass
    import platform
    from pathlib import Path

    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    try:
        home = str(Path.home())
    except RuntimeError:
        home = ""
    return Identity(user, platform.node(), home)


def _folder(path: str) -> re.Pattern[str]:
    """Return what finds a folder where a path begins with it; separators may be of either kind, and doubled."""
    parts = re.split(SEPARATORS, path.rstrip("/\\"))
    first = rf"(?:(?<=://)/|(?!(?<=:)//){SEPARATORS})" if not parts[0] else ""
    return re.compile(BEGINS + first + SEPARATORS.join(map(re.escape, filter(None, parts))) + ENDS)


def restored(text: str, who: Identity) -> str:
    """Return stored text as this user would have it, so that a command can be typed; empty where nobody knows it."""
    if "<uuid>" in text:
        return ""
    text = re.sub(f"{BEGINS}~{ENDS}", lambda _: who.home, text) if who.home else text
    return text.replace("<user>", who.user).replace("<host>", who.host)


def redact(value: Any, who: Identity) -> Any:
    """Return JSON data with every private text replaced: `~`, `<user>`, `<host>`, `<uuid>`; every text is whole."""
    if isinstance(value, str):
        value = whole(value)
        for _, pattern, stand_in in who.patterns():
            value = pattern.sub(stand_in, value)
        return value
    if isinstance(value, Mapping):
        return {redact(key, who): redact(item, who) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact(item, who) for item in value]
    return value


def check(value: Any, who: Identity, *, path: str = "$") -> None:
    """Raise if JSON data holds private text.

    Raises:
        PrivacyError: Names the place in the data and the kind of text, never the text itself.
    """
    if isinstance(value, str):
        for kind, pattern, _ in who.patterns():
            if pattern.search(value):
                raise PrivacyError(
                    f"{path} holds {kind}, and stored results hold no user name, host name, home folder or UUID. "
                    f"Take it out of the value that was given."
                )
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check(key, who, path=f"{path} (a name)")
            check(item, who, path=f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            check(item, who, path=f"{path}[{index}]")
