#!/usr/bin/env python3
"""The SDKs of other languages against build/kist, with their defaults: Go (aws-sdk-go-v2, minio-go), JavaScript
(aws-sdk v3, minio-js), Java (aws-sdk v2), Python (minio). Third-party code comes from the package registries into
build/sdk; boto3 has tests/s3. Closing line: `N passed, N failed`.

    tests/clients/sdks.py [go js java python]
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
from kist import ACCESS_KEY, ROOT, SECRET_KEY, Server, clean_environment  # noqa: E402

SOURCES = HERE / "sdk"
WORK = ROOT / "build" / "sdk"
BUILD_S, RUN_S = 1200, 300


def copied(language):
    """A copy of the sources below build/, where their packages go."""
    path = WORK / language
    path.mkdir(parents=True, exist_ok=True)
    for source in (SOURCES / language).iterdir():
        target = path / source.name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy(source, target)
    return path


def run(command, path, **environment):
    env = clean_environment(environment)
    env.pop("AWS_CA_BUNDLE", None)
    subprocess.run(command, cwd=path, env=env, check=True, timeout=BUILD_S)


def go():
    path = copied("go")
    run(["go", "build", "-o", "check", "."], path, GOTOOLCHAIN="auto", GOFLAGS="-mod=mod")
    return [str(path / "check")]


def js():
    path = copied("js")
    if not (path / "node_modules").exists():
        run(["npm", "install", "--no-audit", "--no-fund", "--silent"], path)
    return ["node", str(path / "main.mjs")]


def java():
    path = copied("java")
    if not (path / "lib").exists():
        run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], path)
    run(["javac", "-cp", "lib/*", "-d", ".", "Check.java"], path)
    return ["java", "-Dfile.encoding=UTF-8", "-cp", f"{path}:{path}/lib/*", "Check"]


def python():
    path = WORK / "python"
    if not (path / "bin" / "pip").exists():
        run([sys.executable, "-m", "venv", str(path)], ROOT)
    run([str(path / "bin" / "pip"), "install", "-q", "minio"], ROOT)
    return [str(path / "bin" / "python"), str(SOURCES / "python" / "check.py")]


LANGUAGES = {"go": go, "js": js, "java": java, "python": python}


def main():
    passed = failed = 0
    with Server() as server:
        env = clean_environment({"SDK_ENDPOINT": server.endpoint, "SDK_ACCESS_KEY": ACCESS_KEY,
                                 "SDK_SECRET_KEY": SECRET_KEY, "AWS_EC2_METADATA_DISABLED": "true"})
        env.pop("AWS_CA_BUNDLE", None)
        for language in sys.argv[1:] or LANGUAGES:
            done = subprocess.run(LANGUAGES[language](), env=env, cwd=WORK, text=True, capture_output=True, timeout=RUN_S)
            good = done.stdout.count("\nok ") + done.stdout.startswith("ok ")
            bad = done.stdout.count("\nFAIL ") + done.stdout.startswith("FAIL ")
            if good == 0 or (done.returncode != 0 and bad == 0):
                bad += 1
                print(done.stderr[-2000:])
            print(done.stdout, end="", flush=True)
            passed += good
            failed += bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    os.makedirs(WORK, exist_ok=True)
    sys.exit(main())
