"""A real MariaDB server for tests, in a directory of its own, on a free port of this machine."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

PASSWORD = "p@ss/word"


@contextlib.contextmanager
def mariadb(place: Path) -> Iterator[str]:
    """The server's URL; the server ends with the context."""
    missing = [name for name in ("mariadbd", "mysql_install_db") if shutil.which(name) is None]
    if missing:
        raise RuntimeError(f"{', '.join(missing)} not found: apt-get install mariadb-server")
    data = place / "data"
    subprocess.run(
        ["mysql_install_db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db",
         "--auth-root-authentication-method=normal"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = f"CREATE USER judge@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
    words += "GRANT ALL ON *.* TO judge@'127.0.0.1' WITH GRANT OPTION;\n"
    init = place / "init.sql"
    init.write_text(words)
    server = subprocess.Popen(
        ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={place / 's'}",
         f"--port={port}", "--bind-address=127.0.0.1", f"--init-file={init}", "--skip-name-resolve",
         "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite",
         "--innodb-flush-method=nosync"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert server.stderr is not None
        for line in server.stderr:  # it says so itself; the test's own time limit bounds the wait
            if b"ready for connections" in line:
                break
        else:
            raise RuntimeError("mariadbd ended before it was ready")
        yield f"mysql://judge:p%40ss%2Fword@127.0.0.1:{port}"
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.communicate(timeout=30)
        server.kill()
        server.wait()


def databases(url: str) -> set[str]:
    """What databases and accounts of ours the server has."""
    from envs.lab.db.mariadb import connect, parse_url

    with contextlib.closing(connect(parse_url(url))) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES LIKE 'agentmemlab%'")
        found = {name for (name,) in cursor.fetchall()}
        cursor.execute("SELECT user FROM mysql.user WHERE user LIKE 'agentmemlab%'")
        return found | {name for (name,) in cursor.fetchall()}
