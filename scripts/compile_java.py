"""Compile the Java files of include/java into a jar, with the compiler that Spark ships: no JDK is needed.

    python scripts/compile_java.py FOLDER

FOLDER holds the jars that the files need, and gets txloom.jar. Does nothing where that is of these very files.
"""

import hashlib
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "include" / "java"
MADE = (1980, 1, 1, 0, 0, 0)
"""When the classes of the jar were made, as it says: equal sources make equal jars."""


def main(arguments: list[str]) -> int:
    """Compile all files, unless the jar is of them."""
    folder = Path(arguments[0]).resolve()
    jar, sources = folder / "txloom.jar", sorted(SOURCES.rglob("*.java"))
    known = hashlib.sha256(b"\0".join(each.read_bytes() for each in sources)).hexdigest().encode()
    if jar.is_file() and zipfile.ZipFile(jar).comment == known:
        return 0
    with tempfile.TemporaryDirectory() as made:
        compile_into(Path(made), sources, sorted(folder.glob("*.jar")))
        unfinished = jar.with_suffix(".new")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in sorted(Path(made).rglob("*.class")):
                packed.writestr(zipfile.ZipInfo(file.relative_to(made).as_posix(), MADE), file.read_bytes())
            packed.comment = known
        unfinished.replace(jar)
    return 0


def compile_into(folder: Path, sources: list[Path], jars: list[Path]) -> None:
    """Compile files into a folder; raises Py4JJavaError with the compiler's message."""
    from pyspark.java_gateway import launch_gateway

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    gateway = launch_gateway()
    java: Any = gateway.jvm
    spark = sorted(Path(spark_home()).joinpath("jars").glob("*.jar"))

    def files(paths: list[Path]) -> Any:
        made = gateway.new_array(java.java.io.File, len(paths))
        for number, path in enumerate(paths):
            made[number] = java.java.io.File(str(path))
        return made

    compiler = java.org.codehaus.janino.Compiler()
    compiler.setClassPath(files([*jars, *spark]))
    compiler.setDestinationDirectory(java.java.io.File(str(folder)), False)
    compiler.compile(files(sources))
    gateway.shutdown()


def spark_home() -> str:
    """Return the folder of pyspark."""
    import pyspark

    return str(Path(pyspark.__file__).parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
