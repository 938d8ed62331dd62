#!/usr/bin/env python3
"""Checks that read the tree and need nothing installed: who may include what, which calls are banned where, sizes of
files and functions, words that must not be in the repository. Run by `make test` before anything else.

Closing line `N passed, N failed`: one per file. A line ending in a comment `tidy: NAME` is excused from check NAME.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 1000     # hard; above 600 the head comment needs a sentence (checked by readers)
FUNCTION_MAX = 70
FUNCTION_MAX_TESTS = 120  # tests hold tables
LINE_MAX = 120       # clang-format keeps code at 100; strings may stand out

# Roles never include one another; only cli joins them.
ROLES = ("gateway", "metad", "datad", "lb")
ALLOWED = {
    "proto": {"proto"},
    "common": {"common", "proto"},
    **{role: {role, "common", "proto"} for role in ROLES},
    "cli": {"cli", "common", "proto", *ROLES},
    "tests": {"tests", "cli", "common", "proto", *ROLES},
}

# Library header -> who may include it.
LIBRARIES = [
    (r"uv\.h|liburing\.h", r"common/env/"),
    (r"rocksdb/.*", r"common/kv/"),
    (r"raft\.h", r"metad/raft/consensus\.c"),
    (r"llhttp\.h", r"gateway/http/parser\.c"),
    (r"openssl/.*", r"common/crypto/|gateway/http/tls|tests/unit/gateway/test_http_tls\.c"),
    (r"isa-l.*|isal.*", r"common/ec/|common/codec/"),
    (r"expat\.h", r"gateway/xml/"),
    (r"jansson\.h", r"cli/admin/|gateway/"),
    (r"ini\.h", r"common/config/"),
    (r"pthread\.h|sys/socket\.h|netinet/.*|arpa/inet\.h|netdb\.h|sys/eventfd\.h", r"common/env/|tests/"),
    (r"fcntl\.h|dirent\.h|sys/stat\.h|sys/statvfs\.h|sys/file\.h|sys/uio\.h", r"common/env/|tests/"),
]

# Call -> who may make it (None: nobody).
CALLS = [
    (r"sprintf|vsprintf|strcpy|strcat|strncat|strtok|gets|alloca|atoi|atol|atof|strncpy", None),
    (r"malloc|calloc|realloc|aligned_alloc", r"common/base/mem\.c|tests/"),
    (r"time|gettimeofday|clock_gettime|nanosleep|usleep|sleep", r"common/env/|common/log/|tests/"),
    (r"rand|srand|random|drand48|getrandom", r"common/env/|tests/"),
    (r"socket|bind|listen|accept|connect|send|recv|sendmsg|recvmsg", r"common/env/|tests/"),
    (r"fopen|fread|opendir|pread|pwrite|fsync|fdatasync|ftruncate|fallocate|mkdir|rmdir|rename|unlink",
     r"common/env/|tests/"),
    (r"pthread_\w+", r"common/env/|tests/"),
    (r"assert", r"tests/"),
]

# The repository names no registries, no machine's paths.
# Package registries by the shape of their names, and paths of the machine this checkout lies on.
HOSTS = r"\b(?:registry|proxy|repo[0-9]?|deb|files|static|index|mirror)\.[a-z0-9-]+\.(?:org|io|com|net)\b"
WORDS = re.compile(HOSTS + "|" + re.escape(str(ROOT)) + r"\b")


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout
    return [p for p in listed.split("\0") if p and (ROOT / p).is_file()]


def without_comments(text):
    """Comments and strings blanked, lines kept: what is left is code."""
    pattern = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def excused(line, name):
    return f"tidy: {name}" in line


def check_includes(path, lines):
    top = path.split("/")[0]
    for number, line in enumerate(lines, 1):
        quoted = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        angled = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
        if excused(line, "include"):
            continue
        if quoted and top in ALLOWED and quoted.group(1).split("/")[0] not in ALLOWED[top]:
            yield number, f"{top} must not include {quoted.group(1)}"
        if quoted and top == "gateway" and path.startswith("gateway/http/") and quoted.group(1).startswith("gateway/s3/"):
            yield number, "gateway/http must not include gateway/s3"
        if quoted and path.startswith("metad/raft/") and quoted.group(1).startswith("metad/store/"):
            yield number, "metad/raft must not include metad/store"
        if quoted and path.startswith("common/base/") and not quoted.group(1).startswith("common/base/"):
            yield number, "common/base includes nothing above it"
        name = (angled or quoted).group(1) if angled or quoted else ""
        for library, allowed in LIBRARIES:
            if name and re.fullmatch(library, name) and not re.match(allowed, path):
                yield number, f"<{name}> belongs to {allowed}"


def check_calls(path, raw, code):
    for number, line in enumerate(code, 1):
        for names, allowed in CALLS:
            found = re.search(rf"(?<![\w.>])({names})\s*\(", line)
            if found and not (allowed and re.match(allowed, path)) and not excused(raw[number - 1], "call"):
                # A member of a table of functions (env->file->rename) is not the call; a declaration is none either.
                yield number, f"{found.group(1)}() is not called here"
        if re.search(r"^\s*goto\s+again|^\s*goto\s+retry", line):
            yield number, "goto backwards"


def check_functions(code, most):
    """Bodies begin with a { in the first column and end with a } there (Linux brace style)."""
    begin = None
    for number, line in enumerate(code, 1):
        if line.rstrip() == "{":
            begin = number
        elif line.startswith("}") and begin is not None:
            if number - begin - 1 > most:
                yield begin, f"function of {number - begin - 1} lines, at most {most}"
            begin = None


def check_source(path):
    text = (ROOT / path).read_text(errors="replace")
    raw = text.split("\n")
    code = without_comments(text).split("\n")
    yield from check_includes(path, raw)
    if path.endswith((".c", ".h")):
        yield from check_calls(path, raw, code)
        yield from check_functions(code, FUNCTION_MAX_TESTS if path.startswith("tests/") else FUNCTION_MAX)
        if len(raw) > LINES_MAX:
            yield len(raw), f"{len(raw)} lines, at most {LINES_MAX}"
        beside = path.endswith(".c") and (ROOT / path).with_suffix(".h").exists()
        if not beside and not text.lstrip().startswith("/*"):
            first = re.sub(r'(?m)^#include.*\n|^\s*\n', "", text)
            if not first.startswith("/*"):
                yield 1, "no head comment"
    if path.endswith(".h"):
        guard = re.sub(r"[^A-Z0-9]", "_", path.upper())
        if f"#ifndef {guard}" not in text:
            yield 1, f"guard is not {guard}"
    for number, line in enumerate(raw, 1):
        if path.endswith((".c", ".h")) and not path.startswith("tests/") and len(code[number - 1].rstrip()) > LINE_MAX:
            yield number, f"line of {len(line)}"
        if line != line.rstrip():
            yield number, "blanks at the end"


def check_words(path):
    if path == "tests/tidy/tidy.py":
        return
    try:
        text = (ROOT / path).read_text()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.split("\n"), 1):
        if WORDS.search(line):
            yield number, "names a registry or a path of one machine"


def check_format_beside(paths):
    """Folders with persistent formats have a FORMAT.md."""
    for folder in ("cli", "datad/store", "metad/store", "metad/log"):
        if any(p.startswith(folder + "/") for p in paths) and f"{folder}/FORMAT.md" not in paths:
            yield f"{folder}/FORMAT.md", "is missing"
    folders = {str(Path(p).parent) for p in paths if p.endswith(".c") and not p.startswith("tests/")}
    for folder in sorted(folders):
        above = [folder, *map(str, Path(folder).parents)][:-1]
        if not any(f"{f}/README.md" in paths for f in above):
            yield f"{folder}/README.md", "is missing (here or above)"


def main():
    paths = tracked()
    passed = failed = 0
    for path in paths:
        found = list(check_words(path))
        if path.endswith((".c", ".h", ".def", ".cc")):
            found += list(check_source(path))
        for number, text in found:
            print(f"{path}:{number}: {text}")
        failed += 1 if found else 0
        passed += 0 if found else 1
    for path, text in check_format_beside(set(paths)):
        print(f"{path}: {text}")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
