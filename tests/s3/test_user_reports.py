"""user_reports.md: every reported fault has tests, and every test it names is in the tree."""
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
ENTRIES = [str(number) for number in range(1, 31)] + [f"R{number}" for number in range(1, 13)]


def rows():
    """{entry: [names of tests]}"""
    found = {}
    for line in (HERE / "user_reports.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and re.fullmatch(r"R?\d+", cells[0]):
            assert cells[0] not in found, f"entry {cells[0]} comes twice"
            found[cells[0]] = cells[2].split()
    return found


def exists(name):
    """The file is there and defines the function: def in Python; in C a test that its group runs, not only defines."""
    path, _, function = name.partition("::")
    if not (TESTS / path).is_file():
        return False
    text = (TESTS / path).read_text()
    if not function:
        return True
    if path.endswith(".py"):
        return re.search(rf"^ *(?:async )?def {re.escape(function)}\(", text, re.M) is not None
    return re.search(rf"cmocka_unit_test\w*\({re.escape(function)}\b", text) is not None


def test_every_entry_has_a_row():
    """An entry that is left out would be forgotten."""
    assert sorted(rows(), key=ENTRIES.index) == ENTRIES


@pytest.mark.parametrize("entry", ENTRIES)
def test_named_tests_exist(entry):
    """A renamed or removed test must not leave a report without one."""
    names = rows()[entry]
    assert names, f"entry {entry} has no test"
    assert [name for name in names if not exists(name)] == []


def test_this_check_can_fail():
    """Names that are near a test's, or only defined, are not tests."""
    for name in ("s3/test_lists.py::test_every_entry", "s3/none.py::test_a", "unit/datad/test_repair.c::main",
                 "s3/test_lists.py::walk2"):
        assert not exists(name), name
