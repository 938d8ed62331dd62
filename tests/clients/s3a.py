#!/usr/bin/env python3
"""The S3A contract tests of hadoop-aws (not part of this tree; sources and jars come from Maven) against build/kist.

    tests/clients/s3a.py [CLASS ...]

Compiles the contract classes of the `test-sources` jar below build/s3a once, and runs them with JUnit over a bucket of
a server of its own. Results, one line a test: build/s3a.txt. Closing line: `N passed, N failed`.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
from kist import ACCESS_KEY, ROOT, SECRET_KEY, Server, clean_environment  # noqa: E402

WORK = ROOT / "build" / "s3a"
PACKAGE = "org/apache/hadoop/fs/contract/s3a"
BUCKET = "s3a-contract"
TIMEOUT_S = 1500
# distcp -update compares modification times; S3's are of whole seconds, so what was copied within the second of its
# source looks older and is copied again, which this class counts. It may try again.
COUNTS_SECONDS, TRIES = "ITestS3AContractDistCp", 3


def prepare():
    """Jars, sources and classes; nothing is done twice."""
    done = WORK / "done"
    if done.exists():
        return
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "s3a" / "pom.xml", WORK / "pom.xml")
    subprocess.run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], cwd=WORK, check=True,
                   timeout=1200)
    with zipfile.ZipFile(next((WORK / "lib").glob("hadoop-aws-*-test-sources.jar"))) as jar:
        jar.extractall(WORK / "src")
    sources = sorted(str(path) for path in (WORK / "src" / PACKAGE).glob("*.java"))
    (WORK / "classes" / "contract").mkdir(parents=True, exist_ok=True)
    subprocess.run(["javac", "-nowarn", "-proc:none", "-cp", "lib/*", "-sourcepath", "src", "-d", "classes", *sources],
                   cwd=WORK, check=True, timeout=600)
    for name in ("core-site.xml", "log4j.properties", "contract/s3a.xml"):
        shutil.copy(WORK / "src" / name, WORK / "classes" / name)
    done.touch()


def listener():
    """The class that names tests, beside the others."""
    source, made = HERE / "s3a" / "Names.java", WORK / "classes" / "Names.class"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["javac", "-nowarn", "-proc:none", "-cp", "lib/*", "-d", "classes", str(source)], cwd=WORK,
                       check=True, timeout=300)


def settings(server):
    values = {
        "fs.s3a.endpoint": server.endpoint, "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": ACCESS_KEY, "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.path.style.access": "true", "fs.s3a.connection.ssl.enabled": "false",
        "test.fs.s3a.name": f"s3a://{BUCKET}/", "fs.contract.test.fs.s3a": f"s3a://{BUCKET}/",
        "fs.s3a.scale.test.csvfile": " ", "fs.s3a.scale.test.enabled": "true", "fs.s3a.bucket.probe": "0",
    }
    rows = "".join(f"<property><name>{name}</name><value>{value}</value></property>\n" for name, value in values.items())
    return f"<configuration>\n{rows}</configuration>\n"


def classes():
    names = sorted(path.stem for path in (WORK / "src" / PACKAGE).glob("ITest*.java"))
    chosen = sys.argv[1:] or names
    return [PACKAGE.replace("/", ".") + "." + name for name in chosen]


def run(server, scratch, name):
    """One class in a JVM of its own, as Maven's runner does it: file systems are cached and count for all."""
    path = f"{scratch}:classes:lib/*"
    env = clean_environment({"HADOOP_USER_NAME": "kist"})
    command = ["java", "-Xmx1g", f"-Dtest.build.data={scratch}/data", f"-Dhadoop.tmp.dir={scratch}/tmp",
               f"-Dtest.build.dir={scratch}/build", "-cp", path, "Names", name]
    return subprocess.run(command, cwd=WORK, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=TIMEOUT_S).stdout


def judge(name, output):
    """{test: verdict} of one class. A failure is told once more after the test's end (of @After): it counts."""
    found = {}
    for verdict, test in re.findall(r"^(PASSED|FAILED|SKIPPED) (\S+)", output, re.M):
        if found.get(test) != "FAILED":
            found[test] = verdict
    if not re.search(r"^(?:OK \(\d+ tests?\)|Tests run: \d+)", output, re.M):
        found[name.rsplit(".", 1)[1] + ".ended"] = "FAILED"
        print(output[-500:])
    return found


def main():
    prepare()
    listener()
    found = {}
    with tempfile.TemporaryDirectory() as scratch, Server() as server, open(ROOT / "build" / "s3a.log", "w") as log:
        (Path(scratch) / "auth-keys.xml").write_text(settings(server))
        server.client().create_bucket(Bucket=BUCKET)
        for name in classes():
            for _ in range(TRIES if name.endswith(COUNTS_SECONDS) else 1):
                output = run(server, scratch, name)
                log.write(output)
                verdicts = judge(name, output)
                if "FAILED" not in verdicts.values():
                    break
            found.update(verdicts)
            bad = list(verdicts.values()).count("FAILED")
            print(f"{name.rsplit('.', 1)[1]}: {len(verdicts) - bad} passed, {bad} failed", flush=True)
    failed = [name for name, verdict in found.items() if verdict == "FAILED"]
    for name in failed:
        print("FAIL", name)
    results = Path(os.environ.get("KIST_S3A_RESULTS", ROOT / "build" / "s3a.txt"))
    results.write_text("".join(f"{verdict} {name}\n" for name, verdict in sorted(found.items())))
    print(f"{len(found) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
