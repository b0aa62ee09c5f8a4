from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import filelock
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.builds import cache as cache_module
from pytest_sdperf.builds import key_locks, manifest
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.key_locks import KeyLocks
from pytest_sdperf.core import clock
from pytest_sdperf.core.errors import CacheError
from pytest_sdperf.core.values.artifact import UNKNOWN, Built


def _cache(folder: Path, size_bytes: int = 10**6) -> tuple[Cache, list[str]]:
    said: list[str] = []
    return Cache(folder, size_bytes=size_bytes, say=said.append), said


def _write(content: bytes, name: str = "data"):
    def make(folder: Path) -> dict[str, int]:
        (folder / name).write_bytes(content)
        return {"length": len(content)}

    return make


def _never(folder: Path) -> dict[str, int]:
    raise AssertionError("must not build")


def test_second_call_builds_nothing_in_this_and_in_another_process(tmp_path):
    cache, said = _cache(tmp_path / "c")
    made = cache.get_or_make("k", _write(b"abc"))
    again = cache.get_or_make("k", _never)
    fresh = _cache(tmp_path / "c")[0].get_or_make("k", _never)
    assert (made.made, again.made, fresh.made) == (True, False, False)
    assert made.metadata == again.metadata == fresh.metadata == {"length": 3}
    assert (fresh.path / "data").read_bytes() == b"abc"
    assert made.digest == fresh.digest
    assert made.size_bytes == 3
    assert said == []


def test_equal_content_has_an_equal_digest_under_another_key(tmp_path):
    cache, _ = _cache(tmp_path)
    first, second, third = (cache.get_or_make(k, _write(c)) for k, c in (("a", b"x"), ("b", b"x"), ("c", b"y")))
    assert first.digest == second.digest != third.digest


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda p: (p / "data").write_bytes(b"ab"), "data has 2 bytes instead of 3"),
        (lambda p: (p / "data").write_bytes(b"abd"), "data has another hash than recorded"),
        (lambda p: (p / "data").unlink(), "other files than recorded: data"),
        (lambda p: (p / "extra").touch(), "other files than recorded: extra"),
        (lambda p: (p / "manifest.json").write_text("{"), "manifest.json: JSONDecodeError"),
        (lambda p: (p / "manifest.json").unlink(), "manifest.json: FileNotFoundError"),
        (lambda p: (p / "manifest.json").write_text('{"schema": 99}'), "schema 99"),
    ],
)
def test_damaged_entry_is_rebuilt_and_said_so(tmp_path, damage, fault):
    path = _cache(tmp_path)[0].get_or_make("k", _write(b"abc")).path
    damage(path)
    cache, said = _cache(tmp_path)
    entry = cache.get_or_make("k", _write(b"abc"))
    assert entry.made
    assert (entry.path / "data").read_bytes() == b"abc"
    assert said[0] == f"cache entry k is damaged ({fault}); it is built again"
    assert sorted(p.name for p in entry.path.iterdir()) == ["data", "manifest.json"]
    assert [p.name for p in (tmp_path / "entries").iterdir()] == ["k"]


def _check(cache: Cache, *keys: str) -> None:
    cache.check(keys, threads=2)


def test_entries_are_hashed_side_by_side_and_once(tmp_path, monkeypatch):
    for key, content in (("a", b"abc"), ("b", b"de")):
        _cache(tmp_path)[0].get_or_make(key, _write(content))
    together, hashed = threading.Barrier(2, timeout=20), []
    sha256_file = manifest.sha256_file

    def hash_together(path):
        together.wait()  # one after the other breaks it
        hashed.append(path.parent.name)
        return sha256_file(path)

    monkeypatch.setattr(manifest, "sha256_file", hash_together)
    monkeypatch.setattr(cache_module, "_TOLD_BYTES", 5)
    cache, said = _cache(tmp_path)
    _check(cache, "a", "b", "absent")
    _check(cache, "a", "b")
    assert not any(cache.get_or_make(key, _never).made for key in ("a", "b"))
    assert sorted(hashed) == ["a", "b"]
    assert said == ["checking 0 MB of the cache"]


def test_a_check_of_little_is_not_told(tmp_path):
    _cache(tmp_path)[0].get_or_make("k", _write(b"abc"))
    cache, said = _cache(tmp_path)
    _check(cache, "k")
    assert said == []


