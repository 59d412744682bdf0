"""A local Spark whose Python processes import the installed PySpark."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from slidejoin.spark.job import spark_home
from slidejoin.spark.job.spark_home import link_spark_home, use_unzipped_home

if TYPE_CHECKING:
    import pytest

LOCAL = "local[2]"


def test_links_lead_to_the_installed_spark(tmp_path: Path) -> None:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    installed = Path(found.origin).parent
    folder = tmp_path / "home"
    for _ in range(2):  # once made it stays
        assert link_spark_home(folder)
        assert sorted(path.name for path in folder.iterdir()) == ["bin", "jars", "sbin"]
        assert all((folder / name).resolve() == (installed / name).resolve() for name in ("bin", "jars", "sbin"))
    (folder / "jars").unlink()
    (folder / "jars").symlink_to(tmp_path)  # that of a PySpark that was there before
    assert link_spark_home(folder)
    assert (folder / "jars").resolve() == (installed / "jars").resolve()


def test_without_a_spark_of_its_own_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(spark_home, "find_spec", lambda _: None)
    assert not link_spark_home(tmp_path / "home")
    use_unzipped_home(LOCAL, {})
    assert "SPARK_HOME" not in os.environ


def test_a_folder_that_is_named_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    use_unzipped_home(LOCAL, {})
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_other_pythons_and_other_machines_keep_the_zip(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is where they have PySpark from."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    use_unzipped_home("spark://master:7077", {})
    use_unzipped_home("local-cluster[2,1,1024]", {})
    use_unzipped_home(LOCAL, {"spark.pyspark.python": "/opt/other/python"})
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/other/python")
    use_unzipped_home(LOCAL, {})
    assert "SPARK_HOME" not in os.environ


def test_the_folder_is_removed_as_the_process_ends() -> None:
    code = (
        "import os; from slidejoin.spark.job.spark_home import use_unzipped_home; use_unzipped_home('local', {}); "
        "home = os.environ['SPARK_HOME']; assert os.path.isfile(home + '/bin/spark-submit'); print(home)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert not Path(ran.stdout.strip()).exists()