def test_what_a_check_finds_damaged_is_told_once_and_rebuilt(tmp_path):
    path = _cache(tmp_path)[0].get_or_make("k", _write(b"abc")).path
    (path / "data").write_bytes(b"abd")
    cache, said = _cache(tmp_path)
    _check(cache, "k")
    assert said == []
    assert cache.get_or_make("k", _write(b"abc")).made
    assert said == ["cache entry k is damaged (data has another hash than recorded); it is built again"]


def test_what_was_checked_stays_until_there_is_no_room(tmp_path):
    path = _cache(tmp_path)[0].get_or_make("k", _write(b"abc")).path
    os.utime(path / "manifest.json", (1000, 1000))
    cache, _ = _cache(tmp_path)
    _check(cache, "k")
    assert _cache(tmp_path)[0].prune(0) == ()
    cache.size_bytes = 0
    assert cache.make_room()
    assert cache.info().keys == ()


def test_linked_file_is_not_trusted(tmp_path):
    path = _cache(tmp_path / "c")[0].get_or_make("k", _write(b"abc")).path
    (tmp_path / "elsewhere").write_bytes(b"abc")
    (path / "data").unlink()
    (path / "data").symlink_to(tmp_path / "elsewhere")
    cache, said = _cache(tmp_path / "c")
    assert cache.get_or_make("k", _write(b"abc")).made
    assert said[0] == "cache entry k is damaged (data is a link); it is built again"


def test_failed_build_leaves_nothing_behind(tmp_path):
    cache, _ = _cache(tmp_path)

    def fail(folder: Path) -> dict[str, int]:
        (folder / "half").write_bytes(b"1")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cache.get_or_make("k", fail)
    assert list((tmp_path / "entries").iterdir()) == []
    assert cache.get_or_make("k", _write(b"1")).made


def test_leftovers_of_a_killed_build_are_removed(tmp_path):
    cache, _ = _cache(tmp_path)
    cache.get_or_make("other", _write(b""))
    (tmp_path / "entries" / "k.new-dead").mkdir()
    cache.get_or_make("k", _write(b"1"))
    assert sorted(p.name for p in (tmp_path / "entries").iterdir()) == ["k", "other"]


def _build_in_process(folder: str) -> bool:
    def make(target: Path) -> dict[str, int]:
        with (Path(folder) / "builds").open("a") as log:
            log.write("x")
        (target / "data").write_bytes(os.urandom(1000))
        return {}

    return Cache(Path(folder) / "c", size_bytes=10**6).get_or_make("k", make).made


def test_two_processes_build_once(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        made = pool.map(_build_in_process, [str(tmp_path)] * 4)
    assert sum(made) == 1
    assert (tmp_path / "builds").read_text() == "x"


def test_two_threads_build_once(tmp_path):
    cache, _ = _cache(tmp_path)
    builds = []

    def make(folder: Path) -> dict[str, int]:
        builds.append(folder)
        return {}

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = [entry.made for entry in pool.map(lambda _: cache.get_or_make("k", make), range(8))]
    assert sum(made) == len(builds) == 1


def test_least_recently_used_entries_go_first_but_never_one_in_use(tmp_path):
    before, _ = _cache(tmp_path)
    for age, key in enumerate(("a", "b", "c")):
        path = before.get_or_make(key, _write(bytes(400_000))).path
        os.utime(path / "manifest.json", (1000 + age, 1000 + age))
    del before
    cache, _ = _cache(tmp_path, 900_000)
    cache.get_or_make("a", _never)
    cache.get_or_make("d", _write(b"1"))
    assert set(cache.info().keys) == {"a", "c", "d"}
    assert cache.prune(0) == ("c",)
    assert set(cache.info().keys) == {"a", "d"}
    assert _cache(tmp_path)[0].prune(0) == ()
    del cache
    assert _cache(tmp_path)[0].prune(0) == ("a", "d")
    assert _cache(tmp_path)[0].info().entries == 0


def test_an_entry_that_is_being_built_is_not_removed(tmp_path):
    cache, _ = _cache(tmp_path)
    cache.get_or_make("k", _write(b"1"))
    other, _ = _cache(tmp_path)

    def prune_meanwhile(folder: Path) -> dict[str, int]:
        assert other.prune(0) == ()
        return {}

    (tmp_path / "entries" / "k" / "data").write_bytes(b"22")
    assert _cache(tmp_path)[0].get_or_make("k", prune_meanwhile).made


@pytest.fixture
def another_process(tmp_path):
    """A process that uses the entry `used` and begins to build `begun` until it is ended."""
    program = f"""
import pathlib, sys, time
sys.path[:] = {sys.path!r}
from pytest_sdperf.builds.cache import Cache
cache = Cache(pathlib.Path({str(tmp_path)!r}), size_bytes=10**6)
cache.get_or_make("used", lambda folder: {{}})
def build(folder):
    print("ready", flush=True)
    time.sleep(600)
cache.get_or_make("begun", build)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_what_another_process_uses_stays_until_that_process_ends(tmp_path, another_process):
    _cache(tmp_path)[0].get_or_make("free", _write(b"1"))
    cache, _ = _cache(tmp_path)
    assert cache.prune(0) == ("free",)
    assert len(list((tmp_path / "entries").iterdir())) == 2
    another_process.kill()  # no farewell: nothing that it wrote is cleaned up
    another_process.wait()
    assert cache.prune(0) == ("used",)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {"door"}  # some filelocks take theirs away
    assert list((tmp_path / "entries").iterdir()) == []


def test_an_entry_is_announced_before_it_is_read(tmp_path, monkeypatch):
    _cache(tmp_path)[0].get_or_make("k", _write(b"abc"))
    verify = cache_module.verify

    def prune_meanwhile(folder, **how):
        assert _cache(tmp_path)[0].prune(0) == ()
        return verify(folder, **how)

    monkeypatch.setattr(cache_module, "verify", prune_meanwhile)
    assert not _cache(tmp_path)[0].get_or_make("k", _never).made


def test_a_cache_that_shrinks_by_itself_spares_what_was_used_a_moment_ago(tmp_path):
    for key in ("old", "recent"):
        path = _cache(tmp_path)[0].get_or_make(key, _write(bytes(400_000))).path
    os.utime(path.parent / "old" / "manifest.json", (1000, 1000))
    cache, _ = _cache(tmp_path, 1)
    cache.get_or_make("new", _write(b"1"))
    assert set(cache.info().keys) == {"recent", "new"}
    assert cache.prune(0) == ("recent",)


def test_room_is_made_for_one_more_like_the_largest_and_what_is_gone_is_built_again(tmp_path):
    cache, _ = _cache(tmp_path, 1_300_000)
    for key in ("a", "b", "c"):
        cache.get_or_make(key, _write(bytes(400_000)))
    cache.get_or_make("a", _never)
    assert not cache.make_room(own=False)  # in use: a limit removes nothing that this process may be loading
    assert set(cache.info().keys) == {"a", "b", "c"}
    assert cache.make_room()
    assert set(cache.info().keys) == {"a", "c"}
    assert cache.get_or_make("b", _write(bytes(400_000))).made


def test_what_nobody_uses_makes_room_before_what_this_process_does(tmp_path):
    for key in ("old", "new"):
        path = _cache(tmp_path)[0].get_or_make(key, _write(bytes(400_000))).path
    for key in ("old", "new"):
        os.utime(path.parent / key / "manifest.json", (1000, 1000))
    cache, _ = _cache(tmp_path, 900_000)
    cache.get_or_make("old", _never)
    assert cache.make_room(own=False)
    assert cache.info().keys == ("old",)


def test_a_disk_that_is_nearly_full_has_no_room(tmp_path, monkeypatch):
    cache, _ = _cache(tmp_path)
    cache.get_or_make("a", _write(bytes(1000)))
    assert cache.make_room()
    monkeypatch.setattr(cache_module, "free_bytes", lambda folder: 1000)
    cache.get_or_make("b", _write(bytes(500)))
    assert not cache.make_room(own=False)
    assert cache.make_room()
    assert cache.info().keys == ("b",)


def test_there_is_room_while_nothing_is_stored(tmp_path):
    assert _cache(tmp_path / "none", 0)[0].make_room()


def test_no_room_is_made_of_what_another_process_uses(tmp_path, another_process):
    cache, _ = _cache(tmp_path, 0)
    for key in ("used", "own"):
        cache.get_or_make(key, _write(b"1"))
    assert not cache.make_room()
    assert cache.info().keys == ("used",)


def test_what_others_used_a_moment_ago_stays_though_there_is_no_room(tmp_path):
    """Where a file system keeps no locks, only its age tells that another process loads an entry."""
    others, _ = _cache(tmp_path)
    made_by_others = others.get_or_make("a", _write(b"1")).path
    others.size_bytes = 10**6
    del others
    cache, _ = _cache(tmp_path, 0)
    cache.get_or_make("a", _never)
    cache.get_or_make("b", _write(b"1"))
    own = cache.get_or_make("c", _write(b"1")).path
    later_s = time.time() + 1
    os.utime(own / "manifest.json", (later_s, later_s))  # as another process does that loads it
    assert not cache.make_room()
    assert set(cache.info().keys) == {"a", "c"}
    os.utime(made_by_others / "manifest.json", (1000, 1000))
    assert not cache.make_room()
    assert cache.info().keys == ("c",)


def test_a_cache_that_became_read_only_makes_no_room_without_a_word(tmp_path, monkeypatch):
    cache, _ = _cache(tmp_path, 1)
    cache.get_or_make("a", _write(b"1"))

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cache._uses, "remove", refuse)
    assert not cache.make_room()
    assert cache.info().keys == ("a",)


def test_a_lock_file_that_is_removed_while_others_wait_still_lets_one_build(tmp_path):
    cache, _ = _cache(tmp_path)
    locks = KeyLocks(tmp_path / "locks", say=lambda text: None)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        with cache._uses.door():
            pass
        with locks.wait_for("k"):
            waiting = [pool.submit(cache.get_or_make, "k", _write(b"1")) for _ in range(2)]
            time.sleep(0.2)
            locks.forget("k")
        assert sorted(one.result().made for one in waiting) == [False, True]


def test_a_process_that_waits_for_itself_does_not_speak_of_another(tmp_path, monkeypatch):
    monkeypatch.setattr(key_locks, "_WAIT_BEFORE_SAYING_S", 0.05)
    said = []
    held, other = threading.Event(), KeyLocks(tmp_path, say=said.append)

    def hold(locks):
        with locks.wait_for("weights-1c2f"):
            held.set()
            time.sleep(0.3)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(hold, KeyLocks(tmp_path, say=said.append))
        assert held.wait(5)
        with other.wait_for("weights-1c2f"):
            assert said == []
    # What another process holds, this one does not know of.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = filelock.FileLock(tmp_path / "weights-1c2f.lock")
        waiting.acquire()
        done = pool.submit(hold, other)
        time.sleep(0.2)
        waiting.release()
        done.result()
    assert said == ["waiting for another process that builds weights-1c2f"]


def test_info_of_a_cache_that_does_not_exist_yet(tmp_path):
    info = _cache(tmp_path / "nothing")[0].info()
    assert (info.entries, info.size_bytes, info.keys) == (0, 0, ())
    assert not (tmp_path / "nothing").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no mode bits")
def test_folders_are_private_to_their_user(tmp_path):
    path = _cache(tmp_path / "c")[0].get_or_make("k", _write(b"1")).path
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, tmp_path / "c", tmp_path / "c" / "locks")}
    assert modes == {0o700}


@pytest.fixture
def no_privileges():
    if not hasattr(os, "geteuid"):
        pytest.skip("needs POSIX users")
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    yield
    if was == 0:
        os.seteuid(0)


def test_read_only_folder_says_what_to_type(tmp_path, no_privileges):
    folder = tmp_path / "ro"
    if os.getuid() != 0:
        folder.mkdir(mode=0o500)
    with pytest.raises(CacheError) as raised:
        _cache(folder / "c")[0].get_or_make("k", _never)
    assert str(raised.value) == (
        f"the cache folder {folder / 'c'} cannot be written: Permission denied. Make it writable, or choose another "
        f"folder with --sdperf-cache-dir=FOLDER."
    )


def test_a_file_in_place_of_the_folder_says_what_to_type(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CacheError) as raised:
        _cache(tmp_path / "file")[0].get_or_make("k", _never)
    assert str(raised.value) == (
        f"the cache folder {tmp_path / 'file'} cannot be written: File exists. Make it writable, or choose another "
        f"folder with --sdperf-cache-dir=FOLDER."
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_full_disk_says_what_to_type_and_leaves_nothing(tmp_path):
    def make(folder: Path) -> dict[str, int]:
        (folder / "half").write_bytes(b"1")
        Path("/dev/full").write_bytes(bytes(10**6))
        return {}

    with pytest.raises(CacheError) as raised:
        _cache(tmp_path)[0].get_or_make("k", make)
    assert str(raised.value) == (
        f"the disk of the cache folder {tmp_path} is full: No space left on device. Make room with "
        f"`sdperf cache prune`, or choose another folder with --sdperf-cache-dir=FOLDER."
    )
    assert list((tmp_path / "entries").iterdir()) == []


def test_full_disk_is_recognised_in_what_safetensors_raises(tmp_path):
    from safetensors import SafetensorError

    def make(folder: Path) -> dict[str, int]:
        # Its text on a full tmpfs, safetensors 0.8.
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with pytest.raises(CacheError, match="is full: No space left on device"):
        _cache(tmp_path)[0].get_or_make("k", make)


def test_served_from_a_folder_that_became_read_only(tmp_path, monkeypatch):
    def refuse(*arguments: object, **keywords: object) -> None:
        raise PermissionError

    _cache(tmp_path)[0].get_or_make("k", _write(b"1"))
    for name in ("utime", "mkdir", "open"):
        monkeypatch.setattr(os, name, refuse)
    assert not _cache(tmp_path)[0].get_or_make("k", _never).made


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=6), st.randoms())
def test_content_key_does_not_depend_on_order(parts, random):
    items = list(parts.items())
    random.shuffle(items)
    assert content_key(dict(items)) == content_key(parts)


def _strict(value: object) -> object:
    if isinstance(value, dict):
        return ("dict", frozenset((key, _strict(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(_strict(item) for item in value))
    return (type(value).__name__, repr(value))


@given(json_values, json_values)
def test_content_key_is_type_sensitive(first, second):
    same = _strict(first) == _strict(second)
    assert (content_key({"v": first}) == content_key({"v": second})) is same


@pytest.mark.parametrize("pair", [(1, 1.0), (1, "1"), (1, True), (0, None), (0, False), ([1], {"0": 1}), ("", None)])
def test_content_key_tells_similar_values_apart(pair):
    assert content_key({"v": pair[0]}) != content_key({"v": pair[1]})


def test_content_key_is_stable_across_releases():
    assert content_key({"opset": 18, "shapes": ("static",)}) == "42abafc2445cc351b307ef6e7dac9c5c"


def test_content_key_refuses_what_json_would_merge():
    with pytest.raises(TypeError) as raised:
        content_key({"axes": {0: "batch"}})
    assert str(raised.value) == "a content key holds text keys only, not 0"
    with pytest.raises(TypeError):
        content_key({"path": Path()})


def test_manifest_records_every_file_and_where_it_was_built(tmp_path, monkeypatch):
    monkeypatch.setattr(clock, "today_utc", lambda: "2026-11-28T10:00Z")
    built = Built("run 1", "cpu-amd-epyc-2c", "abc")
    cache = Cache(tmp_path, size_bytes=10**9, built=built)
    entry = cache.get_or_make("k", _write(b"abc"))
    assert (entry.now, entry.built) == (True, Built("run 1", "cpu-amd-epyc-2c", "abc", "2026-11-28T10:00Z"))
    assert cache.get_or_make("k", _write(b"abc")).now
    for other, now in ((built, True), (Built("run 2"), False), (UNKNOWN, False)):
        assert Cache(tmp_path, size_bytes=10**9, built=other).get_or_make("k", _write(b"abc")).now is now
    assert json.loads((entry.path / "manifest.json").read_text()) == {
        "schema": 1,
        "files": {
            "data": {
                "bytes": 3,
                "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            }
        },
        "metadata": {"length": 3},
        "built": {"run": "run 1", "host": "cpu-amd-epyc-2c", "commit": "abc", "date": "2026-11-28T10:00Z"},
    }


def test_an_entry_of_an_older_version_does_not_say_where_it_was_built(tmp_path):
    entry = _cache(tmp_path)[0].get_or_make("k", _write(b"abc"))
    manifest = json.loads((entry.path / "manifest.json").read_text())
    del manifest["built"]
    (entry.path / "manifest.json").write_text(json.dumps(manifest))
    found = _cache(tmp_path)[0].peek("k")
    assert (found.now, found.built) == (False, UNKNOWN)
